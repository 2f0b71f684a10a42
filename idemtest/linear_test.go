package idemtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func TestLinearizable(t *testing.T) {
	for _, c := range []struct {
		name string
		want bool
		ops  []op
	}{
		{"nothing", true, nil},
		{"create, load", true, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2}, {kind: load, got: 1, call: 3, ret: 4}}},
		{"a load after an answered create sees nothing", false, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2}, {kind: load, got: 0, call: 3, ret: 4}}},
		{"a load during a create sees nothing", true, []op{{kind: create, version: 1, got: 1, call: 1, ret: 4}, {kind: load, got: 0, call: 2, ret: 3}}},
		{"two creates own", false, []op{{kind: create, version: 1, got: 1, call: 1, ret: 4}, {kind: create, version: 2, got: 2, call: 2, ret: 3}}},
		{"a refused create is told nothing", false, []op{{kind: create, version: 1, got: 0, call: 1, ret: 2}}},
		{"a swap of nothing is told so", true, []op{{kind: swap, seen: 7, version: 1, got: 0, call: 1, ret: 2}}},
		{"a swap of the zero version creates", false, []op{{kind: swap, seen: 0, version: 1, got: 1, call: 1, ret: 2}}},
		{"two swaps from one version win", false, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2},
			{kind: swap, seen: 1, version: 2, got: 2, call: 3, ret: 6}, {kind: swap, seen: 1, version: 3, got: 3, call: 4, ret: 5}}},
		{"a swap was applied and then replaced, and is told so", true, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2},
			{kind: swap, seen: 1, version: 2, got: 3, call: 3, ret: 6}, {kind: swap, seen: 2, version: 3, got: 3, call: 4, ret: 5}}},
		{"a swap that fits is told what it fits", false, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2},
			{kind: swap, seen: 1, version: 2, got: 1, call: 3, ret: 4}}},
		{"a refused swap is seen", false, []op{{kind: create, version: 1, got: 1, call: 1, ret: 2},
			{kind: swap, seen: 9, version: 2, got: 1, call: 3, ret: 4}, {kind: load, got: 2, call: 5, ret: 6}}},
		{"an unknown write is applied late", true, []op{{kind: create, version: 1, unknown: true, call: 1, ret: 2},
			{kind: load, got: 0, call: 3, ret: 4}, {kind: load, got: 1, call: 5, ret: 6}}},
		{"an unknown write is applied before its call", false, []op{{kind: load, got: 1, call: 1, ret: 2}, {kind: create, version: 1, unknown: true, call: 3, ret: 4}}},
		{"an unknown write comes and goes", false, []op{{kind: create, version: 1, unknown: true, call: 1, ret: 2},
			{kind: load, got: 1, call: 3, ret: 4}, {kind: load, got: 0, call: 5, ret: 6}}},
	} {
		if got := linearizable(c.ops); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if got := byPorcupine(c.ops); got != c.want {
			t.Errorf("%s: porcupine says %v, want %v", c.name, got, c.want)
		}
	}
}

// The suite's own search says what porcupine says, about histories as they may be and about spoiled ones.
func TestLinearizableAgreesWithPorcupine(t *testing.T) {
	verdicts := make(map[bool]int)
	for n := range 3000 {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		ops := happen(r, 2+r.IntN(4), 4+r.IntN(20))
		if n%2 == 1 {
			spoiled := &ops[r.IntN(len(ops))]
			spoiled.got = r.IntN(len(ops))
		} else if !linearizable(ops) {
			t.Fatalf("seed %d: not linearizable, but it happened:\n%s", n, describe(ops))
		}
		got, want := linearizable(ops), byPorcupine(ops)
		if got != want {
			t.Fatalf("seed %d: got %v, porcupine says %v:\n%s", n, got, want, describe(ops))
		}
		verdicts[got]++
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("verdicts %v are one-sided", verdicts)
	}
}

// happen lets callers do n calls in all on a true register, on a network that loses answers and repeats writes.
func happen(r *rand.Rand, callers, n int) []op {
	type caller struct {
		op   *op
		sent bool // and answered, for the last time
		seen int
	}
	var (
		ops      []op
		clock    int64
		holder   int
		who      = make([]caller, callers)
		finished = func() bool {
			for _, c := range who {
				if c.op != nil {
					return false
				}
			}
			return len(ops) >= n
		}
		calls = 0
	)
	for !finished() {
		c := &who[r.IntN(callers)]
		clock++
		switch {
		case c.op == nil && calls < n:
			calls++
			c.op = &op{kind: []opKind{load, create, swap}[r.IntN(3)], seen: c.seen, version: calls, call: clock}
			if c.op.kind == load {
				c.op.version = 0
			}
			c.sent = false
		case c.op == nil:
		case !c.sent: // arrives
			o := c.op
			if o.kind == create && holder == 0 || o.kind == swap && holder == o.seen && o.seen != 0 {
				holder = o.version
			}
			o.got = holder
			o.unknown = o.unknown || o.kind != load && r.IntN(8) == 0
			c.sent = o.kind == load || r.IntN(4) > 0 // or its answer is lost, and it is sent again
		default: // is answered
			c.op.ret = clock
			if !c.op.unknown {
				c.seen = c.op.got
			}
			ops = append(ops, *c.op)
			c.op = nil
		}
	}
	return ops
}

// byPorcupine asks porcupine. A write is two operations there: it is tried, and answered later.
func byPorcupine(ops []op) bool {
	type input struct {
		op
		i      int
		answer bool
	}
	type state struct {
		holder int
		tried  uint64
	}
	var history []porcupine.Operation
	for i, o := range ops {
		if o.kind != load {
			try := porcupine.Operation{ClientId: 2 * i, Input: input{op: o, i: i}, Call: o.call, Return: o.ret}
			if o.unknown {
				try.Return = math.MaxInt64
			}
			history = append(history, try)
		}
		if !o.unknown {
			history = append(history, porcupine.Operation{ClientId: 2*i + 1, Input: input{op: o, i: i, answer: true}, Call: o.call, Return: o.ret})
		}
	}
	model := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, _ any) (bool, any) {
			st, i := s.(state), in.(input)
			bit := uint64(1) << i.i
			if i.answer {
				return st.holder == i.got && (i.kind == load || st.tried&bit != 0), st
			}
			if i.kind == create && st.holder == 0 || i.kind == swap && st.holder == i.seen && i.seen != 0 {
				st.holder = i.version
			}
			st.tried |= bit
			return true, st
		},
	}
	return porcupine.CheckOperationsTimeout(model, history, time.Minute) == porcupine.Ok
}
