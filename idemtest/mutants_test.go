package idemtest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem"
)

// mutant is a broken store, and the subtest that finds it.
type mutant struct {
	name, caughtBy string
	open           func(m *Memory) idem.Store
}

func TestBrokenStoresAreCaught(t *testing.T) {
	all := slices.Concat(registerMutants(), concurrencyMutants(), fieldMutants(), idMutants(), clockMutants(), errorMutants(), networkMutants(), largeMutants())
	catches := make(map[string]bool)
	for _, m := range all {
		catches[m.caughtBy] = true
		t.Run(m.name, func(t *testing.T) {
			r := try(t, m.caughtBy, m.open)
			switch {
			case r.skipped:
				t.Errorf("%q was skipped", m.caughtBy)
			case len(r.messages) == 0:
				t.Errorf("%q does not see it", m.caughtBy)
			default:
				t.Logf("%q: %s", m.caughtBy, r.messages[0])
			}
		})
	}
	for _, s := range subtests {
		if !catches[s.name] {
			t.Errorf("no broken store fails %q: it may be unable to fail", s.name)
		}
	}
}

// What the mutants are made of is no reason to fail.
func TestSoundStoresPass(t *testing.T) {
	same := func(*idem.Record) {}
	for name, open := range map[string]func(*Memory) idem.Store{
		"memory":      func(m *Memory) idem.Store { return m },
		"written":     func(m *Memory) idem.Store { return written(m, same) },
		"answered":    func(m *Memory) idem.Store { return answered(m, func(idem.Record, *idem.Record, *error) {}) },
		"readdressed": func(m *Memory) idem.Store { return readdressed(m, func(id idem.ID) idem.ID { return id }) },
		"network":     func(m *Memory) idem.Store { return &network{Memory: m} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range subtests {
				if r := try(t, s.name, open); len(r.messages) > 0 {
					t.Errorf("%s: %s", s.name, strings.Join(r.messages, "\n"))
				}
			}
		})
	}
}

func registerMutants() []mutant {
	type seenFunc func(m *Memory, seen, held idem.Version) idem.Version
	swapSeeing := func(f seenFunc) func(*Memory) idem.Store {
		return func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				held, _ := m.Load(ctx, r.ID)
				return m.Swap(ctx, f(m, seen, held.Version), r)
			}}
		}
	}
	refusal := func(swaps bool, change func(got *idem.Record, err *error)) func(*Memory) idem.Store {
		return func(m *Memory) idem.Store {
			w := answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if r.State != 0 && *err == nil && got.Version != r.Version {
					change(got, err)
				}
			})
			if swaps {
				w.create = nil
			} else {
				w.swap = nil
			}
			return w
		}
	}
	nothing := func(got *idem.Record, _ *error) { *got = idem.Record{At: got.At} }
	anError := func(got *idem.Record, err *error) { *got, *err = idem.Record{}, errors.New("condition failed") }
	return []mutant{
		{"absence is an error", "an absent ID loads as the zero state", func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if got.State == 0 {
					*err = errors.New("not found")
				}
			})
		}},
		{"absence has a state", "an absent ID loads as the zero state", func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if got.State == 0 {
					got.State = idem.Released
				}
			})
		}},
		{"create does not store", "create stores where nothing is", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(_ context.Context, r idem.Record) (idem.Record, error) {
				r.At = m.Now()
				return r, nil
			}}
		}},
		{"create overwrites", "create leaves a holder and returns it", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				m.Remove(ctx, r.ID)
				return m.Create(ctx, r)
			}}
		}},
		{"create overwrites what is released", "create leaves a holder and returns it", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.State == idem.Released {
					m.Remove(ctx, r.ID)
				}
				return m.Create(ctx, r)
			}}
		}},
		{"refused create returns nothing", "create leaves a holder and returns it", refusal(false, nothing)},
		{"refused create is an error", "create leaves a holder and returns it", refusal(false, anError)},
		{"refused create returns one's own", "create leaves a holder and returns it", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				_, err := m.Create(ctx, r)
				return r, err
			}}
		}},
		{"own write in the way is an error", "a write sent again is still one's own", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.Version == r.Version {
					return held, errors.New("condition failed")
				}
				return m.Create(ctx, r)
			}}
		}},
		{"own swap in the way is nothing", "a write sent again is still one's own", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.Version == r.Version {
					return idem.Record{At: held.At}, nil
				}
				return m.Swap(ctx, seen, r)
			}}
		}},
		{"swap does not store", "swap stores over the version seen", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(_ context.Context, _ idem.Version, r idem.Record) (idem.Record, error) { return r, nil }}
		}},
		{"swap ignores the version", "swap leaves another version and returns it", swapSeeing(func(_ *Memory, _, held idem.Version) idem.Version { return held })},
		{"swap takes the zero version for any", "swap leaves another version and returns it", swapSeeing(func(_ *Memory, seen, held idem.Version) idem.Version {
			if seen == (idem.Version{}) {
				return held
			}
			return seen
		})},
		{"swap compares half of the version", "swap leaves another version and returns it", swapSeeing(func(_ *Memory, seen, held idem.Version) idem.Version {
			if [8]byte(seen[:]) == [8]byte(held[:]) {
				return held
			}
			return seen
		})},
		{"refused swap returns nothing", "swap leaves another version and returns it", refusal(true, nothing)},
		{"refused swap is an error", "swap leaves another version and returns it", refusal(true, anError)},
		{"swap creates", "swap creates nothing", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.State == 0 {
					return m.Create(ctx, r)
				}
				return m.Swap(ctx, seen, r)
			}}
		}},
		{"swap asks for the lease", "leases and owners do not matter", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.State == idem.Pending && held.Fence != r.Fence && held.At.Before(held.Lease) {
					return held, nil
				}
				return m.Swap(ctx, seen, r)
			}}
		}},
		{"terminal records are sealed off", "leases and owners do not matter", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.State == idem.Failed || held.State == idem.Completed {
					return held, nil
				}
				return m.Swap(ctx, seen, r)
			}}
		}},
		{"list ignores the states", "list filters by operation and state", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, list: func(ctx context.Context, op string, _ ...idem.State) iter.Seq2[idem.Record, error] {
				return m.List(ctx, op)
			}}
		}},
		{"list ignores the operation", "list filters by operation and state", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, list: func(ctx context.Context, _ string, states ...idem.State) iter.Seq2[idem.Record, error] {
				return m.List(ctx, "", states...)
			}}
		}},
		{"list ends quietly when its context is done", "list filters by operation and state", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, list: func(ctx context.Context, op string, states ...idem.State) iter.Seq2[idem.Record, error] {
				if ctx.Err() != nil {
					return func(func(idem.Record, error) bool) {}
				}
				return m.List(ctx, op, states...)
			}}
		}},
	}
}
