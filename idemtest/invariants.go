package idemtest

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/idem-go/idem"
)

// The invariants are what section 3 of the design makes true of every write that a store applies, whatever the network, the
// clocks and the crashes did. They are few on purpose. What a transition merely should do (a terminal record has an expiry,
// a doubt has a reason) is for the tests of the root package; and how a record comes to be is nothing to rely on, as an
// operator merges the records of another table by Create.
//
// A write that breaks one fails the test at once and is applied, so that its consequence shows as well.

// expiryGrace is how long an expired record is still honoured. It repeats the root's on purpose: a change there shows here.
const expiryGrace = 15 * time.Minute

// once: a version is new with every write, refused or not. With a version used twice an answer would no longer say which of
// the two it confirms. The same write may come again: a re-sent message does. m.mu is held.
func (m *Memory) once(w write) {
	v := w.record.Version
	if v == (idem.Version{}) {
		m.broken(w.record, "its version is zero, which nobody can have seen")
		return
	}
	d := digest(w)
	if before, ok := m.writes[v]; ok && before != d {
		m.broken(w.record, "its version was used for another write before")
	}
	m.writes[v] = d
}

// written checks a record by itself, and against what the ID ever was. m.mu is held.
func (m *Memory) written(n idem.Record) {
	switch n.State {
	case idem.Pending, idem.Indeterminate:
		// T7 and T9 remove the expiry: TTL would take a running or an unresolved effect for one that never was.
		if !n.Expires.IsZero() {
			m.broken(n, "it can expire, but its outcome is not known")
		}
		// An outcome belongs to terminal records. One in a pending record is another life's, or would be replayed as this owner's.
		if n.State == idem.Pending && !empty(n.Receipt) {
			m.broken(n, "it has a receipt, but nothing is done yet")
		}
	case idem.Completed, idem.Failed, idem.Released:
		// The seed of the next owner's fence has its lease's end in the low bits: after TTL took the record, that fence is
		// the higher one only if no lease outlives its record. Expires is whole seconds, rounded up.
		if !n.Expires.IsZero() && n.Expires.Before(n.Lease) {
			m.broken(n, "it expires before its lease ends")
		}
	default:
		m.broken(n, "its state is none of the five")
	}
	// Life is the fence of the life's first owner and fences rise, so neither is zero and Life is never the higher one. Evidence
	// sealed under a fence below Life is of an earlier life: that rule decides nothing unless this one holds.
	if n.Life == 0 || n.Fence < n.Life {
		m.broken(n, "its life is not from 1 to its fence")
	}
	// A new owner's fence is the highest this ID ever had, across TTL and restore too: a downstream that fences would
	// otherwise refuse it, or accept a dead owner. Only a doubt that is created is none: after a deletion by hand the owner
	// itself leaves it (T9), and knows no higher fence than its own. Whoever runs next is measured again.
	old := m.items[n.ID]
	doubt := old == nil && n.State == idem.Indeterminate
	if n.Fence <= m.high[n.ID] && (old == nil || old.record.Fence != n.Fence) && !doubt {
		m.broken(n, "its fence is neither the record's nor above all the ID ever had")
	}
	m.high[n.ID] = max(m.high[n.ID], n.Fence)
}

// swapped checks a step. m.mu is held.
func (m *Memory) swapped(old, n idem.Record) {
	m.written(n)
	var (
		terminal = old.State == idem.Completed || old.State == idem.Failed
		expired  = !old.Expires.IsZero() && m.now.After(old.Expires.Add(expiryGrace))
		owner    = n.Fence == old.Fence
		life     = n.Life == old.Life
	)
	// Everything a late owner may still write is allowed by "fence unchanged": a lower one would let it in again.
	if n.Fence < old.Fence {
		m.broken(n, "its fence is lower than the record's was")
	}
	// One outcome: terminal records answer until they expire. Only a rewrap, an erasure and an operator's verdict touch them.
	if terminal && !expired && !retouched(old, n) && !reopened(old, n) {
		m.broken(n, "a terminal record that has not expired is changed in more than its sealed bytes, resolution and expiry")
	}
	switch {
	case life:
		// The fingerprint is of the request that opened this life: every text sealed in it is bound to that one.
		if n.Fingerprint != old.Fingerprint {
			m.broken(n, "its fingerprint changed within a life")
		}
		// Lease is the latest of all owners of this life. "Not applied" is believed a settle time after it, so one that
		// moves back believes it while a request of an earlier owner may still be under way.
		if n.Lease.Before(old.Lease) {
			m.broken(n, "its lease ends earlier than it did within the same life")
		}
	default:
		// A new life forgets what the key did. Only absence and expiry allow that; Released goes on in the life it had.
		if !expired {
			m.broken(n, "a new life began, but the old record has not expired")
		}
		if n.Life != n.Fence {
			m.broken(n, "a new life began under a fence that is not its first owner's")
		}
	}
	if !owner {
		return
	}
	// T7: to run (again) means a new owner. With the old one's fence the attempt that was given up could begin and record.
	if n.State == idem.Pending && old.State != idem.Pending {
		m.broken(n, "it is pending again under the same fence")
	}
	// T5 and T6 said that nothing happened, and a new owner may have seen that. A success that comes later is evidence, and
	// makes the record indeterminate; only Tx, a new owner, goes on to an outcome.
	if old.State == idem.Released && (n.State == idem.Completed || n.State == idem.Failed) {
		m.broken(n, "it was released, and its own attempt recorded an outcome")
	}
	// T8: what has begun stays begun while nobody knows the outcome, or a lapse would release an effect that may have happened.
	open := n.State == idem.Pending || n.State == idem.Indeterminate
	if open && old.State != idem.Released && old.Begun && !n.Begun {
		m.broken(n, "it had begun, and now it has not")
	}
}

func (m *Memory) broken(r idem.Record, what string) {
	m.errorf("idemtest: write of %v, %v, fence %d: %s", r.ID, r.State, r.Fence, what)
}

// errorf fails the test.
func (m *Memory) errorf(format string, args ...any) {
	if m.t == nil {
		panic(fmt.Sprintf(format, args...))
	}
	m.t.Errorf(format, args...)
}

// retouched says that n is old but for what a rewrap or an erasure changes: bytes of sealed texts, resolution, expiry, and the
// version and generation of the write itself.
func retouched(old, n idem.Record) bool {
	ok := sealedAgain(old.Receipt, n.Receipt) && sealedAgain(old.Note, n.Note) && sealedAgain(old.Evidence, n.Evidence)
	n.Receipt, n.Note, n.Evidence = old.Receipt, old.Note, old.Evidence
	n.Version, n.Generation, n.Resolved, n.Expires = old.Version, old.Generation, old.Resolved, old.Expires
	return ok && same(old, n)
}

// sealedAgain: no text appears where none was, and one that stays keeps the fence that it is bound to.
func sealedAgain(old, n idem.Sealed) bool {
	return empty(n) || !empty(old) && n.Fence == old.Fence
}

func empty(s idem.Sealed) bool { return len(s.Bytes) == 0 && s.Ref == "" }

// reopened says that an operator, by name, made a terminal record indeterminate because its receipt can no longer be read.
func reopened(old, n idem.Record) bool {
	return n.State == idem.Indeterminate && n.Life == old.Life && n.Resolved.By != "" && n.Resolved != old.Resolved
}

// same says that two stored records are equal.
func same(a, b idem.Record) bool {
	return digest(write{record: a}) == digest(write{record: b})
}

var seed = maphash.MakeSeed()

// digest tells writes apart. It covers every field of a stored record: 8 bytes per write are all that is kept of it.
func digest(w write) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var b []byte
	num := func(n uint64) { b = binary.LittleEndian.AppendUint64(b, n) }
	flag := func(f bool) {
		if f {
			num(1)
		} else {
			num(0)
		}
	}
	when := func(t time.Time) { num(uint64(t.UnixMilli())); flag(t.IsZero()) }
	text := func(s string) { num(uint64(len(s))); b = append(b, s...) }
	sealed := func(s idem.Sealed) { num(s.Fence); text(s.Ref); num(uint64(len(s.Bytes))); b = append(b, s.Bytes...) }
	r := w.record
	b = make([]byte, 0, 512)
	flag(w.create)
	b = append(b, w.seen[:]...)
	text(r.ID.Tenant)
	text(r.ID.Operation)
	b = append(append(append(b, r.ID.Key[:]...), r.Version[:]...), r.Fingerprint[:]...)
	for _, n := range [...]uint64{uint64(r.State), r.Fence, r.Life, uint64(r.Generation), uint64(r.Attempts), uint64(r.Reason),
		uint64(r.Asks), uint64(r.Settle), uint64(r.Retain)} {
		num(n)
	}
	flag(r.Begun)
	for _, t := range [...]time.Time{r.Lease, r.Started, r.Since, r.AskAfter, r.Expires, r.Resolved.At} {
		when(t)
	}
	text(r.Resolved.By)
	text(r.Resolved.Why)
	sealed(r.Receipt)
	sealed(r.Note)
	sealed(r.Evidence)
	h.Write(b)
	return h.Sum64()
}
