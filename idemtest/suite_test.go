package idemtest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/idem-go/idem"
)

func TestStoreOnMemory(t *testing.T) {
	m := NewMemory(t)
	Store(t, func(testing.TB) idem.Store { return m })
	t.Cleanup(func() {
		n := 0
		for _, c := range m.Calls() {
			n += c
		}
		if n > 2000 {
			t.Errorf("the suite makes %d requests, its doc says less than 2,000", n)
		}
		t.Logf("%d requests", n)
	})
}

// A field that no row sets could be lost, and a state that no row has could be refused, unseen.
func TestRowsCoverEveryField(t *testing.T) {
	m := NewMemory(t)
	s := newSuite(t, func(testing.TB) idem.Store { return m })
	set := make(map[string]bool)
	states := make(map[idem.State]bool)
	for _, row := range s.rows() {
		states[row.record.State] = true
		for _, l := range leaves(reflect.ValueOf(row.record), "") {
			if !l.IsZero() {
				set[l.path] = true
			}
		}
	}
	for _, l := range leaves(reflect.ValueOf(idem.Record{}), "") {
		if !set[l.path] && l.path != "At" && l.path != "Generation" { // of the table, and mutants are tried on one above 0
			t.Errorf("no row sets %s", l.path)
		}
	}
	for state := idem.Pending; ; state++ {
		if strings.HasPrefix(state.String(), "State(") { // not one of ours
			break
		}
		if !states[state] {
			t.Errorf("no row is %v", state)
		}
	}
}
