package idemtest

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem"
)

func generationTold(s *suite) {
	for range 3 {
		g, err := s.store.Generation(s.Context())
		if err != nil {
			s.Fatalf("generation: %v", err)
		}
		if g.Number >= 1<<20 {
			s.Errorf("generation is %d, want less than 2^20", g.Number)
		}
		switch now := s.load(s.id()).At; {
		case g.At.IsZero():
			s.Errorf("generation: At is zero, want the store's clock")
		case now.Before(g.At.Add(-jitter)), now.After(g.At.Add(15 * time.Minute)):
			s.Errorf("generation as of %v, want a short time before now by the store's clock, %v", g.At, now)
		}
		r := s.record(idem.Pending)
		r.Generation = g.Number
		s.create(r) // under it, writes are taken
		s.swap(r.Version, next(r))
	}
}

func otherGeneration(s *suite) {
	held := s.full(idem.Pending)
	s.create(held)
	for _, g := range []uint32{s.gen + 1, s.gen - 1, s.gen + 1<<16} {
		if g >= 1<<20 {
			continue // of a table that was never restored, there is none before
		}
		r := s.record(idem.Pending)
		r.Generation = g
		_, err := s.store.Create(s.Context(), r)
		s.notApplied("create under another generation", err)
		s.absent(r.ID)

		r = next(held)
		r.Generation = g
		_, err = s.store.Swap(s.Context(), held.Version, r)
		s.notApplied("swap under another generation", err)
		s.holds(held)
	}
}

// noUse repeats what was refused for good.
func noUse(s *suite) {
	r := s.record(idem.Pending)
	r.Generation++ // generations only rise, and nobody adopts this table while it is tested
	_, err := s.store.Create(s.Context(), r)
	if final, ok := errors.AsType[retryable](err); !ok || final.Retryable() {
		s.Errorf("create under another generation: error %v, want one whose Retryable() is false", err)
	}
	for range 2 {
		if got, err := s.store.Create(s.Context(), r); err == nil {
			s.Errorf("create sent again, which is no use: got %s, want an error", show(got))
		}
	}
	s.absent(r.ID)
}

// retryable is the method that an error may have.
type retryable interface {
	error
	Retryable() bool
}

func unknownRecord(s *suite) {
	m := need[Meddler](s)
	for _, what := range []Unknown{UnknownState, UnknownFormat} {
		r := s.full(idem.Completed)
		s.create(r)
		s.meddle(m, r.ID, what)
		if got, err := s.store.Load(s.Context(), r.ID); err == nil {
			s.Errorf("load of an unknown %s: got %s, want an error", what, show(got))
		}
		n := s.record(idem.Pending)
		n.ID = r.ID
		if got, err := s.store.Create(s.Context(), n); err == nil {
			s.Errorf("create over an unknown %s: got %s, want an error", what, show(got))
		}
		if got, err := s.store.Swap(s.Context(), version(), next(n)); err == nil {
			s.Errorf("swap over an unknown %s: got %s, want an error", what, show(got))
		}
		if got, err := s.open(s).Load(s.Context(), r.ID); err == nil {
			s.Errorf("load of an unknown %s after refused writes: got %s, want an error", what, show(got))
		}
	}
}

func unknownField(s *suite) {
	m := need[Meddler](s)
	r := s.full(idem.Pending)
	s.create(r)
	s.meddle(m, r.ID, UnknownField)
	s.holds(r)
	for _, state := range []idem.State{idem.Pending, idem.Indeterminate, idem.Completed} {
		n := next(r)
		n.State = state
		if state == idem.Completed {
			n.Receipt, n.Expires = sealed(r.Fence, 10), s.now.Add(time.Hour)
		}
		s.swap(r.Version, n)
		s.holds(n)
		r = n
		kept, err := m.Kept(s.Context(), r.ID)
		if err != nil || !kept {
			s.Errorf("swap to %v: what a newer version added is kept: %v, error %v", state, kept, err)
		}
	}
}

// meddle leaves nothing unknown behind: a table that others use would not list any more.
func (s *suite) meddle(m Meddler, id idem.ID, what Unknown) {
	s.Helper()
	s.Cleanup(func() {
		if err := m.Remove(context.WithoutCancel(s.Context()), id); err != nil {
			s.Errorf("remove: %v", err)
		}
	})
	if err := m.Meddle(s.Context(), id, what); err != nil {
		s.Fatalf("meddle: %v", err)
	}
}

// promptly is how long a call may go on after its context is done.
const promptly = 5 * time.Second

// within runs f and fails if it takes longer than a caller whose context was done after d would wait.
func (s *suite) within(what string, d time.Duration, f func()) {
	s.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(d + promptly):
		s.Fatalf("%s: no answer within %v", what, d+promptly)
	}
}

func doneContext(s *suite) {
	cancelled, cancel := context.WithCancel(s.Context())
	cancel()
	late, cancel := context.WithDeadline(s.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, late} {
		held := s.full(idem.Pending)
		s.create(held)
		absent, n := s.record(idem.Pending), next(held)
		var err error

		s.within("create", 0, func() { _, err = s.store.Create(ctx, absent) })
		if got := s.load(absent.ID); !consistent(err, got.Version == absent.Version) {
			s.Errorf("create with a done context: error %v, but the holder is %s", err, show(got))
		}
		s.within("swap", 0, func() { _, err = s.store.Swap(ctx, held.Version, n) })
		if got := s.load(held.ID); !consistent(err, got.Version == n.Version) {
			s.Errorf("swap with a done context: error %v, but the holder is %s", err, show(got))
		}
		s.within("load", 0, func() { s.store.Load(ctx, held.ID) })
		s.within("fetch", 0, func() { s.store.Fetch(ctx, held) })
		s.within("generation", 0, func() { s.store.Generation(ctx) })
	}
}

// consistent says that a write that may not yet have arrived left what its error says.
func consistent(err error, applied bool) bool {
	return errors.Is(err, idem.ErrAmbiguous) || applied == (err == nil)
}
