package idem

import (
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"sync"
	"testing"
)

// setting is one scope: who takes part, and what may go wrong.
type setting struct {
	name      string
	recovery  recovery
	begins    []Begin // one per delivery of the request
	txs       []bool
	faults    int8 // messages lost or delayed
	ttl       int8 // how often a retention may pass
	restores  int8
	sweeps    int8 // passes of the sweeper, with its reconciler
	operators int8 // decisions of an operator
	rewraps   int8
	notes     bool
	alarm     bool // also: without crash, doubt, lapse or ambiguity it ends by itself
	long      bool // not in an ordinary run: IDEM_EXPLORE=long
}

func (s *setting) durable(i int) bool { return i < len(s.begins) && s.begins[i] == Durable }
func (s *setting) tx(i int) bool      { return i < len(s.txs) && s.txs[i] }

var (
	ignored  = []Begin{Ignored, Ignored} // InMemory is Ignored for the record
	durable  = []Begin{Durable, Durable}
	mixed    = []Begin{Ignored, Durable}
	ignored3 = []Begin{Ignored, Ignored, Ignored}
	durable3 = []Begin{Durable, Durable, Durable}
	mixed3   = []Begin{Ignored, Durable, Durable}
)

var settings = []setting{
	{name: "hold, alarm", begins: ignored, alarm: true},
	{name: "hold, alarm, faults", begins: ignored, faults: 3, rewraps: 1, alarm: true},
	{name: "hold", begins: ignored, faults: 2},
	{name: "hold, notes", begins: ignored, faults: 2, notes: true, operators: 1},
	{name: "hold, operator", begins: ignored, faults: 2, operators: 2},
	{name: "hold, rewrap", begins: ignored, faults: 1, rewraps: 1, ttl: 1},
	{name: "hold, 3", begins: ignored3, faults: 1, operators: 1},
	{name: "durable, alarm", begins: durable, alarm: true},
	{name: "durable, alarm, faults", begins: durable, faults: 3, rewraps: 1, alarm: true},
	{name: "durable", begins: durable, faults: 2},
	{name: "durable, 3", begins: durable3, faults: 1},
	{name: "durable, sweep", begins: durable, faults: 1, sweeps: 2},
	{name: "durable, reconcile", recovery: reconcile, begins: durable, faults: 2},
	{name: "durable, reconcile, sweep", recovery: reconcile, begins: durable, faults: 1, sweeps: 1},
	{name: "durable, reconcile, 3", recovery: reconcile, begins: durable3},
	{name: "mixed, alarm", begins: mixed, alarm: true},
	{name: "mixed, reconcile", recovery: reconcile, begins: mixed, faults: 2},
	{name: "mixed, reconcile, 3", recovery: reconcile, begins: mixed3},
	{name: "reconcile", recovery: reconcile, begins: ignored, faults: 2},
	{name: "reconcile, notes", recovery: reconcile, begins: ignored, faults: 1, notes: true},
	{name: "reconcile, sweep", recovery: reconcile, begins: ignored, faults: 1, sweeps: 1},
	{name: "reconcile, sweep, operator", recovery: reconcile, begins: ignored, sweeps: 1, operators: 1},
	{name: "reconcile, 3", recovery: reconcile, begins: ignored3},
	{name: "reconcile, 3, fault", long: true, recovery: reconcile, begins: ignored3, faults: 1},
	{name: "rerun", recovery: rerun, begins: ignored, faults: 2},
	{name: "rerun, durable, 3", recovery: rerun, begins: durable3},
	{name: "rerun, 3, fault", long: true, recovery: rerun, begins: ignored3, faults: 1},
	{name: "expiry", begins: ignored, faults: 2, ttl: 1, operators: 1},
	{name: "expiry, reconcile", recovery: reconcile, begins: ignored, faults: 1, ttl: 1},
	{name: "expiry, reconcile, 3", recovery: reconcile, begins: ignored3, ttl: 1},
	{name: "expiry, rerun", recovery: rerun, begins: ignored, faults: 1, ttl: 1},
	{name: "restore", begins: ignored, faults: 1, restores: 1, operators: 1},
	{name: "restore, operator, 3", begins: ignored3, restores: 1, operators: 2},
	{name: "restore, reconcile", recovery: reconcile, begins: ignored, restores: 1},
	{name: "restore, reconcile, fault", recovery: reconcile, begins: ignored, faults: 1, restores: 1},
	{name: "restore, reconcile, 3", long: true, recovery: reconcile, begins: ignored3, restores: 1},
	{name: "restore, durable", recovery: reconcile, begins: durable, restores: 1},
	{name: "restore, durable, 3", long: true, recovery: reconcile, begins: durable3, restores: 1},
	{name: "restore, rerun, 3", recovery: rerun, begins: ignored3, restores: 1},
	{name: "restore, expiry", recovery: reconcile, begins: ignored, restores: 1, ttl: 1},
	{name: "restore, expiry, 3", begins: ignored3, restores: 1, ttl: 1},
	{name: "tx", begins: ignored, txs: []bool{false, true}, faults: 2, ttl: 1},
	{name: "tx, both", begins: ignored, txs: []bool{true, true}, faults: 2, ttl: 1},
	{name: "tx, durable, restore", begins: durable, txs: []bool{false, true}, restores: 1, operators: 1},
	{name: "tx, reconcile, 3", long: true, recovery: reconcile, begins: ignored3, txs: []bool{false, false, true}, faults: 1, operators: 1},
}

// TestExplore visits every interleaving of every setting: deliveries that crash between any two steps or go on after their
// deadline, writes that are lost, late or sent again, leases judged over at any time by anybody, a truthful provider that
// gets requests late or never, a reconciler, an operator, expiry, a restore. The properties hold in every state.
//
// Trusted, not shown: settle is long enough; no request outlives a retention; provider, handler and operator say what is true.
func TestExplore(t *testing.T) {
	long := os.Getenv("IDEM_EXPLORE") == "long"
	var (
		mu     sync.Mutex
		states int
		seen   [reaches]int
		queue  = make(chan *setting)
		wg     sync.WaitGroup
	)
	for range 2 {
		wg.Go(func() {
			for s := range queue {
				f := s.explore()
				mu.Lock()
				t.Logf("%-28s %9d states  %s", s.name, f.states, properties[f.bad])
				if f.bad != holds {
					t.Errorf("%s: %q does not hold:\n  %s", s.name, properties[f.bad], strings.Join(f.trace, "\n  "))
				}
				states += f.states
				for c, n := range f.reach {
					seen[c] += n
				}
				mu.Unlock()
			}
		})
	}
	for k := range settings {
		if long || !settings[k].long && !(testing.Short() && len(settings[k].begins) > 2) {
			queue <- &settings[k]
		}
	}
	close(queue)
	wg.Wait()
	fmt.Printf("explored %d states of the protocol; properties: %s\n", states, strings.Join(properties[1:], "; "))
	for c, n := range seen {
		t.Logf("%9d x %s", n, reached[c])
		if n == 0 && !testing.Short() {
			t.Errorf("never reached: %s", reached[c])
		}
	}
}

// found is what exploring a setting gave.
type found struct {
	states int
	bad    property
	trace  []string
	reach  [reaches]int
}

// chunks is a list that grows without being copied.
type chunks struct {
	of [][]world
	n  int
}

const chunk = 1 << 12

func (c *chunks) add(w world) {
	if c.n%chunk == 0 {
		c.of = append(c.of, make([]world, 0, chunk))
	}
	last := &c.of[len(c.of)-1]
	*last = append(*last, w)
	c.n++
}

func (c *chunks) at(k int32) *world { return &c.of[k/chunk][k%chunk] }

func (s *setting) first() world {
	w := world{faults: s.faults, ttl: s.ttl, backups: s.restores, restores: s.restores, sweeps: s.sweeps, operators: s.operators, rewraps: s.rewraps, excused: !s.alarm}
	for i := range w.a {
		if i != other && i >= len(s.begins) || i == other && s.sweeps+s.operators == 0 {
			w.a[i].at = gone
		}
	}
	return w
}

// explore goes breadth first, so that a counterexample is a shortest one.
func (s *setting) explore() found {
	var (
		all    chunks
		parent []int32
		index  = map[uint64]int32{}
		seed   = maphash.MakeSeed()
		x      = &explorer{setting: s, asked: map[question]reply{}}
	)
	add := func(w *world, from int32) bool {
		for h := maphash.Comparable(seed, *w); ; h++ {
			k, ok := index[h]
			if !ok {
				index[h] = int32(all.n)
				all.add(*w)
				parent = append(parent, from)
				return true
			}
			if *all.at(k) == *w {
				return false
			}
		}
	}
	w := s.first()
	add(&w, -1)
	for k := 0; k < all.n; k++ {
		x.out = x.out[:0]
		x.next(*all.at(int32(k)))
		for j := range x.out {
			w := &x.out[j]
			w.canonical()
			x.check(w)
			if add(w, int32(k)) && w.bad != holds {
				return found{states: all.n, bad: w.bad, trace: x.trace(&all, parent, int32(all.n-1)), reach: x.reach}
			}
		}
	}
	return found{states: all.n, reach: x.reach}
}

// trace goes back to the start and tells what happened.
func (x *explorer) trace(all *chunks, parent []int32, k int32) (lines []string) {
	for ; parent[k] >= 0; k = parent[k] {
		y := &explorer{setting: x.setting, asked: x.asked, say: true}
		y.next(*all.at(parent[k]))
		for j := range y.out {
			w := &y.out[j]
			w.canonical()
			y.check(w)
			if *w == *all.at(k) {
				lines = append([]string{fmt.Sprintf("%s  [%s]", strings.TrimRight(y.text[j], "; "), w.rec)}, lines...)
				break
			}
		}
	}
	return lines
}
