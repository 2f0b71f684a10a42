package idem_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

func TestBadRequestsAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	type cyclic struct{ Self *cyclic }
	loop := &cyclic{}
	loop.Self = loop
	ok := request()
	with := func(change func(*idem.Request)) idem.Request { r := ok; change(&r); return r }
	for _, c := range []struct {
		name, says string
		r          idem.Request
	}{
		{"missing key", "Key is empty", with(func(r *idem.Request) { r.Key = "" })},
		{"long key", "Key has 256 bytes", with(func(r *idem.Request) { r.Key = strings.Repeat("k", 256) })},
		{"key not UTF-8", "Key is not valid UTF-8", with(func(r *idem.Request) { r.Key = "a\xff" })},
		{"newline in key", "Key contains a control", with(func(r *idem.Request) { r.Key = "a\nb" })},
		{"C1 control in key", "Key contains a control", with(func(r *idem.Request) { r.Key = "a\u0085b" })},
		{"missing tenant", "Tenant is empty", with(func(r *idem.Request) { r.Tenant = "" })},
		{"long tenant", "Tenant has 257 bytes", with(func(r *idem.Request) { r.Tenant = strings.Repeat("t", 257) })},
		{"tenant not UTF-8", "Tenant is not valid UTF-8", with(func(r *idem.Request) { r.Tenant = "\xc0" })},
		{"control in tenant", "Tenant contains a control", with(func(r *idem.Request) { r.Tenant = "a\x00" })},
		{"no payload", "Payload is nil", with(func(r *idem.Request) { r.Payload = nil })},
		{"payload without form", "cannot be encoded", with(func(r *idem.Request) { r.Payload = make(chan int) })},
		{"cyclic payload", "cannot be encoded", with(func(r *idem.Request) { r.Payload = loop })},
		{"duplicate members", "duplicate member", with(func(r *idem.Request) { r.Payload = json.RawMessage(`{"a":1,"a":2}`) })},
		{"duplicate members by escape", "duplicate member", with(func(r *idem.Request) { r.Payload = json.RawMessage(`{"a":1,"\u0061":2}`) })},
		{"text after JSON", "not valid JSON", with(func(r *idem.Request) { r.Payload = json.RawMessage(`{} x`) })},
		{"invalid UTF-8 in JSON", "not valid JSON", with(func(r *idem.Request) { r.Payload = json.RawMessage("\"\xff\"") })},
		{"empty JSON", "not valid JSON", with(func(r *idem.Request) { r.Payload = json.RawMessage{} })},
		{"large payload", "at most 6291456", with(func(r *idem.Request) { r.Payload = make([]byte, 6<<20+1) })},
		{"large JSON", "at most 6291456", with(func(r *idem.Request) { r.Payload = json.RawMessage(`"` + strings.Repeat("x", 6<<20) + `"`) })},
		{"issued before the retention", "longer ago", with(func(r *idem.Request) { r.Issued = time.Now().Add(-24 * time.Hour) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			_, err := op.Do(invoked(t), c.r, w.mustNotRun)
			e := as[*idem.RequestError](t, err)
			if !strings.Contains(e.Problem, c.says) {
				t.Errorf("says %q, want %q in it", e.Problem, c.says)
			}
			if _, again := idem.RetryAfter(err); again {
				t.Error("a retry cannot help")
			}
			if n := w.store.Calls(); n["Create"]+n["Swap"]+n["Load"] > 0 {
				t.Errorf("calls %v", n)
			}
			if got := w.kinds(); got != "Refused" {
				t.Errorf("events %q", got)
			}
		})
	}
}

func TestTenantOfASingleTenantOperationIsRefused(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{SingleTenant: true})
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.RequestError](t, err)
	r := request()
	r.Tenant = ""
	must2(op.Do(invoked(t), r, w.charges))
}

func TestContextWithoutDeadlineNeedsALease(t *testing.T) {
	w := newWorld(t)
	_, err := w.op(idem.Options{}).Do(t.Context(), request(), w.mustNotRun)
	as[*idem.RequestError](t, err)
	must2(w.op(idem.Options{Lease: time.Minute}).Do(t.Context(), request(), func(ctx context.Context) (charge, error) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Minute {
			t.Errorf("deadline %v, %v", d, ok)
		}
		return w.charges(ctx)
	}))
}

// powertools-lambda-python#4759: no time left was taken for no limit.
func TestTooLittleTimeRunsNothing(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 0, 200 * time.Millisecond} {
		w := newWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		_, err := w.op(idem.Options{}).Do(ctx, request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if _, again := idem.RetryAfter(err); !again || len(w.store.Records()) != 0 {
			t.Errorf("%v left: retry %v, %d records", left, again, len(w.store.Records()))
		}
	}
}

func TestSettingsThatContradictAreRefused(t *testing.T) {
	w := newWorld(t)
	ask := func(context.Context, idem.Doubt) (string, error) { return "", nil }
	for _, c := range []struct {
		says string
		name string
		o    idem.Options
	}{
		{"name", "", idem.Options{}},
		{"name", "Charge", idem.Options{}},
		{"name", "a#b", idem.Options{}},
		{"name", strings.Repeat("n", 65), idem.Options{}},
		{"Retain", "x", idem.Options{Retain: time.Minute}},
		{"Retain is negative", "x", idem.Options{Retain: -time.Hour}},
		{"Lease is negative", "x", idem.Options{Lease: -1}},
		{"Lease is", "x", idem.Options{Lease: 25 * time.Hour}},
		{"too little is left to run", "x", idem.Options{Lease: 300 * time.Millisecond}},
		{"too little is left to run", "x", idem.Options{Lease: time.Second, Reserve: time.Second}},
		{"Reserve is negative", "x", idem.Options{Reserve: -1}},
		{"Wait", "x", idem.Options{Lease: time.Second, Wait: 2 * time.Second}},
		{"MaxResult", "x", idem.Options{MaxResult: -1}},
		{"MaxResult", "x", idem.Options{MaxResult: 7 << 20}},
		{"Begin", "x", idem.Options{Begin: 7}},
		{"answers string", "x", idem.Options{Recover: idem.Reconcile(time.Minute, ask)}},
		{"settle", "x", idem.Options{Recover: idem.Reconcile(0, func(context.Context, idem.Doubt) (charge, error) { return charge{}, nil })}},
		{"function to ask", "x", idem.Options{Recover: idem.Reconcile[charge](time.Minute, nil)}},
		{"Rerun", "x", idem.Options{Recover: idem.Rerun(0)}},
	} {
		_, err := idem.New[charge](w.store, w.sealer, c.name, &c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q %+v: %v, want %q in it", c.name, c.o, err, c.says)
		}
	}
	if _, err := idem.New[charge](nil, w.sealer, "x", nil); err == nil {
		t.Error("no store")
	}
	if _, err := idem.New[charge](w.store, nil, "x", nil); err == nil {
		t.Error("no sealer")
	}
	if _, err := idem.New[*strings.Reader](w.store, w.sealer, "x", nil); err == nil || !strings.Contains(err.Error(), "stream") {
		t.Errorf("a stream: %v", err)
	}
}

func TestWhatCountsAsTheSamePayload(t *testing.T) {
	raw := func(s string) any { return json.RawMessage(s) }
	for _, c := range []struct {
		name string
		a, b any
		same bool
	}{
		{"white space and order", raw(`{"a":1, "b":[1,2]}`), raw(`{ "b":[1,2],"a":1}`), true},
		{"escapes", raw(`"\u0061\/"`), raw(`"a/"`), true},
		{"a number as written", raw(`1`), raw(`1.0`), false},
		{"exponents", raw(`100`), raw(`1e2`), false},
		{"20 digits", raw(`12345678901234567890`), raw(`12345678901234567891`), false},
		{"order of elements", raw(`[1,2]`), raw(`[2,1]`), false},
		{"null and absent", raw(`{"a":null}`), raw(`{}`), false},
		{"raw and JSON", []byte(`{}`), raw(`{}`), false},
		{"raw", []byte(`{ }`), []byte(`{}`), false},
		{"empty raw and any", []byte{}, idem.AnyPayload{}, false},
		{"any", idem.AnyPayload{}, idem.AnyPayload{}, true},
		{"a Go value and its JSON", charge{"x", 1}, raw(`{"Amount":1,"ID":"x"}`), true},
		{"map order", map[string]int{"a": 1, "b": 2}, raw(`{"b":2,"a":1}`), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			r := request()
			r.Payload = c.a
			must2(op.Do(invoked(t), r, w.charges))
			r.Payload = c.b
			_, err := op.Do(invoked(t), r, w.mustNotRun)
			if (err == nil) != c.same {
				t.Errorf("got %v, want the same: %v", err, c.same)
			}
		})
	}
}

func TestPayloadIsNotChanged(t *testing.T) {
	w := newWorld(t)
	r := request()
	p := []byte(`{ "b":1, "a":2 }`)
	r.Payload = json.RawMessage(p)
	must2(w.op(idem.Options{}).Do(invoked(t), r, w.charges))
	if string(p) != `{ "b":1, "a":2 }` {
		t.Errorf("now %s", p)
	}
}

// Whoever sees logs, errors or events sees no key, payload, result or tenant.
func TestNothingSecretIsTold(t *testing.T) {
	w := newWorld(t)
	const secret = "s3cret"
	ends := map[string]error{"ok": nil, "final": idem.Final(fmt.Errorf("no")), "released": idem.NotApplied(fmt.Errorf("no")), "unknown": fmt.Errorf("x")}
	var told []string
	tell := func(err error) {
		if err != nil {
			told = append(told, err.Error(), fmt.Sprintf("%v", err))
		}
	}
	for name, end := range ends {
		for _, bad := range []any{nil, json.RawMessage(`{"` + secret + `":1,"` + secret + `":2}`), json.RawMessage(`{` + secret), json.RawMessage(`{"s3cret":tru}`)} {
			op := w.op(idem.Options{})
			r := idem.Request{Tenant: secret + "-tenant", Key: secret + name, Payload: []byte(secret)}
			for range 2 {
				_, err := op.Do(invoked(t), r, func(context.Context) (charge, error) { return charge{ID: secret}, end })
				tell(err)
				w.lapse()
			}
			r.Payload = bad
			_, err := op.Do(invoked(t), r, w.mustNotRun)
			tell(err)
			r.Key = secret + "\n"
			_, err = op.Do(invoked(t), r, w.mustNotRun)
			tell(err)
		}
	}
	w.failOnce("Swap", 1, false, errCut)
	r := idem.Request{Tenant: secret, Key: secret, Payload: []byte(secret)}
	_, err := w.op(idem.Options{}).Do(invoked(t), r, func(context.Context) (charge, error) { return charge{ID: secret}, nil })
	tell(err)
	other := must2(idem.New[string](w.store, w.sealer, "charge", nil))
	r.Key = secret + "ok"
	r.Tenant = secret + "-tenant"
	_, err = other.Do(invoked(t), r, func(context.Context) (string, error) { return "", nil })
	as[*idem.UnreadableError](t, err) // recorded as another type
	tell(err)
	for _, e := range w.events {
		told = append(told, fmt.Sprintf("%+v", e))
	}
	for _, s := range told {
		if strings.Contains(s, secret) {
			t.Errorf("told: %s", s)
		}
	}
	if len(told) < 50 {
		t.Errorf("only %d texts", len(told))
	}
}

func TestEveryEventHasOperationAndDigest(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	must2(op.Do(invoked(t), request(), w.charges))
	must2(op.Do(invoked(t), request(), w.mustNotRun))
	for _, e := range w.events {
		if e.Operation != "charge" || len(e.Digest) != 12 || e.Fence == 0 || e.Elapsed <= 0 {
			t.Errorf("%+v", e)
		}
	}
}
