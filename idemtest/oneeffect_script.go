package idemtest

import (
	"fmt"
	"testing"
)

// script is one path: what was chosen, each time there was a choice. A path is repeated up to a choice and goes another way
// there, so that in the end every one was taken.
type script struct {
	taken  []choice
	at     int
	faults int // that may still be chosen
}

type choice struct{ this, of int }

// pick chooses among n; 0 comes first.
func (s *script) pick(n int) int {
	if n < 2 {
		return 0
	}
	if s.at == len(s.taken) {
		s.taken = append(s.taken, choice{0, n})
	}
	c := &s.taken[s.at]
	c.of = n // a handler that is not deterministic may have another choice than the last time
	s.at++
	return min(c.this, n-1)
}

// fault chooses among what may go wrong at one point; 0 is nothing.
func (s *script) fault(n int) int {
	if s.faults == 0 {
		return 0
	}
	f := s.pick(n)
	if f > 0 {
		s.faults--
	}
	return f
}

// next goes to the next path. It is false if there is none.
func (s *script) next() bool {
	s.taken = s.taken[:min(s.at, len(s.taken))]
	s.at = 0
	for k := len(s.taken) - 1; k >= 0; k-- {
		if s.taken[k].this+1 < s.taken[k].of {
			s.taken[k].this++
			s.taken = s.taken[:k+1]
			return true
		}
	}
	return false
}

// explore takes every path of at most that many faults, those of fewer first, until one fails.
func explore(t testing.TB, build func(*World), faults int) (paths int, failure string) {
	results := make(results)
	for most := range faults + 1 {
		s := &script{}
		for {
			s.faults = most
			paths++
			r := newRun(t, s, results)
			r.play(build)
			if r.failed != "" {
				return paths, fmt.Sprintf("idemtest.OneEffect: %s", r.story())
			}
			if t != nil && t.Failed() { // by the user's own hand
				return paths, ""
			}
			if !s.next() {
				break
			}
		}
	}
	return paths, ""
}
