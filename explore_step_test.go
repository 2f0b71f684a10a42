package idem

import "time"

// rec is a record as the exploration keeps it: small, comparable, without what only sealing, times and fingerprints need.
// Every transition goes through step itself; toRecord and fromRecord are all there is between the two.
type rec struct {
	State    State
	Version  uint8 // new with every write
	Fence    uint8 // of the current owner
	Life     uint8 // fence of the first owner of this life
	Gen      uint8 // generation of the table at the last write
	Value    uint8 // the outcome
	Evidence uint8
	Sealed   uint8 // fence the evidence was sealed under
	Begun    bool
	Expired  bool  // its retention is over by the store's clock
	L        uint8 // ghost: number of this life
	O        uint8 // ghost: fence of the last owner, whose lease the record has
}

// Values of outcomes: up to failures an effect's, from there on a final failure's, from verdicts on a reconciler's failure.
const (
	failures = 8
	verdicts = 16
)

// intent is a want without times: whether something has lapsed or settled is the explorer's choice, not a clock's.
type intent struct {
	what        what
	fence, life uint8
	value       uint8
	lapsed      bool // by the store's clock the lease is over
	settled     bool // the question was asked after the lease's end + settle
	never       bool
	run         bool
}

// who are the constant terms of one caller.
type who struct {
	recovery    recovery
	durable, tx bool
	gen, tick   uint8 // generation it knows; how many retentions have passed: its lease ends later
}

// The times by which step is told what the explorer chose.
var (
	leaseEnd  = time.Unix(1_000_000, 0)
	settleFor = time.Hour
	lapsedAt  = leaseEnd.Add(time.Second)
	ownedAt   = leaseEnd.Add(-time.Second)
)

// fenceStep is how far fences of one generation can get from each other, and 32 is far enough for the scopes explored.
const fenceStep = 32

func wide(f uint8) uint64   { return uint64(f/fenceStep)<<44 | uint64(f%fenceStep) }
func narrow(f uint64) uint8 { return uint8(f>>44)*fenceStep + uint8(f&(1<<44-1)) }

var bytesOf = func() (b [64][]byte) {
	for v := range b {
		b[v] = []byte{byte(v)}
	}
	b[0] = nil
	return b
}()

func valueOf(s Sealed) uint8 {
	if s.empty() {
		return 0
	}
	return s.Bytes[0]
}

func toRecord(r rec, at time.Time) Record {
	n := Record{State: r.State, Fence: wide(r.Fence), Life: wide(r.Life), Generation: uint32(r.Gen), Begun: r.Begun, Lease: leaseEnd, Settle: settleFor, At: at, Started: at, Attempts: 1}
	n.Receipt.Bytes = bytesOf[r.Value]
	n.Evidence = Sealed{Fence: wide(r.Sealed), Bytes: bytesOf[r.Evidence]}
	if r.State.terminal() || r.State == Released {
		n.Expires = at.Add(time.Hour)
		if r.Expired {
			n.Expires = at.Add(-expiryGrace - time.Second)
		}
	}
	if r.State == 0 {
		return Record{At: at}
	}
	return n
}

func fromRecord(n Record, was rec, before Record, m move) rec {
	r := rec{State: n.State, Version: was.Version, Fence: narrow(n.Fence), Life: narrow(n.Life), Gen: uint8(n.Generation), Begun: n.Begun, L: was.L, O: was.O}
	r.Value, r.Evidence, r.Sealed = valueOf(n.Receipt), valueOf(n.Evidence), narrow(n.Evidence.Fence)
	r.Expired = was.Expired && n.Expires.Equal(before.Expires)
	if m == t1 || m == t7 || m == tx {
		r.O = r.Fence
	}
	return r
}

// stepped is step for the explorer. What it gave is remembered: there are few different questions and millions of states.
func (x *explorer) stepped(r rec, w intent, t who) (rec, move, refusal) {
	key := question{r, w, t}
	key.r.Version = 0
	a, ok := x.asked[key]
	if !ok {
		at := ownedAt
		if w.lapsed {
			at = lapsedAt
		}
		before := toRecord(r, at)
		real := want{what: w.what, fence: wide(w.fence), life: wide(w.life), sealed: Sealed{Fence: wide(w.fence), Bytes: bytesOf[w.value]}, reason: Errored,
			asked: leaseEnd, never: w.never, run: w.run, happened: w.value < failures}
		if w.settled {
			real.asked = leaseEnd.Add(settleFor + time.Second)
		}
		terms := terms{generation: Generation{Number: uint32(t.gen)}, recovery: t.recovery, durable: t.durable, tx: t.tx, settle: settleFor, within: time.Hour,
			retain: time.Hour, lease: time.UnixMilli(int64(t.tick)*8 + 1), now: at}
		if t.gen > 0 {
			terms.generation.Until, terms.generation.Watermark = at.Add(time.Hour), at.Add(-time.Hour)
		}
		n, m, why := step(before, real, terms)
		a = reply{fromRecord(n, key.r, before, m), m, why}
		x.asked[key] = a
	}
	a.r.Version = r.Version
	return a.r, a.m, a.why
}

type question struct {
	r rec
	w intent
	t who
}

type reply struct {
	r   rec
	m   move
	why refusal
}
