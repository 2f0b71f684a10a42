package idemtest

import (
	"context"
	"slices"

	"github.com/idem-go/idem"
)

func lists(s *suite) {
	l := need[idem.Lister](s)
	op := "idemtest-list"
	var all []idem.Record
	for state := idem.Pending; state <= idem.Released; state++ {
		r := s.full(state)
		r.ID.Operation = op
		s.create(r)
		all = append(all, r)
	}
	foreign := s.full(idem.Pending) // of another operation
	s.create(foreign)
	for _, c := range []struct {
		operation string
		states    []idem.State
	}{
		{op, nil},
		{op, []idem.State{idem.Indeterminate}},
		{op, []idem.State{idem.Pending, idem.Released}},
		{"", []idem.State{idem.Pending, idem.Indeterminate}},
		{"", nil},
	} {
		got := make(map[idem.ID]idem.Record)
		for r, err := range l.List(s.Context(), c.operation, c.states...) {
			switch {
			case r.ID != idem.ID{} && r.ID.Tenant != s.tenant:
				continue // of another subtest or another run
			case err != nil:
				s.Fatalf("list %q %v: %v", c.operation, c.states, err)
			}
			if _, ok := got[r.ID]; ok {
				s.Errorf("list %q %v: %v comes twice", c.operation, c.states, r.ID)
			}
			got[r.ID] = r
		}
		for _, r := range append(all, foreign) {
			want := (c.operation == "" || c.operation == r.ID.Operation) && (c.states == nil || slices.Contains(c.states, r.State))
			g, ok := got[r.ID]
			switch {
			case ok != want:
				s.Errorf("list %q %v: has the %v record of %s: %v, want %v", c.operation, c.states, r.State, r.ID.Operation, ok, want)
			case ok:
				s.equal("list", r, g)
			}
		}
	}
	for range l.List(s.Context(), op) {
		break // early, and once
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	var errs []error
	for _, err := range l.List(ctx, op) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil {
		s.Errorf("list with a done context: errors %v, want one, and then the end", errs)
	}
}

func listsOn(s *suite) {
	l, m := need[idem.Lister](s), need[Meddler](s)
	readable := make(map[idem.ID]bool)
	for i, what := range []Unknown{"", UnknownFormat, "", UnknownState, "", UnknownFormat, ""} {
		r := s.full([]idem.State{idem.Pending, idem.Indeterminate, idem.Completed}[i%3])
		s.create(r)
		if readable[r.ID] = what == ""; what != "" {
			s.meddle(m, r.ID, what)
		}
	}
	for r, err := range l.List(s.Context(), "") {
		ok, ours := readable[r.ID]
		if !ours {
			continue
		}
		if ok != (err == nil) {
			s.Errorf("list: %s, error %v; it can be read: %v", show(r), err, ok)
		}
		delete(readable, r.ID)
	}
	if len(readable) > 0 {
		s.Errorf("list: %d records did not come: %v", len(readable), readable)
	}
}
