package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
)

// TestDamagedBodies: the effect is known to be done, its result cannot be read, and nothing runs again.
func TestDamagedBodies(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		b := open(t, e, e.Table(t))
		op := export(t, b)
		for name, damage := range map[string]func(mine, other idem.Record){
			"deleted": func(mine, _ idem.Record) {
				if torn, err := b.Tear(t.Context(), mine.ID); err != nil || !torn {
					t.Fatal(err)
				}
			},
			"torn": func(mine, _ idem.Record) {
				pk := dynamo.BodyKey(mine, 0)
				b.setBody(t, pk, b.raw(t, pk)["bb"].(*types.AttributeValueMemberB).Value[1:])
			},
			"another record's": func(mine, other idem.Record) {
				for i := range dynamo.Bodies(mine) {
					b.setBody(t, dynamo.BodyKey(mine, i), b.raw(t, dynamo.BodyKey(other, i))["bb"].(*types.AttributeValueMemberB).Value)
				}
			},
			"in another order": func(mine, _ idem.Record) {
				first, second := dynamo.BodyKey(mine, 0), dynamo.BodyKey(mine, 1)
				one, two := b.raw(t, first)["bb"].(*types.AttributeValueMemberB).Value, b.raw(t, second)["bb"].(*types.AttributeValueMemberB).Value
				b.setBody(t, first, two)
				b.setBody(t, second, one)
			},
			"no bytes": func(mine, _ idem.Record) {
				_, err := b.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &b.table, Key: keyAt(dynamo.BodyKey(mine, 1)), UpdateExpression: aws.String("REMOVE bb")})
				if err != nil {
					t.Fatal(err)
				}
			},
		} {
			var records []idem.Record
			request := func(key string) idem.Request {
				return idem.Request{Tenant: "t", Key: name + key, Payload: idem.AnyPayload{}}
			}
			for _, key := range []string{"mine", "other"} {
				b.faults.set(nil)
				if _, err := op.Do(t.Context(), request(key), func(context.Context) (json.RawMessage, error) { return result(500_000), nil }); err != nil {
					t.Fatal(err)
				}
				records = append(records, b.find(t, request(key).Key))
			}
			damage(records[0], records[1])
			_, err := op.Do(t.Context(), request("mine"), mustNotRun)
			if _, ok := errors.AsType[*idem.UnreadableError](err); !ok {
				t.Errorf("%s: %v, want an UnreadableError", name, err)
			}
			if missing := name == "deleted" || name == "no bytes"; missing != strings.Contains(err.Error(), "missing") {
				t.Errorf("%s: %v", name, err)
			}
			if _, again := idem.RetryAfter(err); again {
				t.Errorf("%s: to be tried again: %v", name, err)
			}
			if _, err := op.Look(t.Context(), request("other")); err != nil {
				t.Errorf("%s: the other record: %v", name, err)
			}
		}
	})
}

// TestBodiesOutOfReach: nothing is wrong with the receipt, so a retry gets it.
func TestBodiesOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		op := export(t, s)
		r := idem.Request{Tenant: "t", Key: "k", Payload: idem.AnyPayload{}}
		want := result(500_000)
		if _, err := op.Do(t.Context(), r, func(context.Context) (json.RawMessage, error) { return want, nil }); err != nil {
			t.Fatal(err)
		}
		for name, step := range map[string]step{"throttled": throttled, "500": says(500, "InternalServerError"), "hangs": hangs, "cut": breaks(io.ErrUnexpectedEOF)} {
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetItem") {
					return step(r, next)
				}
				return next.RoundTrip(r)
			})
			_, err := op.Do(t.Context(), r, mustNotRun)
			if _, ok := errors.AsType[*idem.UnavailableError](err); !ok {
				t.Errorf("%s: %v, want an UnavailableError", name, err)
			}
			if _, again := idem.RetryAfter(err); !again {
				t.Errorf("%s: not to be tried again: %v", name, err)
			}
		}
		faults.set(nil)
		if again, err := op.Do(t.Context(), r, mustNotRun); err != nil || !bytes.Equal(again.Raw, want) {
			t.Errorf("then: %v", err)
		}
	})
}

// TestBodiesAreNoDoubt: what is lost while bodies are written leaves nothing open.
func TestBodiesAreNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		r := claim()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		n := completion(r)
		n.Receipt.Bytes = make([]byte, 10_000)
		for name, step := range map[string]step{"lost": lose, "500": says(500, "InternalServerError"), "denied": denied, "hangs": hangs} {
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return step(r, next) })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := s.Swap(ctx, r.Version, n)
			cancel()
			if err == nil || errors.Is(err, idem.ErrAmbiguous) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
