package idemtest

import (
	"context"
	"errors"
	"iter"

	"github.com/idem-go/idem"
)

func largeMutants() []mutant {
	const comeBack, kept, torn, other = "large receipts come back", "a receipt passed on is kept", "a torn receipt is an error", "fetch leaves other records as they are"
	fetching := func(name, caughtBy string, f func(r idem.Record, full *idem.Record, err *error)) mutant {
		return mutant{name, caughtBy, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, fetch: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				full, err := m.Fetch(ctx, r)
				f(r, &full, &err)
				return full, err
			}}
		}}
	}
	swapping := func(name string, f func(r *idem.Record)) mutant {
		return mutant{name, kept, func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				f(&r)
				return m.Swap(ctx, seen, r)
			}}
		}}
	}
	listing := func(name string, f func(yield func(idem.Record, error) bool) func(idem.Record, error) bool) mutant {
		return mutant{name, "a list goes on past what cannot be read", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, list: func(ctx context.Context, op string, states ...idem.State) iter.Seq2[idem.Record, error] {
				return func(yield func(idem.Record, error) bool) { m.List(ctx, op, states...)(f(yield)) }
			}}
		}}
	}
	return []mutant{
		fetching("fetch brings nothing", comeBack, func(r idem.Record, full *idem.Record, _ *error) { *full = r }),
		fetching("large receipts are cut", comeBack, func(_ idem.Record, full *idem.Record, _ *error) {
			if n := len(full.Receipt.Bytes); n > large {
				full.Receipt.Bytes = full.Receipt.Bytes[:n-1]
			}
		}),
		fetching("a torn receipt is empty", torn, func(_ idem.Record, _ *idem.Record, err *error) { *err = nil }),
		fetching("a torn receipt may heal", torn, func(_ idem.Record, _ *idem.Record, err *error) {
			if *err != nil {
				*err = errors.New("try again")
			}
		}),
		fetching("fetch without a Ref is an error", other, func(r idem.Record, _ *idem.Record, err *error) {
			if r.Receipt.Ref == "" {
				*err = errors.New("nothing to fetch")
			}
		}),
		fetching("fetch without a Ref brings nothing", other, func(r idem.Record, full *idem.Record, _ *error) {
			if r.Receipt.Ref == "" {
				full.Receipt.Bytes = nil
			}
		}),
		swapping("a Ref passed on is dropped", func(r *idem.Record) { r.Receipt.Ref = "" }),
		swapping("a Ref counts more than bytes", func(r *idem.Record) {
			if r.Receipt.Ref != "" {
				r.Receipt.Bytes = nil
			}
		}),
		{"a torn receipt hides its record", torn, func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if got.State != 0 {
					_, *err = m.Fetch(context.Background(), *got)
				}
			})
		}},
		listing("a list ends at what cannot be read", func(yield func(idem.Record, error) bool) func(idem.Record, error) bool {
			return func(r idem.Record, err error) bool { return yield(r, err) && err == nil }
		}),
		listing("a list passes over what cannot be read", func(yield func(idem.Record, error) bool) func(idem.Record, error) bool {
			return func(r idem.Record, err error) bool { return err != nil || yield(r, err) }
		}),
	}
}
