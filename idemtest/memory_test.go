package idemtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// pending is a record that the protocol could have made.
func pending(m *idemtest.Memory, key byte) idem.Record {
	return idem.Record{
		ID: idem.ID{Tenant: "t", Operation: "charge", Key: [32]byte{key}}, Version: idem.Version{key, 1}, State: idem.Pending,
		Fence: 1, Life: 1, Lease: m.Now().Add(time.Minute),
	}
}

func completed(m *idemtest.Memory, r idem.Record) idem.Record {
	r.Version[1]++
	r.State, r.Expires = idem.Completed, m.Now().Add(time.Hour)
	return r
}

func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, clockStandsStill)
}

func clockStandsStill(t *testing.T) {
	m := idemtest.NewMemory(t)
	start := m.Now()
	if d := time.Since(start); d < 0 || d >= time.Millisecond {
		t.Errorf("clock starts %v ago, want now", d)
	}
	if start.Nanosecond()%int(time.Millisecond) != 0 {
		t.Errorf("clock is at %v, want whole milliseconds", start)
	}
	time.Sleep(time.Hour) // of the bubble
	r, _ := m.Load(t.Context(), pending(m, 1).ID)
	m.Advance(90 * time.Second)
	r2, _ := m.Load(t.Context(), pending(m, 1).ID)
	if !r.At.Equal(start) || !r2.At.Equal(start.Add(90*time.Second)) {
		t.Errorf("answers are of %v and %v, want %v and 90 s later", r.At, r2.At, start)
	}
}

func TestFail(t *testing.T) {
	lost := errors.New("connection reset")
	lostAnswer := fmt.Errorf("connection reset: %w", idem.ErrAmbiguous)
	for _, c := range []struct {
		name    string
		apply   bool
		err     error
		applied bool
	}{
		{"goes on", false, nil, true},
		{"not applied", false, lost, false},
		{"ambiguous, not applied", false, lostAnswer, false},
		{"ambiguous, applied", true, lostAnswer, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := idemtest.NewMemory(t)
			r := pending(m, 1)
			var seen []string
			fail := func(call string, id idem.ID) (bool, error) {
				if seen = append(seen, call); call != "Generation" && id != r.ID {
					t.Errorf("%s sees %v", call, id)
				}
				return c.apply, c.err
			}
			holds := func(want idem.Version, what string, err error) {
				t.Helper()
				if err != c.err {
					t.Errorf("%s: got error %v, want %v", what, err, c.err)
				}
				m.Fail(nil)
				got, _ := m.Load(t.Context(), r.ID)
				if applied := got.Version == want; applied != c.applied {
					t.Errorf("%s applied: %v, want %v", what, applied, c.applied)
				}
			}
			m.Fail(fail)
			_, err := m.Create(t.Context(), r)
			holds(r.Version, "create", err)

			if !c.applied {
				m.Create(t.Context(), r)
			}
			n := completed(m, r)
			m.Fail(fail)
			_, err = m.Swap(t.Context(), r.Version, n)
			holds(n.Version, "swap", err)

			m.Fail(fail)
			if _, err := m.Load(t.Context(), r.ID); err != c.err {
				t.Errorf("load: got error %v, want %v", err, c.err)
			}
			if _, err := m.Generation(t.Context()); err != c.err {
				t.Errorf("generation: got error %v, want %v", err, c.err)
			}
			if got := fmt.Sprint(seen); got != "[Create Swap Load Generation]" {
				t.Errorf("Fail was asked about %v", got)
			}
		})
	}
}

// complaints is a testing.TB that counts.
type complaints struct {
	testing.TB
	n int
}

func (c *complaints) Errorf(string, ...any) { c.n++ }

func TestFailMustNotLie(t *testing.T) {
	c := &complaints{TB: t}
	m := idemtest.NewMemory(c)
	m.Fail(func(string, idem.ID) (bool, error) { return true, errors.New("not applied") })
	m.Create(t.Context(), pending(m, 1))
	if c.n != 1 {
		t.Errorf("%d complaints about a write that was applied and denied, want 1", c.n)
	}
}

func TestFailOrdersGoroutines(t *testing.T) {
	m := idemtest.NewMemory(t)
	first := make(chan struct{})
	m.Fail(func(call string, id idem.ID) (bool, error) {
		if call == "Create" && id.Key[0] == 2 {
			<-first
		}
		return false, nil
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := m.Create(t.Context(), pending(m, 2)); err != nil {
			t.Error(err)
		}
		if r, _ := m.Load(t.Context(), pending(m, 1).ID); r.State == 0 {
			t.Error("the write that was held back came first")
		}
	})
	if _, err := m.Create(t.Context(), pending(m, 1)); err != nil { // while the other blocks
		t.Error(err)
	}
	close(first)
	wg.Wait()
}

// A context that ends while the call is held back: nothing is applied, and the error says so.
func TestContextEndsOnTheWay(t *testing.T) {
	m := idemtest.NewMemory(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.Fail(func(string, idem.ID) (bool, error) { cancel(); return false, nil })
	_, err := m.Create(ctx, pending(m, 1))
	if !errors.Is(err, context.Canceled) || errors.Is(err, idem.ErrAmbiguous) {
		t.Errorf("got error %v, want a plain context.Canceled", err)
	}
	if n := len(m.Records()); n != 0 {
		t.Errorf("%d records, want 0", n)
	}
}

func TestDelayed(t *testing.T) {
	m := idemtest.NewMemory(t)
	var late idemtest.Delayed
	delay := func(call string, _ idem.ID) (bool, error) {
		if call == "Create" || call == "Swap" {
			return false, fmt.Errorf("lost: %w", &late)
		}
		return false, nil
	}
	r := pending(m, 1)
	m.Fail(delay)
	_, err := m.Create(t.Context(), r)
	if !errors.Is(err, idem.ErrAmbiguous) {
		t.Errorf("got error %v, want one that wraps ErrAmbiguous", err)
	}
	m.Swap(t.Context(), r.Version, completed(m, r))
	m.Fail(nil)
	r.ID.Key[0] = 9 // what is under way is a copy
	if n := len(m.Records()); n != 0 {
		t.Errorf("%d records before delivery, want 0", n)
	}
	if n := late.Deliver(); n != 2 {
		t.Errorf("%d writes applied, want 2", n)
	}
	if rs := m.Records(); len(rs) != 1 || rs[0].State != idem.Completed || rs[0].ID.Key[0] != 1 {
		t.Errorf("records after delivery: %v", rs)
	}
	if n := late.Deliver(); n != 1 { // the create is refused; the swap finds itself
		t.Errorf("%d writes are one's own when they arrive again, want 1", n)
	}
	m.Restore(m.Snapshot(), idem.Generation{Number: 1})
	if n := late.Deliver(); n != 0 {
		t.Errorf("%d writes of an older generation applied, want 0", n)
	}
}

func TestRestore(t *testing.T) {
	m := idemtest.NewMemory(t)
	early, late := pending(m, 1), pending(m, 2)
	m.Create(t.Context(), early)
	before := m.Snapshot()
	m.Swap(t.Context(), early.Version, completed(m, early))
	m.Create(t.Context(), late)
	g := idem.Generation{Number: 4, Watermark: m.Now(), Until: m.Now().Add(time.Hour + time.Microsecond)}
	m.Restore(before, g)
	got, err := m.Generation(t.Context())
	if err != nil || got.Number != 4 || !got.Watermark.Equal(g.Watermark) || !got.Until.Equal(m.Now().Add(time.Hour)) {
		t.Errorf("generation %+v, error %v", got, err)
	}
	if rs := m.Records(); len(rs) != 1 || rs[0].Version != early.Version {
		t.Errorf("records after restore: %v, want the early one as it was", rs)
	}
	if _, err := m.Swap(t.Context(), early.Version, completed(m, early)); err == nil || errors.Is(err, idem.ErrAmbiguous) {
		t.Errorf("write of the old generation: error %v, want a plain refusal", err)
	}
	n := completed(m, early)
	n.Generation, n.Version = 4, idem.Version{77}
	if r, err := m.Swap(t.Context(), early.Version, n); err != nil || r.Version != n.Version {
		t.Errorf("write of the new generation: %v, error %v", r.Version, err)
	}
	m.Restore(before, g)
	if rs := m.Records(); len(rs) != 1 || rs[0].Version != early.Version {
		t.Errorf("records after a second restore: %v: a snapshot is what it was", rs)
	}
	m.Restore(idemtest.Snapshot{}, idem.Generation{Number: 5}) // an empty table can be written to
	n = pending(m, 3)
	n.Generation = 5
	if _, err := m.Create(t.Context(), n); err != nil {
		t.Error(err)
	}
}

func TestExpireRemovesWhatIsPastItsExpiry(t *testing.T) {
	m := idemtest.NewMemory(t)
	open, done := pending(m, 1), completed(m, pending(m, 2))
	m.Create(t.Context(), open)
	m.Create(t.Context(), done)
	for _, c := range []struct {
		advance time.Duration
		left    int
	}{{59 * time.Minute, 2}, {2 * time.Minute, 1}, {1000 * time.Hour, 1}} {
		m.Advance(c.advance)
		if n := len(m.Records()); c.left == 1 && c.advance < time.Hour && n != 2 {
			t.Errorf("%d records, want 2: nothing expires by itself", n)
		}
		if m.Expire(); len(m.Records()) != c.left {
			t.Errorf("%d records after %v, want %d", len(m.Records()), c.advance, c.left)
		}
	}
}

func TestRecordsAndCalls(t *testing.T) {
	m := idemtest.NewMemory(t)
	for key := byte(5); key > 0; key-- {
		r := pending(m, key)
		r.Note = idem.Sealed{Fence: 1, Bytes: []byte("note")}
		m.Create(t.Context(), r)
	}
	m.Records()[0].Note.Bytes[0] = 'X'
	for i, r := range m.Records() {
		if int(r.ID.Key[0]) != i+1 || string(r.Note.Bytes) != "note" || !r.At.Equal(m.Now()) {
			t.Errorf("record %d: %v %q %v", i, r.ID.Key[0], r.Note.Bytes, r.At)
		}
	}
	m.Load(t.Context(), idem.ID{})
	m.Swap(t.Context(), idem.Version{}, pending(m, 6))
	for range m.List(t.Context(), "") {
	}
	m.Generation(t.Context())
	want := map[string]int{"Create": 5, "Load": 1, "Swap": 1, "List": 1, "Generation": 1}
	if got := m.Calls(); !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

func TestListFails(t *testing.T) {
	m := idemtest.NewMemory(t)
	m.Create(t.Context(), pending(m, 1))
	want := errors.New("throttled")
	m.Fail(func(string, idem.ID) (bool, error) { return false, want })
	n := 0
	for _, err := range m.List(t.Context(), "") {
		if n++; err != want {
			t.Errorf("got error %v, want %v", err, want)
		}
	}
	if n != 1 {
		t.Errorf("%d items, want the error alone", n)
	}
}

// An Example has no testing.T. What would fail it panics.
func TestNoTest(t *testing.T) {
	m := idemtest.NewMemory(nil)
	r := pending(m, 1)
	m.Create(t.Context(), r)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.Version[0], r.Life = 77, 0
	m.Swap(t.Context(), pending(m, 1).Version, r)
}

func TestLimits(t *testing.T) {
	secret := strings.Repeat("secret", 100)
	for name, c := range map[string]struct {
		change func(*idem.Record)
		ok     bool
	}{
		"longest tenant":          {func(r *idem.Record) { r.ID.Tenant = secret[:256] }, true},
		"no tenant":               {func(r *idem.Record) { r.ID.Tenant = "" }, true},
		"too long a tenant":       {func(r *idem.Record) { r.ID.Tenant = secret[:257] }, false},
		"tenant is no UTF-8":      {func(r *idem.Record) { r.ID.Tenant = "secret\xff" }, false},
		"no operation":            {func(r *idem.Record) { r.ID.Operation = "" }, false},
		"too long an operation":   {func(r *idem.Record) { r.ID.Operation = strings.Repeat("a", 65) }, false},
		"operation with a sign":   {func(r *idem.Record) { r.ID.Operation = "a#secret" }, false},
		"receipt of 6 MiB":        {func(r *idem.Record) { *r = receipt(*r, 6<<20) }, true},
		"receipt of 7 MiB":        {func(r *idem.Record) { *r = receipt(*r, 7<<20) }, false},
		"note and evidence":       {func(r *idem.Record) { r.Note.Bytes, r.Evidence.Bytes = make([]byte, 200<<10), make([]byte, 201<<10) }, false},
		"too long a resolution":   {func(r *idem.Record) { r.Resolved.By = secret[:257] }, false},
		"resolution is no UTF-8":  {func(r *idem.Record) { r.Resolved.Why = "secret\xff" }, false},
		"another generation":      {func(r *idem.Record) { r.Generation = 1 }, false},
		"longest resolution":      {func(r *idem.Record) { r.Resolved.By, r.Resolved.Why = secret[:256], secret[:256] }, true},
		"longest operation":       {func(r *idem.Record) { r.ID.Operation = strings.Repeat("a", 64) }, true},
		"every sign of operation": {func(r *idem.Record) { r.ID.Operation = "09az._-" }, true},
	} {
		m := idemtest.NewMemory(t)
		r := pending(m, 1)
		c.change(&r)
		_, err := m.Create(t.Context(), r)
		switch final, ok := err.(interface{ Retryable() bool }); {
		case c.ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.ok:
		case !ok || final.Retryable() || errors.Is(err, idem.ErrAmbiguous):
			t.Errorf("%s: got error %v, want a plain one whose Retryable() is false", name, err)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error repeats what was written: %v", name, err)
		case len(m.Records()) != 0:
			t.Errorf("%s: stored", name)
		}
	}
}

func receipt(r idem.Record, n int) idem.Record {
	r.State, r.Expires = idem.Completed, r.Lease.Add(time.Hour)
	r.Receipt = idem.Sealed{Fence: 1, Bytes: make([]byte, n)}
	return r
}

func BenchmarkMemory(b *testing.B) {
	m := idemtest.NewMemory(b)
	ctx := b.Context()
	r := pending(m, 1)
	r.Receipt.Bytes = nil
	m.Create(ctx, r)
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		next := r
		for i := range 8 {
			next.Version[8+i] = byte(n >> (8 * i))
		}
		r, _ = m.Swap(ctx, r.Version, next)
	}
}
