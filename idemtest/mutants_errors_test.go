package idemtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem"
)

func clockMutants() []mutant {
	const told, callers, answers, removed = "every answer tells the store's clock", "the caller's clock is not told",
		"the clock told is that of the answer", "only what is past its expiry is removed"
	when := func(name, caughtBy string, change func(m *Memory, r idem.Record, got *idem.Record)) mutant {
		return mutant{name, caughtBy, func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, _ *error) { change(m, r, got) })
		}}
	}
	written := make(map[idem.Version]time.Time)
	return []mutant{
		when("never tells a time", told, func(_ *Memory, _ idem.Record, got *idem.Record) { got.At = time.Time{} }),
		when("absence has no time", told, func(_ *Memory, _ idem.Record, got *idem.Record) {
			if got.State == 0 {
				got.At = time.Time{}
			}
		}),
		when("a refusal has no time", told, func(_ *Memory, r idem.Record, got *idem.Record) {
			if r.State != 0 && got.Version != r.Version {
				got.At = time.Time{}
			}
		}),
		when("runs backwards", told, func(m *Memory, _ idem.Record, got *idem.Record) { m.Advance(-time.Minute) }),
		when("tells what the caller wrote", callers, func(_ *Memory, r idem.Record, got *idem.Record) {
			if !r.At.IsZero() {
				got.At = r.At
			}
		}),
		when("tells the process's time", answers, func(_ *Memory, _ idem.Record, got *idem.Record) { got.At = time.Now() }),
		when("tells when it was written", answers, func(_ *Memory, r idem.Record, got *idem.Record) {
			if at, ok := written[got.Version]; ok && r.State == 0 {
				got.At = at
			}
			written[got.Version] = got.At
		}),
		{"removes what lapsed", removed, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, expire: func() {
				for _, r := range m.Records() {
					if r.State == idem.Pending && !r.Lease.IsZero() && r.Lease.Before(m.Now()) {
						m.Remove(context.Background(), r.ID)
					}
				}
			}}
		}},
		{"removes what ever could expire", removed, func(m *Memory) idem.Store {
			could := make(map[idem.ID]bool)
			w := answered(m, func(r idem.Record, _ *idem.Record, _ *error) {
				if r.State == idem.Released {
					could[r.ID] = true
				}
			})
			w.expire = func() {
				for id := range could {
					m.Remove(context.Background(), id)
				}
			}
			return w
		}},
		{"removes after a day", removed, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, expire: func() {
				for _, r := range m.Records() {
					if !r.Expires.IsZero() {
						m.Remove(context.Background(), r.ID)
					}
				}
			}}
		}},
	}
}

func errorMutants() []mutant {
	const other, done, unknown = "a write of another generation is refused", "a done context is answered promptly", "an unknown state or format is an error"
	background := func(m *Memory, late func() error) *wrapped {
		return &wrapped{Memory: m,
			create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				got, err := m.Create(context.Background(), r)
				if ctx.Err() != nil {
					return idem.Record{}, late()
				}
				return got, err
			}}
	}
	misread := func(m *Memory, got idem.Record) *wrapped {
		return answered(m, func(_ idem.Record, g *idem.Record, err *error) {
			if *err != nil {
				*g, *err = got, nil
			}
		})
	}
	return []mutant{
		{"tells another generation", "the generation is told", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, generation: func(context.Context) (idem.Generation, error) { return idem.Generation{Number: 7, At: m.Now()}, nil }}
		}},
		{"tells a generation of no time", "the generation is told", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, generation: func(context.Context) (idem.Generation, error) {
				return idem.Generation{Number: generation}, nil
			}}
		}},
		{"tells an old generation", "the generation is told", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, generation: func(context.Context) (idem.Generation, error) {
				return idem.Generation{Number: generation, At: m.Now().Add(-time.Hour)}, nil
			}}
		}},
		{"tells an impossible generation", "the generation is told", func(m *Memory) idem.Store {
			m.Restore(m.Snapshot(), idem.Generation{Number: 1 << 20})
			return m
		}},
		{"takes any generation", other, func(m *Memory) idem.Store {
			return written(m, func(r *idem.Record) { r.Generation = generation })
		}},
		{"refuses other generations ambiguously", other, func(m *Memory) idem.Store {
			return answered(m, func(_ idem.Record, _ *idem.Record, err *error) {
				if *err != nil {
					*err = fmt.Errorf("%w: %w", *err, idem.ErrAmbiguous)
				}
			})
		}},
		{"refuses other generations without an error", other, func(m *Memory) idem.Store { return misread(m, idem.Record{}) }},
		{"applies, then looks at the generation", other, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				g := r.Generation
				r.Generation = generation
				got, err := m.Create(ctx, r)
				if g != generation {
					err = errors.New("not adopted")
				}
				return got, err
			}}
		}},
		{"says nothing about repeating", "what is no use once is no use again", func(m *Memory) idem.Store {
			return answered(m, func(_ idem.Record, _ *idem.Record, err *error) {
				if *err != nil {
					*err = errors.New((*err).Error())
				}
			})
		}},
		{"takes the second time what was no use", "what is no use once is no use again", func(m *Memory) idem.Store {
			tried := make(map[idem.Version]bool)
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				if tried[r.Version] {
					return r, nil
				}
				tried[r.Version] = true
				return m.Create(ctx, r)
			}}
		}},
		{"takes the unknown for absent", unknown, func(m *Memory) idem.Store { return misread(m, idem.Record{}) }},
		{"takes the unknown for pending", unknown, func(m *Memory) idem.Store { return misread(m, idem.Record{State: idem.Pending}) }},
		{"creates over the unknown", unknown, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				if _, err := m.Load(ctx, r.ID); err != nil {
					m.Remove(ctx, r.ID)
				}
				return m.Create(ctx, r)
			}}
		}},
		{"swap drops what it does not know", "swap keeps an unknown field", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.Version != seen {
					return held, nil
				}
				m.Remove(ctx, r.ID)
				return m.Create(ctx, r)
			}}
		}},
		{"waits whatever the context", done, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, load: func(ctx context.Context, id idem.ID) (idem.Record, error) {
				if ctx.Err() != nil {
					time.Sleep(time.Minute)
				}
				return m.Load(ctx, id)
			}}
		}},
		{"applies, then says that it did not", done, func(m *Memory) idem.Store {
			return background(m, func() error { return context.Canceled })
		}},
		{"says that it applied, and did not", done, func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if errors.Is(*err, context.Canceled) {
					*got, *err = r, nil
				}
			})
		}},
	}
}

func networkMutants() []mutant {
	open := func(n *network) func(*Memory) idem.Store {
		return func(m *Memory) idem.Store {
			return &network{Memory: m, pending: n.pending, others: n.others, plain: n.plain, always: n.always, deaf: n.deaf}
		}
	}
	return []mutant{
		{"never repeats a pending write", "a passing failure is not the caller's", open(&network{pending: 1})},
		{"repeats all writes few times", "a passing failure is not the caller's", open(&network{others: 3})},
		{"repeats a pending write for ever", "a pending write is given up soon", open(&network{pending: 1 << 30})},
		{"forgets that it was repeated", "a lost answer is not lost", open(&network{always: errors.New("condition failed")})},
		{"ambiguous though the second answer told", "a lost answer is not lost", open(&network{always: idem.ErrAmbiguous})},
		{"a lost answer is a plain failure", "what may have been applied is ambiguous", open(&network{plain: true})},
		{"a lost answer is a plain failure to many", "histories of a broken network are linearizable", open(&network{plain: true, pending: 1})},
		{"pauses whatever the context", "a failing service does not hold a done context", open(&network{deaf: true})},
	}
}
