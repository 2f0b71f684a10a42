package dynamo_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
)

// paged is an http.RoundTripper that answers the pages of Scan or Query from a script: of the first segment, or of the first
// part of the index. All others end at once, by an empty map.
type paged struct {
	next  http.RoundTripper
	call  string
	pages []step
	calls []string // call, and what it starts after
}

func (p *paged) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		Segment                   int
		ExclusiveStartKey         map[string]struct{ S string }
		ExpressionAttributeValues map[string]struct{ S string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	switch {
	case call != p.call:
		p.calls = append(p.calls, call)
		return p.next.RoundTrip(r)
	case in.Segment != 0, call == "Query" && in.ExpressionAttributeValues[":iq"].S != "0":
		return instead(200, `{"Count":0,"Items":[],"ScannedCount":0,"LastEvaluatedKey":{}}`)(r, p.next)
	}
	p.calls = append(p.calls, call+" "+in.ExclusiveStartKey["pk"].S)
	if len(p.pages) == 0 {
		return nil, errors.New("no more pages")
	}
	page := p.pages[0]
	p.pages = p.pages[1:]
	return page(r, p.next)
}

// page of items, after which comes one that starts after next; none if that is empty.
func page(next string, items ...string) step {
	s := fmt.Sprintf(`{"Count":%d,"ScannedCount":500,"Items":[%s]`, len(items), strings.Join(items, ","))
	if next != "" {
		s += `,"LastEvaluatedKey":{"pk":{"S":"` + next + `"}}`
	}
	return instead(200, s+"}")
}

// stored is a record's item as JSON, and its record.
func (f *fake) stored(t *testing.T, s *dynamo.Store, state idem.State) (string, idem.Record) {
	t.Helper()
	r := claim()
	rand.Read(r.ID.Key[:])
	r.State = state
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	item, err := json.Marshal(f.items[`{"S":`+quoted(dynamo.Key(r.ID))+`}`])
	if err != nil {
		t.Fatal(err)
	}
	return string(item), r
}

func (p *paged) admin(t *testing.T) *dynamo.Admin {
	t.Helper()
	a, err := dynamo.NewAdmin(clientOver(p, "http://fake"), "records", nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// listed is what a list gives: digests of records, and errors.
func listed(t *testing.T, a *dynamo.Admin, states ...idem.State) (ids []idem.ID, errs []error) {
	t.Helper()
	for r, err := range a.List(t.Context(), "", states...) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids = append(ids, r.ID)
	}
	return ids, errs
}

// https://github.com/boto/boto/pull/1713: a filtered page without items is not the last one.
func TestScanGoesOnAfterEmptyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		item, r := f.stored(t, s, idem.Pending)
		p := &paged{next: f, call: "Scan", pages: []step{page("a"), page("b"), page("", item)}}
		ids, errs := listed(t, p.admin(t), idem.Pending)
		if len(errs) != 0 || !slices.Equal(ids, []idem.ID{r.ID}) {
			t.Errorf("got %v, %v", ids, errs)
		}
		if want := []string{"Scan ", "Scan a", "Scan b"}; !slices.Equal(p.calls, want) {
			t.Errorf("sent %v, want %v", p.calls, want)
		}
	})
}

func TestIndexGoesOnAfterEmptyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		_, r := f.stored(t, s, idem.Indeterminate)
		_, settled := f.stored(t, s, idem.Released) // since the index was written
		gone := claim()
		key := func(id idem.ID) string { return `{"pk":{"S":` + quoted(dynamo.Key(id)) + `}}` }
		p := &paged{next: f, call: "Query", pages: []step{page("a"), page("b"), page("", key(settled.ID), key(gone.ID), key(r.ID))}}
		ids, errs := listed(t, p.admin(t), idem.Indeterminate)
		if len(errs) != 0 || !slices.Equal(ids, []idem.ID{r.ID}) {
			t.Errorf("got %v, %v", ids, errs)
		}
		if want := []string{"Query ", "Query a", "Query b", "GetItem", "GetItem", "GetItem"}; !slices.Equal(p.calls, want) {
			t.Errorf("sent %v, want %v", p.calls, want)
		}
	})
}

// https://github.com/pynamodb/PynamoDB/pull/1307: an empty LastEvaluatedKey is the end.
func TestListEndsAtAnEmptyLastKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		item, r := f.stored(t, s, idem.Pending)
		for call, state := range map[string]idem.State{"Scan": idem.Pending, "Query": idem.Indeterminate} {
			p := &paged{next: f, call: call, pages: []step{page("a"), instead(200, `{"Count":1,"Items":[`+item+`],"LastEvaluatedKey":{}}`)}}
			ids, errs := listed(t, p.admin(t), state)
			if len(errs) != 0 || call == "Scan" && !slices.Equal(ids, []idem.ID{r.ID}) {
				t.Errorf("%s: got %v, %v", call, ids, errs)
			}
			if n := len(p.calls); call == "Scan" && n != 2 || call == "Query" && n != 3 { // and a GetItem
				t.Errorf("%s: sent %v", call, p.calls)
			}
		}
	})
}

func TestThrottledListBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		item, r := f.stored(t, s, idem.Pending)
		p := &paged{next: f, call: "Scan", pages: []step{page("a"), throttled, throttled, throttled, throttled, hangs, page("", item)}}
		ids, errs := listed(t, p.admin(t), idem.Pending)
		if len(errs) != 0 || !slices.Equal(ids, []idem.ID{r.ID}) {
			t.Errorf("got %v, %v", ids, errs)
		}
		if want := append([]string{"Scan "}, slices.Repeat([]string{"Scan a"}, 6)...); !slices.Equal(p.calls, want) {
			t.Errorf("sent %v, want %v", p.calls, want)
		}
		p.pages = []step{page("a"), fails(io.EOF), denied}
		ids, errs = listed(t, p.admin(t), idem.Pending)
		if len(ids) != 0 || len(errs) != 1 {
			t.Fatalf("denied: got %v, %v", ids, errs)
		}
		if err := errs[0]; errors.Is(err, idem.ErrAmbiguous) || !strings.Contains(err.Error(), "AccessDenied") {
			t.Errorf("denied: %v", err)
		}
	})
}

func TestInterruptedListSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		item, _ := f.stored(t, s, idem.Pending)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &paged{next: f, call: "Scan", pages: []step{page("a", item), page("", item)}}
		var last error
		n := 0
		for _, err := range p.admin(t).List(ctx, "") {
			n++
			last = err
			cancel()
		}
		if n != 2 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d, then %v", n, last)
		}
	})
}

// TestListGoesOnPastDamage: what is no record is passed over, what cannot be read is named, and the rest comes.
func TestListGoesOnPastDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := f.open(t, nil)
		item, r := f.stored(t, s, idem.Pending)
		newer, unread := f.stored(t, s, idem.Pending)
		key := func(pk string) string { return `{"pk":{"S":` + quoted(pk) + `}}` }
		p := &paged{next: f, call: "Scan", pages: []step{page("",
			key("!gen"), key("!superseded"), key(dynamo.Key(r.ID)+"#AAAAAAAAAAAAAAAAAAAAAA#0"), strings.Replace(newer, `"fo":{"N":"1"}`, `"fo":{"N":"9"}`, 1), key("secret"), item)}}
		var ids []idem.ID
		var errs []string
		for r, err := range p.admin(t).List(t.Context(), "") {
			ids = append(ids, r.ID)
			if err != nil {
				errs = append(errs, err.Error())
			}
		}
		if !slices.Equal(ids, []idem.ID{unread.ID, {}, r.ID}) || len(errs) != 2 {
			t.Fatalf("got %v, %v", ids, errs)
		}
		if !strings.Contains(errs[0], unread.ID.String()) || !strings.Contains(errs[0], "newer") || strings.Contains(errs[1], "secret") {
			t.Errorf("errors %q", errs)
		}
	})
}

// TestList is on real engines: pages that are full of bodies, other states and operations, an early end.
func TestList(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table := e.Table(t)
		b := open(t, e, table)
		_, err := b.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: keyAt("!other")})
		if err != nil {
			t.Fatal(err)
		}
		spilled(t, b, 5<<20)
		want := make(map[idem.ID]idem.State)
		for i := range 200 {
			r := claim()
			rand.Read(r.ID.Key[:])
			if r.ID.Tenant = fmt.Sprint("t#", i%7); i%3 == 0 {
				r.State = idem.Indeterminate
			}
			if i%5 == 0 {
				r.ID.Operation = "refund"
			}
			if _, err := b.Create(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			want[r.ID] = r.State
		}
		m := &meter{next: &http.Transport{}}
		a, err := dynamo.NewAdmin(clientOver(m, e.URL), table, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			operation string
			states    []idem.State
			scan      bool
		}{
			{"", []idem.State{idem.Pending}, true}, {"refund", []idem.State{idem.Pending, idem.Indeterminate}, true}, {"charge", []idem.State{idem.Indeterminate}, false},
			{"", []idem.State{idem.Indeterminate, idem.Indeterminate}, false}, {"", []idem.State{idem.Completed, idem.Failed}, true}, {"none", nil, true},
			{"", []idem.State{1, 2, 3, 4, 5}, true},
		} {
			n := 0
			for r, err := range a.List(t.Context(), row.operation, row.states...) {
				if err != nil {
					t.Fatal(err)
				}
				if (row.operation != "" && r.ID.Operation != row.operation) || !slices.Contains(row.states, r.State) || want[r.ID] != r.State && r.State != idem.Completed || r.At.IsZero() {
					t.Errorf("%q %v: got %v of %s", row.operation, row.states, r.State, r.ID.Operation)
				}
				n++
			}
			wanted := 0
			for id, state := range want {
				if (row.operation == "" || id.Operation == row.operation) && slices.Contains(row.states, state) {
					wanted++
				}
			}
			if row.operation == "" && slices.Contains(row.states, idem.Completed) {
				wanted++ // the one with bodies
			}
			if n != wanted {
				t.Errorf("%q %v: got %d, want %d", row.operation, row.states, n, wanted)
			}
			scans, all, _, received := m.take("Scan")
			if row.scan && scans != all || !row.scan && scans != 0 {
				t.Errorf("%q %v: %d scans of %d requests", row.operation, row.states, scans, all)
			}
			t.Logf("%q %v: %d records, %d requests, %d bytes received", row.operation, row.states, n, all, received)
		}
		for range a.List(t.Context(), "") {
			break
		}
		if scans, all, _, _ := m.take("Scan"); scans > 8 || scans != all {
			t.Errorf("left early: %d scans of %d requests", scans, all)
		}
	})
}

// TestListWithoutIndex: a table of before has none, and that is an error, not an empty list.
func TestListWithoutIndex(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table := "idem-test-" + rand.Text()
		client := clientOf(e.URL, nil)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
		_, errs := listed(t, admin(t, e, table), idem.Indeterminate)
		if len(errs) != 1 {
			t.Errorf("got %v", errs)
		}
	})
}
