package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/internal/engine"
)

// ledger is a table of the caller's own, beside the one of the records.
type ledger struct {
	*breakable
	entries string
	op      *idem.Operation[json.RawMessage]
}

func newLedger(t *testing.T, e engine.Engine) *ledger {
	t.Helper()
	b := open(t, e, e.Table(t))
	b.faults.sent()
	op, err := idem.New[json.RawMessage](b, idem.InsecureCleartext(), "export", &idem.Options{Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{b, e.Table(t), op}
}

// counts adds one to an entry: an effect that shows when it happens twice.
func (l *ledger) counts(entry string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &l.entries, Key: keyAt(entry), UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	}}
}

// opens makes an entry that must not be there.
func (l *ledger) opens(entry string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &l.entries, Item: keyAt(entry), ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func (l *ledger) transact(t *testing.T, key string, result json.RawMessage, items ...types.TransactWriteItem) (idem.Result[json.RawMessage], error) {
	return l.transactBy(t.Context(), key, result, items...)
}

func (l *ledger) transactBy(ctx context.Context, key string, result json.RawMessage, items ...types.TransactWriteItem) (idem.Result[json.RawMessage], error) {
	return dynamo.Transact(ctx, l.op, asked(key), func(context.Context) (json.RawMessage, []types.TransactWriteItem, error) {
		return result, items, nil
	})
}

func asked(key string) idem.Request {
	return idem.Request{Tenant: "t", Key: key, Payload: idem.AnyPayload{}}
}

// count is what an entry stands at; "" if it is not there.
func (l *ledger) count(t *testing.T, entry string) string {
	t.Helper()
	out, err := l.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &l.entries, Key: keyAt(entry), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	n, ok := out.Item["n"].(*types.AttributeValueMemberN)
	if !ok {
		return ""
	}
	return n.Value
}

func (l *ledger) present(t *testing.T, entry string) bool {
	t.Helper()
	out, err := l.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &l.entries, Key: keyAt(entry), ConsistentRead: aws.Bool(true)})
	return err == nil && len(out.Item) > 0
}

// TestTransact: the effect and its receipt, in one request; and every later request for the key is answered with the receipt.
func TestTransact(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		first, err := l.transact(t, "k", json.RawMessage(`"one"`), l.counts("a"), l.opens("b"))
		if err != nil || first.Outcome != idem.Executed {
			t.Fatalf("%v, %v", first.Outcome, err)
		}
		if calls := l.faults.sent(); !slices.Equal(calls, []string{"TransactWriteItems"}) {
			t.Errorf("sent %v", calls)
		}
		again, err := l.transact(t, "k", json.RawMessage(`"two"`), l.counts("a"), l.opens("b"))
		if err != nil || again.Outcome != idem.Replayed || !bytes.Equal(again.Raw, first.Raw) {
			t.Errorf("again: %v %s, %v", again.Outcome, again.Raw, err)
		}
		done, err := l.op.Do(t.Context(), asked("k"), mustNotRun)
		if err != nil || !bytes.Equal(done.Raw, first.Raw) {
			t.Errorf("do: %s, %v", done.Raw, err)
		}
		if n := l.count(t, "a"); n != "1" {
			t.Errorf("the effect happened %s times", n)
		}
		other := asked("k")
		other.Payload = "another"
		_, err = dynamo.Transact(t.Context(), l.op, other, func(context.Context) (json.RawMessage, []types.TransactWriteItem, error) {
			return json.RawMessage(`"x"`), []types.TransactWriteItem{l.counts("a")}, nil
		})
		if _, ok := errors.AsType[*idem.MismatchError](err); !ok {
			t.Errorf("another payload: %v", err)
		}
		own := errors.New("no such order")
		_, err = dynamo.Transact(t.Context(), l.op, asked("refused"), func(context.Context) (json.RawMessage, []types.TransactWriteItem, error) {
			return nil, []types.TransactWriteItem{l.counts("a")}, own
		})
		if err != own {
			t.Errorf("fn's own error: %v", err)
		}
		if n := l.count(t, "a"); n != "1" {
			t.Errorf("in the end the effect happened %s times", n)
		}
	})
}

// TestTransactAgainstAttempts: over what an ordinary attempt left released, and refused by what one holds.
func TestTransactAgainstAttempts(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		nothing := errors.New("nothing happened")
		if _, err := l.op.Do(t.Context(), asked("released"), func(context.Context) (json.RawMessage, error) { return nil, idem.NotApplied(nothing) }); err != nothing {
			t.Fatal(err)
		}
		if res, err := l.transact(t, "released", json.RawMessage(`1`), l.counts("a")); err != nil || res.Outcome != idem.Executed || l.count(t, "a") != "1" {
			t.Errorf("over a released record: %v, %v", res.Outcome, err)
		}
		_, err := l.op.Do(t.Context(), asked("held"), func(context.Context) (json.RawMessage, error) {
			_, err := l.transact(t, "held", json.RawMessage(`1`), l.counts("a"))
			if _, ok := errors.AsType[*idem.InProgressError](err); !ok {
				t.Errorf("against an attempt: %v", err)
			}
			return nil, errors.New("who knows")
		})
		if err == nil {
			t.Fatal("no error")
		}
		_, err = l.transact(t, "held", json.RawMessage(`1`), l.counts("a"))
		if _, ok := errors.AsType[*idem.IndeterminateError](err); !ok {
			t.Errorf("over a doubt: %v", err)
		}
		if n := l.count(t, "a"); n != "1" {
			t.Errorf("the effect happened %s times", n)
		}
	})
}

// TestTransactLostAnswers: sent again under the same token, the transaction is carried out once.
func TestTransactLostAnswers(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		for name, steps := range map[string][]step{
			"applied, answer lost":  {lose},
			"applied, answers lost": {lose, lose},
			"applied, 500":          {after(says(500, "InternalServerError"))},
			"in progress":           {lose, says(400, "TransactionInProgressException")},
			"conflict":              {canceledWith("TransactionConflict"), canceledWith("None", "TransactionConflict", "ThrottlingError")},
			"never arrived":         {fails(io.EOF)},
		} {
			tokens := l.play(steps)
			res, err := l.transact(t, name, json.RawMessage(`1`), l.counts(name), l.opens(name+" too"))
			l.faults.set(nil)
			if err != nil || res.Outcome != idem.Executed {
				t.Errorf("%s: %v, %v", name, res.Outcome, err)
			}
			if n := l.count(t, name); n != "1" {
				t.Errorf("%s: the effect happened %q times", name, n)
			}
			if got := tokens(); len(got) != len(steps)+1 || len(slices.Compact(got)) != 1 {
				t.Errorf("%s: tokens %v", name, got)
			}
		}

		// No answer ever: the record tells that both are there; or that they may yet be, and then the same request tells.
		l.play(slices.Repeat([]step{lose}, 999))
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res, err := l.transactBy(soon, "lost", json.RawMessage(`1`), l.counts("lost")); err != nil || res.Outcome != idem.Executed {
			t.Errorf("no answer: %v, %v", res.Outcome, err)
		}
		l.play(slices.Repeat([]step{fails(io.EOF)}, 999))
		soon, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.transactBy(soon, "never", json.RawMessage(`1`), l.counts("never"))
		l.faults.set(nil)
		if _, ok := errors.AsType[*idem.NotRecordedError](err); !ok {
			t.Errorf("neither answer nor trace: %v", err)
		}
		for _, key := range []string{"lost", "never"} {
			if _, err := l.transact(t, key, json.RawMessage(`1`), l.counts(key)); err != nil || l.count(t, key) != "1" {
				t.Errorf("%s, then: %v, happened %s times", key, err, l.count(t, key))
			}
		}
	})
}

// play does to each TransactWriteItems what its step says, and tells the tokens of all.
func (l *ledger) play(steps []step) func() []string {
	var mu sync.Mutex
	var tokens []string
	n := 0
	l.faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".TransactWriteItems") {
			return next.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var in struct{ ClientRequestToken string }
		json.Unmarshal(body, &in)
		mu.Lock()
		tokens = append(tokens, in.ClientRequestToken)
		i := n
		n++
		mu.Unlock()
		if i < len(steps) {
			return steps[i](r, next)
		}
		return next.RoundTrip(r)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(tokens)
	}
}

// canceledWith is the cancellation of a transaction for reasons that no engine here makes.
func canceledWith(codes ...string) step {
	var reasons []string
	for _, code := range codes {
		reasons = append(reasons, `{"Code":"`+code+`","Message":"secret"}`)
	}
	return instead(400, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"secret","CancellationReasons":[`+strings.Join(reasons, ",")+`]}`)
}

// TestTransactOwnCondition: which item was refused, and that nothing was written.
func TestTransactOwnCondition(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		if _, err := l.transact(t, "first", json.RawMessage(`1`), l.opens("order")); err != nil {
			t.Fatal(err)
		}
		l.faults.sent()
		_, err := l.transact(t, "second", json.RawMessage(`1`), l.counts("a"), l.opens("order"), l.counts("b"))
		own, ok := errors.AsType[*dynamo.CanceledError](err)
		if !ok || err != error(own) || own.Index != 1 || own.Code != "ConditionalCheckFailed" || len(own.Item) == 0 {
			t.Fatalf("%+v, %v", own, err)
		}
		if calls := l.faults.sent(); !slices.Equal(calls, []string{"TransactWriteItems"}) {
			t.Errorf("sent %v", calls)
		}
		if _, again := idem.RetryAfter(err); again || strings.Contains(err.Error(), "order") {
			t.Errorf("%v; again: %v", err, again)
		}
		if _, err := l.op.Look(t.Context(), asked("second")); !isNotFound(err) {
			t.Errorf("the key: %v", err)
		}
		if l.count(t, "a") != "" || l.count(t, "b") != "" {
			t.Error("something was written")
		}
		if res, err := l.transact(t, "second", json.RawMessage(`2`), l.counts("a"), l.opens("another order")); err != nil || res.Outcome != idem.Executed {
			t.Errorf("the same key, mended: %v, %v", res.Outcome, err)
		}
		// The key's own refusal counts more.
		if res, err := l.transact(t, "first", json.RawMessage(`2`), l.opens("order")); err != nil || res.Outcome != idem.Replayed {
			t.Errorf("both refused: %v, %v", res.Outcome, err)
		}
		// With an attempt before that may yet arrive, a refusal tells nothing.
		l.play([]step{fails(io.EOF)})
		_, err = l.transact(t, "third", json.RawMessage(`1`), l.opens("order"))
		l.faults.set(nil)
		if _, ok := errors.AsType[*dynamo.CanceledError](err); ok || !errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("after an attempt without answer: %v", err)
		}
	})
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*idem.NotFoundError](err)
	return ok
}

func TestTransactLargeResult(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		l.op = export(t, l)
		want := result(5 << 20) // more than a transaction may have
		first, err := l.transact(t, "k", want, l.counts("a"))
		if err != nil || !bytes.Equal(first.Raw, want) {
			t.Fatal(err)
		}
		again, err := l.transact(t, "k", nil, l.counts("a"))
		if err != nil || again.Outcome != idem.Replayed || !bytes.Equal(again.Raw, want) || l.count(t, "a") != "1" {
			t.Errorf("again: %v, %d bytes, %v", again.Outcome, len(again.Raw), err)
		}
	})
}

func TestTransactAtOnce(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		l := newLedger(t, e)
		var wg sync.WaitGroup
		var mu sync.Mutex
		executed := 0
		for range 16 {
			wg.Go(func() {
				res, err := l.transact(t, "k", json.RawMessage(`1`), l.counts("a"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if res.Outcome == idem.Executed {
					executed++
				}
			})
		}
		wg.Wait()
		if executed != 1 || l.count(t, "a") != "1" {
			t.Errorf("%d executed, the effect happened %s times", executed, l.count(t, "a"))
		}
	})
}

func TestTransactNeedsItsStore(t *testing.T) {
	prepares := func(context.Context) (json.RawMessage, []types.TransactWriteItem, error) {
		t.Error("ran")
		return nil, nil, nil
	}
	s, err := dynamo.New(struct{ dynamo.API }{clientOver(newFake(), "http://fake")}, "records", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []idem.Store{idemtest.NewMemory(t), s} {
		if _, err := dynamo.Transact(t.Context(), export(t, store), asked("k"), prepares); err == nil {
			t.Errorf("%T: no error", store)
		}
	}
}
