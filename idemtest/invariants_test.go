package idemtest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// step is a write over old, or over nothing if old has no state.
type step struct {
	name   string
	old    idem.State
	change func(s *suite, r *idem.Record)
	broken string // part of the complaint; empty: the protocol makes such a write
}

func to(state idem.State) func(*suite, *idem.Record) {
	return func(s *suite, r *idem.Record) {
		full := s.full(state)
		r.State, r.Expires = state, full.Expires
		if r.Receipt = (idem.Sealed{}); state == idem.Completed || state == idem.Failed {
			r.Receipt = sealed(r.Fence, 8)
		}
	}
}

func and(fs ...func(*suite, *idem.Record)) func(*suite, *idem.Record) {
	return func(s *suite, r *idem.Record) {
		for _, f := range fs {
			f(s, r)
		}
	}
}

func set(f func(*idem.Record)) func(*suite, *idem.Record) {
	return func(_ *suite, r *idem.Record) { f(r) }
}

var (
	newOwner = set(func(r *idem.Record) { r.Fence++ })
	newLife  = set(func(r *idem.Record) {
		r.Fence++
		r.Life, r.Lease, r.Fingerprint = r.Fence, r.Lease.Add(-time.Minute), [32]byte{9}
	})
)

func TestInvariants(t *testing.T) {
	const terminal = "a terminal record that has not expired"
	for _, c := range []step{
		{"T1", 0, to(idem.Pending), ""},
		{"T2 completed", idem.Pending, to(idem.Completed), ""},
		{"T2 late", idem.Indeterminate, to(idem.Failed), ""},
		{"T3", idem.Pending, to(idem.Indeterminate), ""},
		{"T4", idem.Indeterminate, set(func(r *idem.Record) { r.Asks++ }), ""},
		{"T5", idem.Indeterminate, to(idem.Released), ""},
		{"T5 of what has begun", idem.Pending, and(to(idem.Released), set(func(r *idem.Record) { r.Begun = false })), ""},
		{"T6", idem.Indeterminate, and(to(idem.Completed), set(func(r *idem.Record) { r.Resolved.Why = "asked again" })), ""},
		{"T7 from released", idem.Released, and(to(idem.Pending), newOwner, set(func(r *idem.Record) { r.Begun = false })), ""},
		{"T7 from indeterminate", idem.Indeterminate, and(to(idem.Pending), newOwner), ""},
		{"T7 from not begun", idem.Pending, newOwner, ""},
		{"T8", idem.Pending, set(func(r *idem.Record) { r.Note = sealed(r.Fence, 9) }), ""},
		{"T9 of nothing", 0, to(idem.Indeterminate), ""},
		{"T9 of released", idem.Released, and(to(idem.Indeterminate), newOwner), ""},
		{"TE", idem.Indeterminate, set(func(r *idem.Record) { r.Evidence = sealed(r.Fence-3, 9) }), ""},
		{"TE of released", idem.Released, and(to(idem.Indeterminate), set(func(r *idem.Record) { r.Reason = idem.Contradicted })), ""},
		{"Tx of nothing", 0, to(idem.Completed), ""},
		{"Tx of released", idem.Released, and(to(idem.Completed), newOwner), ""},
		{"merged", 0, to(idem.Released), ""},
		{"rewrapped", idem.Completed, set(func(r *idem.Record) { r.Receipt, r.Note = sealed(r.Receipt.Fence, 50), sealed(r.Note.Fence, 50) }), ""},
		{"erased", idem.Failed, set(func(r *idem.Record) {
			r.Receipt, r.Note, r.Evidence = idem.Sealed{}, idem.Sealed{}, idem.Sealed{}
			r.Resolved.Why, r.Expires = "shredded", r.Expires.Add(time.Hour)
		}), ""},
		{"reopened", idem.Completed, and(to(idem.Indeterminate), set(func(r *idem.Record) { r.Resolved.Why = "cannot be read" })), ""},

		{"no version", 0, set(func(r *idem.Record) { r.State = idem.Pending; r.Version = idem.Version{} }), "version is zero"},
		{"version used", idem.Pending, set(func(r *idem.Record) { r.Version = idem.Version{1} }), "version was used"},
		{"no state", 0, set(func(r *idem.Record) {}), "none of the five"},
		{"unknown state", idem.Pending, set(func(r *idem.Record) { r.State = 6 }), "none of the five"},
		{"pending expires", idem.Pending, set(func(r *idem.Record) { r.Expires = r.Lease.Add(time.Hour) }), "can expire"},
		{"indeterminate expires", idem.Indeterminate, set(func(r *idem.Record) { r.Expires = r.Lease.Add(time.Hour) }), "can expire"},
		{"pending with a receipt", idem.Pending, set(func(r *idem.Record) { r.Receipt = sealed(r.Fence, 1) }), "receipt"},
		{"expires before its lease", idem.Pending, and(to(idem.Released), set(func(r *idem.Record) { r.Expires = r.Lease.Add(-time.Second) })), "before its lease"},
		{"no life", 0, and(to(idem.Pending), set(func(r *idem.Record) { r.Life = 0 })), "life is not"},
		{"life above fence", 0, and(to(idem.Pending), set(func(r *idem.Record) { r.Life = r.Fence + 1 })), "life is not"},
		{"lower fence", idem.Pending, set(func(r *idem.Record) { r.Fence-- }), "lower than the record's"},
		{"other fingerprint", idem.Pending, set(func(r *idem.Record) { r.Fingerprint[0]++ }), "fingerprint changed"},
		{"lease moves back", idem.Pending, and(newOwner, set(func(r *idem.Record) { r.Lease = r.Lease.Add(-time.Millisecond) })), "lease ends earlier"},
		{"new life while known", idem.Completed, and(to(idem.Pending), newLife), "has not expired"},
		{"new life while released", idem.Released, and(to(idem.Pending), newLife), "has not expired"},
		{"new life while pending", idem.Pending, newLife, "has not expired"},
		{"completed, then failed", idem.Completed, to(idem.Failed), terminal},
		{"completed, then completed", idem.Completed, set(func(r *idem.Record) { r.Receipt = sealed(r.Fence-1, 8) }), terminal},
		{"completed, then taken over", idem.Completed, and(to(idem.Pending), newOwner), terminal},
		{"completed, then doubted", idem.Completed, to(idem.Indeterminate), terminal},
		{"completed, then released", idem.Completed, and(to(idem.Released), set(func(r *idem.Record) { r.Resolved.Why = "no" })), terminal},
		{"evidence in a failed record", idem.Failed, set(func(r *idem.Record) { r.Evidence.Fence++ }), terminal},
		{"failed lease moves", idem.Failed, set(func(r *idem.Record) { r.Lease = r.Lease.Add(time.Second) }), terminal},
		{"pending again from indeterminate", idem.Indeterminate, to(idem.Pending), "pending again"},
		{"pending again from released", idem.Released, to(idem.Pending), "pending again"},
		{"released, then completed", idem.Released, to(idem.Completed), "recorded an outcome"},
		{"not begun any more", idem.Pending, set(func(r *idem.Record) { r.Begun = false }), "had begun"},
		{"doubted and not begun any more", idem.Pending, and(to(idem.Indeterminate), set(func(r *idem.Record) { r.Begun = false })), "had begun"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record(t, func(t *recorder) {
				m := NewMemory(t)
				s := newSuite(t, func(testing.TB) idem.Store { return m })
				old := s.full(c.old)
				if old.Version = (idem.Version{1}); c.old != 0 {
					s.create(old)
				} else {
					old.Receipt, old.Expires = idem.Sealed{}, time.Time{}
				}
				n := next(old)
				c.change(s, &n)
				if c.old == 0 {
					m.Create(s.Context(), n)
				} else {
					m.Swap(s.Context(), old.Version, n)
				}
			})
			switch got := strings.Join(r.messages, "\n"); {
			case c.broken == "" && got != "":
				t.Errorf("complains: %s", got)
			case !strings.Contains(got, c.broken):
				t.Errorf("got %q, want a complaint about %q", got, c.broken)
			}
		})
	}
}

// Expiry, TTL and restore open what is closed otherwise, and leave the fence.
func TestInvariantsOverTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *suite, m *Memory, held idem.Record)
		broken string
	}{
		{"expired and in grace", func(s *suite, m *Memory, held idem.Record) {
			m.Advance(24*time.Hour + 14*time.Minute)
			s.step(held, and(to(idem.Pending), newLife))
		}, "has not expired"},
		{"expired", func(s *suite, m *Memory, held idem.Record) {
			m.Advance(24*time.Hour + 16*time.Minute)
			s.step(held, and(to(idem.Pending), newLife))
		}, ""},
		{"expired, and life is not the owner's", func(s *suite, m *Memory, held idem.Record) {
			m.Advance(24*time.Hour + 16*time.Minute)
			s.step(held, and(to(idem.Pending), newLife, newOwner))
		}, "not its first owner's"},
		{"removed, and the fence goes on", func(s *suite, m *Memory, held idem.Record) {
			m.Advance(25 * time.Hour)
			m.Expire()
			s.absent(held.ID)
			n := s.full(idem.Pending)
			n.ID, n.Fence = held.ID, held.Fence+1
			s.create(n)
		}, ""},
		{"removed, and the fence starts again", func(s *suite, m *Memory, held idem.Record) {
			m.Advance(25 * time.Hour)
			m.Expire()
			n := s.full(idem.Pending)
			n.ID, n.Fence = held.ID, held.Fence
			s.create(n)
		}, "above all the ID ever had"},
		{"restored, and the fence repeats the lost one", func(s *suite, m *Memory, held idem.Record) {
			before := m.Snapshot()
			lost := s.full(idem.Pending)
			m.Remove(s.Context(), held.ID)
			lost.ID, lost.Fence = held.ID, held.Fence+1
			s.create(lost)
			m.Restore(before, idem.Generation{Number: 1})
			m.Advance(25 * time.Hour)
			s.step(held, and(to(idem.Pending), newLife, set(func(r *idem.Record) { r.Generation = 1 })))
		}, "above all the ID ever had"},
		{"the same write comes again", func(s *suite, m *Memory, held idem.Record) {
			s.create(held)
			s.create(held)
		}, ""},
		{"the same write over another version", func(s *suite, m *Memory, held idem.Record) {
			m.Swap(s.Context(), version(), held)
		}, "version was used"},
		{"removed by hand, and its owner leaves a doubt", func(s *suite, m *Memory, held idem.Record) {
			m.Remove(s.Context(), held.ID)
			n := s.full(idem.Indeterminate)
			n.ID = held.ID
			s.create(n)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record(t, func(t *recorder) {
				m := NewMemory(t)
				s := newSuite(t, func(testing.TB) idem.Store { return m })
				held := s.full(idem.Completed)
				s.create(held)
				c.change(s, m, held)
			})
			switch got := strings.Join(r.messages, "\n"); {
			case c.broken == "" && got != "":
				t.Errorf("complains: %s", got)
			case !strings.Contains(got, c.broken):
				t.Errorf("got %q, want a complaint about %q", got, c.broken)
			}
		})
	}
}

func (s *suite) step(old idem.Record, change func(*suite, *idem.Record)) {
	n := next(old)
	change(s, &n)
	s.swap(old.Version, n)
}

// A field that digest forgets could change unseen in a terminal record, or under a version that was used.
func TestDigestCoversEveryField(t *testing.T) {
	base := digest(write{})
	for _, l := range leaves(reflect.ValueOf(idem.Record{}), "") {
		if l.path == "At" { // is not stored
			continue
		}
		var r idem.Record
		switch v := get(&r, l.path); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString("x")
		case reflect.Slice:
			v.SetBytes([]byte{1})
		case reflect.Array:
			v.Index(v.Len() - 1).SetUint(1)
		case reflect.Struct:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		case reflect.Int64:
			v.SetInt(1)
		default:
			v.SetUint(1)
		}
		if digest(write{record: r}) == base {
			t.Errorf("%s makes no difference", l.path)
		}
	}
	if digest(write{create: true}) == base || digest(write{seen: idem.Version{1}}) == base {
		t.Error("create or seen makes no difference")
	}
}
