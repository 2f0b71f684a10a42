package idemtest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/idem-go/idem"
)

// together runs f(0..n-1) at once, alternately on two stores.
func (s *suite) together(n int, f func(i int, store idem.Store)) {
	stores := [...]idem.Store{s.store, s.open(s)}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i, stores[i%len(stores)])
		})
	}
	close(start)
	wg.Wait()
}

func oneCreates(s *suite) {
	id := s.id()
	s.race(32, func() idem.Record {
		r := s.full(idem.Pending)
		r.ID = id
		return r
	}, func(store idem.Store, r idem.Record) (idem.Record, error) { return store.Create(s.Context(), r) })
}

func oneSwaps(s *suite) {
	held := s.full(idem.Pending)
	s.create(held)
	for range 3 {
		seen := held.Version
		held = s.race(16, func() idem.Record { return next(held) },
			func(store idem.Store, r idem.Record) (idem.Record, error) { return store.Swap(s.Context(), seen, r) })
	}
}

// race lets n writes meet, of which one must become the holder, and returns that.
func (s *suite) race(n int, record func() idem.Record, write func(idem.Store, idem.Record) (idem.Record, error)) idem.Record {
	s.Helper()
	written, got, errs := make([]idem.Record, n), make([]idem.Record, n), make([]error, n)
	for i := range written {
		written[i] = record()
	}
	s.together(n, func(i int, store idem.Store) { got[i], errs[i] = write(store, written[i]) })
	holder := s.load(written[0].ID)
	owners := 0
	for i, r := range written {
		switch {
		case errs[i] != nil:
			s.Errorf("write %v: %v", r.ID, errs[i])
			continue
		case got[i].Version == r.Version:
			owners++
			s.equal("the holder", r, holder)
		}
		s.equal("answer of a write", holder, got[i])
	}
	if owners != 1 {
		s.Errorf("%d of %d writes became the holder, want 1", owners, n)
	}
	return holder
}

func histories(s *suite) { s.histories(func(idem.Store) {}) }

// brokenHistories break some requests of every caller: what they hear then is that nothing was applied, or nothing certain.
func brokenHistories(s *suite) {
	need[Breaker](s)
	s.histories(func(store idem.Store) {
		if b, ok := store.(Breaker); ok && rand.IntN(3) == 0 {
			b.Break(1+rand.IntN(few), rand.IntN(2) == 0)
		}
	})
}

// histories lets 8 callers do what they like with three IDs and looks whether a register could have answered so.
func (s *suite) histories(before func(idem.Store)) {
	const callers = 8
	for range 3 {
		h := &history{suite: s, before: before, first: s.record(idem.Pending), numbers: map[idem.Version]int{{}: 0}}
		s.together(callers, func(_ int, store idem.Store) { h.caller(store, maxOps/callers-1) })
		last := op{kind: load, got: h.number(s.from(s.open(s), h.first.ID).Version), call: h.clock.Add(1), ret: h.clock.Add(1)}
		if h.ops = append(h.ops, last); !linearizable(h.ops) {
			s.Errorf("no order of these calls explains their answers (call..answer, versions numbered, 0 is none):\n%s", describe(h.ops))
		}
	}
}

// history records what is called on the ID of one record.
type history struct {
	*suite
	before func(idem.Store) // each call
	first  idem.Record
	clock  atomic.Int64

	mu      sync.Mutex
	numbers map[idem.Version]int
	ops     []op
}

func (h *history) caller(store idem.Store, n int) {
	var seen idem.Version // by this caller, last
	for range n {
		var (
			r   = next(h.first)
			o   = op{version: h.number(r.Version)}
			got idem.Record
			err error
		)
		r.Note = idem.Sealed{Fence: 1, Bytes: r.Version[:]}
		h.before(store)
		o.call = h.clock.Add(1)
		switch p := rand.IntN(10); {
		case p < 2:
			o.kind = load
			got, err = store.Load(h.Context(), r.ID)
		case p < 4 || seen == (idem.Version{}):
			o.kind = create
			got, err = store.Create(h.Context(), r)
		default:
			o.kind, o.seen = swap, h.number(seen)
			got, err = store.Swap(h.Context(), seen, r)
		}
		o.ret = h.clock.Add(1)
		switch {
		case err == nil:
			if got.State != 0 && string(got.Note.Bytes) != string(got.Version[:]) {
				h.Errorf("%s: a record of version %x has the bytes of another: %x", o.kind, got.Version, got.Note.Bytes)
			}
			seen = got.Version
			o.got = h.number(got.Version)
		case errors.Is(err, idem.ErrAmbiguous) && o.kind != load:
			o.unknown = true
		default: // it was not and never will be: whoever sees its version shows that it lied
			h.Logf("%s: %v", o.kind, err)
			continue
		}
		h.mu.Lock()
		h.ops = append(h.ops, o)
		h.mu.Unlock()
	}
}

func (h *history) number(v idem.Version) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.numbers[v]
	if !ok {
		n = len(h.numbers)
		h.numbers[v] = n
	}
	return n
}

func processes(s *suite) {
	a, b := s.store, s.open(s)
	r := s.full(idem.Pending)
	s.create(r)
	read := func(who string, store idem.Store) {
		s.Helper()
		got := s.from(store, r.ID)
		if got.State == 0 {
			s.Fatalf("the %s process sees no record: all that open returns must be on one table", who)
		}
		s.equal("load by the "+who+" process", r, got)
	}
	for range 3 { // by turns, so that each has something old it could remember
		read("other", b)
		n := next(r)
		s.equal("swap by the other process", n, s.own(n)(b.Swap(s.Context(), r.Version, n)))
		stale := r
		r = n
		s.refused("swap by the first process", r)(a.Swap(s.Context(), stale.Version, next(stale)))
		read("first", a)
		n = next(r)
		s.own(n)(a.Swap(s.Context(), r.Version, n))
		stale, r = r, n
		s.refused("create by the other process", r)(b.Create(s.Context(), next(stale)))
	}
	read("third", s.open(s))
}
