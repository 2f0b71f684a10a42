package idemtest

import (
	"time"

	"github.com/idem-go/idem"
)

func absentLoads(s *suite) {
	for range 3 {
		s.absent(s.id())
	}
}

func createStores(s *suite) {
	for state := idem.Pending; state <= idem.Released; state++ {
		r := s.record(state)
		s.create(r)
		s.holds(r)
	}
}

func createRefused(s *suite) {
	for state := idem.Pending; state <= idem.Released; state++ {
		r := s.full(state)
		s.create(r)
		late := s.record(idem.Pending)
		late.ID = r.ID
		s.refused("create over it", r)(s.store.Create(s.Context(), late))
		s.holds(r)
	}
}

func sentAgain(s *suite) {
	first := s.full(idem.Pending)
	for range 3 {
		s.create(first)
	}
	second := next(first)
	for range 3 {
		s.swap(first.Version, second)
	}
	// The first write, applied long ago, comes again: it changes nothing, and is no longer one's own.
	s.refused("create sent again", second)(s.store.Create(s.Context(), first))
	s.holds(second)
}

func swapStores(s *suite) {
	r := s.record(idem.Pending)
	s.create(r)
	for _, state := range []idem.State{idem.Pending, idem.Indeterminate, idem.Indeterminate, idem.Completed} {
		n := s.record(state)
		n.ID = r.ID
		s.swap(r.Version, n)
		s.holds(n)
		r = n
	}
}

func swapRefused(s *suite) {
	first := s.full(idem.Pending)
	s.create(first)
	held := next(first)
	s.swap(first.Version, held)
	almost := held.Version
	almost[len(almost)-1] ^= 1
	for what, seen := range map[string]idem.Version{
		"swap of a version that was replaced": first.Version,
		"swap of a version that never was":    version(),
		"swap of the zero version":            {},
		"swap of a version one bit off":       almost,
	} {
		s.refused(what, held)(s.store.Swap(s.Context(), seen, next(first)))
		s.holds(held)
	}
}

func swapAbsent(s *suite) {
	for _, seen := range []idem.Version{{}, version()} {
		r := s.record(idem.Pending)
		s.refused("swap of nothing", idem.Record{})(s.store.Swap(s.Context(), seen, r))
		s.absent(r.ID)
	}
	r := s.record(idem.Pending)
	s.refused("swap of the version it writes", idem.Record{})(s.store.Swap(s.Context(), r.Version, r))
	s.absent(r.ID)
}

// noProtocol makes steps that the protocol above forbids or never makes at such a time: a store asks for the version only.
func noProtocol(s *suite) {
	r := s.record(idem.Pending)
	r.Lease = s.now.Add(time.Hour) // still owned
	s.create(r)
	step := func(change func(*idem.Record)) {
		s.Helper()
		n := next(r)
		change(&n)
		s.swap(r.Version, n)
		s.holds(n)
		r = n
	}
	step(func(r *idem.Record) { r.Fence += 2 }) // taken over while the lease runs
	step(func(r *idem.Record) { r.State = idem.Indeterminate })
	step(func(r *idem.Record) { r.State = idem.Released; r.Expires = s.now.Add(2 * time.Hour) })
	step(func(r *idem.Record) { r.State = idem.Pending; r.Expires = time.Time{}; r.Fence++ })
	step(func(r *idem.Record) { r.State = idem.Failed; r.Expires = s.now.Add(2 * time.Hour) })
	step(func(r *idem.Record) { r.Resolved.By = "operator" }) // a terminal record, too, is one's to change

	r = s.record(idem.Pending)
	r.Lease = s.now.Add(-24 * time.Hour) // lapsed long ago
	s.create(r)
	step(func(r *idem.Record) { r.Begun = true })
	step(func(r *idem.Record) { r.State = idem.Completed; r.Expires = s.now.Add(time.Hour) })
}
