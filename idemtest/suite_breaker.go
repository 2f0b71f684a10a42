package idemtest

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem"
)

const (
	outage   = 1 << 30          // requests: longer than any caller waits
	few      = 6                // requests: more than a pending write is repeated, less than a minute
	patience = 20 * time.Second // for what is repeated "few times and shortly"
)

// broken returns the store and a store of another process, whose requests go through.
func (s *suite) broken() (b Breaker, through idem.Store) {
	s.Helper()
	b = need[Breaker](s)
	s.Cleanup(func() { b.Break(0, false) })
	return b, s.open(s)
}

func passingFailure(s *suite) {
	b, _ := s.broken()
	r := s.full(idem.Pending)
	b.Break(1, false)
	s.create(r)
	b.Break(1, false)
	s.holds(r)
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for _, state := range []idem.State{idem.Indeterminate, idem.Completed} {
		n := next(r)
		if n.State = state; state == idem.Completed {
			n.Expires = s.now.Add(time.Hour)
		}
		b.Break(few, false)
		s.own(n)(s.store.Swap(ctx, r.Version, n))
		b.Break(0, false)
		s.holds(n)
		r = n
	}
}

func givenUpSoon(s *suite) {
	b, through := s.broken()
	r := s.full(idem.Pending)
	b.Break(outage, false)
	var err error
	s.within("create of a pending record", patience, func() { _, err = s.store.Create(s.Context(), r) })
	if err == nil {
		s.Errorf("create without a connection: no error")
	}
	if got := s.from(through, r.ID); got.State != 0 {
		s.Errorf("create without a connection: the holder is %s", show(got))
	}
}

func lostAnswer(s *suite) {
	b, _ := s.broken()
	r := s.full(idem.Pending)
	b.Break(1, true)
	s.create(r)
	s.holds(r)
	n := next(r)
	b.Break(1, true)
	s.swap(r.Version, n)
	s.holds(n)
	// What was in the way is told in the same way.
	b.Break(1, true)
	s.refused("create", n)(s.store.Create(s.Context(), next(r)))
	b.Break(1, true)
	s.refused("swap", n)(s.store.Swap(s.Context(), r.Version, next(r)))
}

func ambiguous(s *suite) {
	b, through := s.broken()
	r := s.full(idem.Pending)
	s.create(r)
	absent, n := s.record(idem.Pending), next(r)
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
	defer cancel()
	for what, w := range map[string]struct {
		record idem.Record
		write  func() (idem.Record, error)
	}{
		"create": {absent, func() (idem.Record, error) { return s.store.Create(ctx, absent) }},
		"swap":   {n, func() (idem.Record, error) { return s.store.Swap(ctx, r.Version, n) }},
	} {
		b.Break(outage, true)
		_, err := w.write()
		if !errors.Is(err, idem.ErrAmbiguous) {
			s.Errorf("%s without answers: error %v, want one that wraps ErrAmbiguous", what, err)
		}
		s.equal("load after "+what, w.record, s.from(through, w.record.ID))
	}
}

func doneContextBroken(s *suite) {
	b, through := s.broken()
	r := s.full(idem.Pending)
	s.create(r)
	n := next(r)
	n.State, n.Expires = idem.Completed, s.now.Add(time.Hour)
	b.Break(outage, false)
	const timeout = 300 * time.Millisecond
	call := func(what string, f func(ctx context.Context) error) (err error) {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		s.within(what, timeout, func() { err = f(ctx) })
		if err == nil {
			s.Errorf("%s without a connection: no error", what)
		}
		return err
	}
	err := call("swap of a completed record", func(ctx context.Context) error { _, err := s.store.Swap(ctx, r.Version, n); return err })
	call("load", func(ctx context.Context) error { _, err := s.store.Load(ctx, r.ID); return err })
	if got := s.from(through, r.ID); !consistent(err, got.Version == n.Version) {
		s.Errorf("swap without a connection: error %v, but the holder is %s", err, show(got))
	}
}
