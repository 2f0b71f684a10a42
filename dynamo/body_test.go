package dynamo_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
)

// meter is an http.RoundTripper that counts.
type meter struct {
	next http.RoundTripper

	mu             sync.Mutex
	calls          []string
	sent, received []int // bytes of bodies, by call
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	m.calls = append(m.calls, call)
	m.sent, m.received = append(m.sent, int(r.ContentLength)), append(m.received, len(body))
	return resp, err
}

// take tells how many calls of a name there were since it was last asked, and how many in all, with their bytes.
func (m *meter) take(call string) (of, all, sent, received int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range m.calls {
		if c == call {
			of++
		}
		sent, received = sent+m.sent[i], received+m.received[i]
	}
	all = len(m.calls)
	m.calls, m.sent, m.received = nil, nil, nil
	return of, all, sent, received
}

// export is an operation with results of any size.
func export(t *testing.T, s idem.Store) *idem.Operation[json.RawMessage] {
	t.Helper()
	op, err := idem.New[json.RawMessage](s, idem.InsecureCleartext(), "export", &idem.Options{MaxResult: 6 << 20, Reserve: 10 * time.Second, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// result is JSON of exactly n bytes.
func result(n int) json.RawMessage {
	b := make([]byte, n)
	rand.Read(b)
	text := base64.StdEncoding.EncodeToString(b)[:n-2]
	return json.RawMessage(`"` + text + `"`)
}

func mustNotRun(context.Context) (json.RawMessage, error) { return nil, errors.New("ran again") }

// TestLargeResults: the first answer and every replay are the same bytes, by as many requests as there are bodies more; and a
// refused claim pays for none.
func TestLargeResults(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table := e.Table(t)
		m := &meter{next: &http.Transport{}}
		s, err := dynamo.New(clientOver(m, e.URL), table, nil)
		if err != nil {
			t.Fatal(err)
		}
		op := export(t, s)
		const sealing = len("IDEMCLEAR1")
		for _, row := range []struct{ size, bodies int }{{4<<10 - sealing, 0}, {4<<10 - sealing + 1, 1}, {350_000, 1}, {400_000, 2}, {6 << 20, 17}} {
			want := result(row.size)
			r := idem.Request{Tenant: "t", Key: strconv.Itoa(row.size), Payload: idem.AnyPayload{}}
			if _, err := s.Generation(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.take("")
			first, err := op.Do(t.Context(), r, func(context.Context) (json.RawMessage, error) { return slices.Clone(want), nil })
			if err != nil || first.Outcome != idem.Executed || !bytes.Equal(first.Raw, want) {
				t.Fatalf("%d bytes: first: %v, %d bytes, error %v", row.size, first.Outcome, len(first.Raw), err)
			}
			writes, all, sent, received := m.take("UpdateItem")
			if writes != 2+row.bodies || all != writes || received > all*200 {
				t.Errorf("%d bytes: first: %d writes of %d requests, %d bytes received; want %d", row.size, writes, all, received, 2+row.bodies)
			}
			t.Logf("%d bytes: first execution: %d requests, %d bytes sent, %d received", row.size, all, sent, received)

			again, err := op.Do(t.Context(), r, mustNotRun)
			if err != nil || again.Outcome != idem.Replayed || !bytes.Equal(again.Raw, want) {
				t.Fatalf("%d bytes: replay: %v, %d bytes, error %v", row.size, again.Outcome, len(again.Raw), err)
			}
			reads, all, sent, received := m.take("GetItem")
			if reads != row.bodies || all != 1+reads || sent > all*2500 {
				t.Errorf("%d bytes: replay: %d reads of %d requests, %d bytes sent; want one write and %d reads", row.size, reads, all, sent, row.bodies)
			}
			t.Logf("%d bytes: replay: %d requests, %d bytes sent, %d received", row.size, all, sent, received)

			r.Payload = "another"
			_, err = op.Do(t.Context(), r, mustNotRun)
			if _, ok := errors.AsType[*idem.MismatchError](err); !ok {
				t.Errorf("%d bytes: another payload: %v", row.size, err)
			}
			_, all, _, received = m.take("")
			if all != 1 || row.bodies > 0 && received > 2000 {
				t.Errorf("%d bytes: refused claim: %d requests, %d bytes received", row.size, all, received)
			}
			t.Logf("%d bytes: refused claim: %d requests, %d bytes received", row.size, all, received)
		}
		everyItemIsSmall(t, e, table)
	})
}

// everyItemIsSmall looks at what is really in the table: records with bodies are of one write unit, bodies below the limit of an item.
func everyItemIsSmall(t *testing.T, e engine.Engine, table string) {
	t.Helper()
	n := 0
	eachItem(t, engine.Client(e.URL), table, func(item map[string]types.AttributeValue) {
		size, limit := dynamo.ItemSize(item), 400<<10
		if item["bn"] != nil {
			limit = 1024
		} else if item["bb"] != nil {
			n++
		}
		if size > limit {
			t.Errorf("item of %d bytes, at most %d", size, limit)
		}
	})
	if n == 0 {
		t.Error("no bodies")
	}
}

func eachItem(t *testing.T, client *dynamodb.Client, table string, f func(map[string]types.AttributeValue)) {
	t.Helper()
	for p := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			f(item)
		}
	}
}

// spilled is a completed record with n bytes of receipt, and the store it is in.
func spilled(t *testing.T, b *breakable, n int) idem.Record {
	t.Helper()
	r := claim()
	rand.Read(r.ID.Key[:])
	if _, err := b.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c := completion(r)
	rand.Read(c.Version[:])
	c.Receipt.Bytes = make([]byte, n)
	rand.Read(c.Receipt.Bytes)
	got, err := b.Swap(t.Context(), r.Version, c)
	if err != nil || got.Version != c.Version || !bytes.Equal(got.Receipt.Bytes, c.Receipt.Bytes) {
		t.Fatalf("version %x, %d bytes, error %v", got.Version, len(got.Receipt.Bytes), err)
	}
	return got
}

func (b *breakable) raw(t *testing.T, pk string) map[string]types.AttributeValue {
	t.Helper()
	out, err := b.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &b.table, Key: keyAt(pk), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func (b *breakable) setBody(t *testing.T, pk string, body []byte) {
	t.Helper()
	_, err := b.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &b.table, Key: keyAt(pk), UpdateExpression: aws.String("SET bb = :bb"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":bb": &types.AttributeValueMemberB{Value: body}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBodiesOutliveTheirRecord reads the TTL attributes.
func TestBodiesOutliveTheirRecord(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		b := open(t, e, e.Table(t))
		ttl := func(pk string) int64 {
			n, ok := b.raw(t, pk)["ex"].(*types.AttributeValueMemberN)
			if !ok {
				return 0
			}
			v, err := strconv.ParseInt(n.Value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		r := spilled(t, b, 900_000)
		check := func(what string, r idem.Record, bodies bool) {
			t.Helper()
			for i := range dynamo.Bodies(r) {
				record, body := ttl(dynamo.Key(r.ID)), ttl(dynamo.BodyKey(r, i))
				if record != r.Expires.Unix() && !r.Expires.IsZero() || bodies && body < record+3600 || !bodies && body != 0 {
					t.Errorf("%s: the record expires at %d, body %d at %d", what, record, i, body)
				}
			}
		}
		check("completed", r, true)
		step := func(what string, change func(*idem.Record)) {
			seen, err := b.Load(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			n := seen
			rand.Read(n.Version[:])
			change(&n)
			if r, err = b.Swap(t.Context(), seen.Version, n); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		b.faults.sent()
		step("verdict", func(n *idem.Record) { n.Resolved.By = "somebody" })
		if calls := b.faults.sent(); !slices.Equal(calls, []string{"GetItem", "UpdateItem"}) {
			t.Errorf("a write that leaves the receipt alone: %v", calls)
		}
		check("verdict", r, true)
		step("kept longer", func(n *idem.Record) { n.Expires = n.Expires.Add(90 * 24 * time.Hour).Round(time.Second) })
		check("kept longer", r, true)
		step("in doubt again", func(n *idem.Record) { n.State, n.Expires = idem.Indeterminate, time.Time{} })
		check("in doubt again", r, false)
	})
}

// TestCrashBetweenBodiesAndRecord leaves bodies that nobody refers to, and that TTL takes; who comes next is not held up.
func TestCrashBetweenBodiesAndRecord(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		b := open(t, e, e.Table(t))
		r := claim()
		if _, err := b.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		ctx, crash := context.WithCancel(t.Context())
		writes := 0
		b.faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if writes++; writes == 3 {
				crash()
				return nil, context.Canceled
			}
			return next.RoundTrip(r)
		})
		first := completion(r)
		first.Receipt.Bytes = make([]byte, 500_000)
		if _, err := b.Swap(ctx, r.Version, first); err == nil {
			t.Fatal("no error")
		}
		b.faults.set(nil)
		if got, err := b.Load(t.Context(), r.ID); err != nil || got.Version != r.Version || got.State != idem.Pending {
			t.Errorf("after the crash: %v, %v", got.State, err)
		}
		again := first
		again.Version, again.Receipt.Bytes = idem.Version{42}, make([]byte, 600_000)
		if got, err := b.Swap(t.Context(), r.Version, again); err != nil || got.Version != again.Version {
			t.Errorf("another attempt: %v", err)
		}
		got, err := b.Load(t.Context(), r.ID)
		if err == nil {
			got, err = b.Fetch(t.Context(), got)
		}
		if err != nil || !bytes.Equal(got.Receipt.Bytes, again.Receipt.Bytes) {
			t.Errorf("another attempt: %d bytes, %v", len(got.Receipt.Bytes), err)
		}
		n := 0
		eachItem(t, b.client, b.table, func(item map[string]types.AttributeValue) {
			if item["bb"] == nil {
				return
			}
			n++
			if _, ok := item["ex"].(*types.AttributeValueMemberN); !ok {
				t.Error("a body without TTL")
			}
		})
		if n != 4 {
			t.Errorf("%d bodies, want those of two attempts", n)
		}
	})
}

// TestLostAnswersOfBodies: each body is sent again and meets itself.
func TestLostAnswersOfBodies(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		b := open(t, e, e.Table(t))
		b.faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if i%2 == 0 {
				return lose(r, next)
			}
			return next.RoundTrip(r)
		})
		r := spilled(t, b, 900_000)
		b.faults.set(nil)
		if calls := b.faults.sent(); len(calls) != 2+2+2*(1+3) { // checked at open, claim, three bodies, record
			t.Errorf("sent %d requests: %v", len(calls), calls)
		}
		want := r.Receipt.Bytes
		got, err := b.Fetch(t.Context(), r)
		if err != nil || !bytes.Equal(got.Receipt.Bytes, want) {
			t.Errorf("%d bytes, %v", len(got.Receipt.Bytes), err)
		}
	})
}
