package idemtest

import (
	"time"

	"github.com/idem-go/idem"
)

// answers makes every kind of call that returns a record, in order; r is what it writes with.
func (s *suite) answers(r idem.Record) (names []string, got []idem.Record) {
	s.Helper()
	add := func(name string, r idem.Record, err error) {
		s.Helper()
		if err != nil {
			s.Errorf("%s: %v", name, err)
			return
		}
		names, got = append(names, name), append(got, r)
	}
	call := func(name string, write func() (idem.Record, error)) {
		s.Helper()
		r, err := write()
		add(name, r, err)
	}
	call("load of an absent ID", func() (idem.Record, error) { return s.store.Load(s.Context(), r.ID) })
	call("swap of an absent ID", func() (idem.Record, error) { return s.store.Swap(s.Context(), version(), next(r)) })
	call("create", func() (idem.Record, error) { return s.store.Create(s.Context(), r) })
	call("refused create", func() (idem.Record, error) { return s.store.Create(s.Context(), next(r)) })
	call("refused swap", func() (idem.Record, error) { return s.store.Swap(s.Context(), version(), next(r)) })
	call("swap", func() (idem.Record, error) { return s.store.Swap(s.Context(), r.Version, next(r)) })
	call("load", func() (idem.Record, error) { return s.store.Load(s.Context(), r.ID) })
	return names, got
}

// Clocks of services are seconds apart from one server to the next, and tell whole seconds.
const jitter = 3 * time.Second

func clockTold(s *suite) {
	var last time.Time
	for range 3 {
		names, got := s.answers(s.record(idem.Pending))
		for i, r := range got {
			switch {
			case r.At.IsZero():
				s.Errorf("%s: At is zero, want the store's clock", names[i])
			case r.At.Before(last.Add(-jitter)):
				s.Errorf("%s: At is %v, was %v before", names[i], r.At, last)
			}
			last = r.At
		}
	}
}

func clockOfCaller(s *suite) {
	for _, wrong := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		r := s.record(idem.Pending)
		r.At = s.now.Add(wrong)
		names, got := s.answers(r)
		for i, g := range got {
			if g.At.Sub(s.now).Abs() > 24*time.Hour {
				s.Errorf("%s: At is %v, the caller's; the store's clock was at %v shortly before", names[i], g.At, s.now)
			}
		}
	}
}

// clockOfAnswer moves the store's clock away from the process's and from what was written.
func clockOfAnswer(s *suite) {
	clock := need[Clock](s)
	r := s.record(idem.Pending)
	s.create(r)
	for range 2 {
		clock.Advance(time.Hour + 5*time.Second)
		fresh := s.record(idem.Pending)
		names, got := s.answers(fresh)
		names, got = append(names, "load of what was written before"), append(got, s.load(r.ID))
		for i, g := range got {
			if g.At.Sub(clock.Now()).Abs() > time.Second {
				s.Errorf("%s: At is %v, want %v", names[i], g.At, clock.Now())
			}
		}
	}
}

// removal lets the store remove what it may, if that can be asked of it, and looks for the rest.
func removal(s *suite) {
	keep := []idem.Record{s.full(idem.Pending), s.full(idem.Indeterminate), s.record(idem.Pending), s.record(idem.Completed), s.full(idem.Completed)}
	keep[2].Lease = s.now.AddDate(-1, 0, 0) // lapsed is not expired
	keep[3].Expires = time.Time{}
	keep[4].Expires = s.now.AddDate(1, 0, 0)
	again := s.full(idem.Released) // could expire, and then runs again
	for _, r := range append(keep, again) {
		s.create(r)
	}
	running := next(again)
	running.State, running.Expires, running.Fence = idem.Pending, time.Time{}, again.Fence+1
	s.swap(again.Version, running)
	keep = append(keep, running)

	if clock, ok := s.store.(Clock); ok {
		for _, far := range []time.Duration{23 * time.Hour, 48 * time.Hour, 300 * 24 * time.Hour} {
			clock.Advance(far)
			clock.Expire()
		}
	}
	for _, r := range keep {
		if s.load(r.ID).State == 0 {
			s.Errorf("%v of expiry %v is gone, the store's clock being at %v", r.State, r.Expires, s.load(r.ID).At)
			continue
		}
		s.holds(r)
	}
}
