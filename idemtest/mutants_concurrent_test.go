package idemtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/idem-go/idem"
)

// meeting lets the first who looks at an ID wait for a second, so that look-then-write always goes wrong. The second it waits at
// most is of the bubble: it is over when nobody else can come.
func meeting() (look func(idem.ID)) {
	var mu sync.Mutex
	met := make(map[idem.ID]chan struct{})
	return func(id idem.ID) {
		mu.Lock()
		c, second := met[id]
		if !second {
			c = make(chan struct{}, 100)
			met[id] = c
		}
		mu.Unlock()
		if second {
			c <- struct{}{}
			return
		}
		select {
		case <-c:
		case <-time.After(time.Second):
		}
	}
}

func concurrencyMutants() []mutant {
	return []mutant{
		{"create looks, then writes", "one of many creates owns and all see it", func(m *Memory) idem.Store {
			look := meeting()
			return &wrapped{Memory: m, create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
				if held, _ := m.Load(ctx, r.ID); held.State != 0 {
					return held, nil
				}
				look(r.ID)
				m.Remove(ctx, r.ID)
				return m.Create(ctx, r)
			}}
		}},
		{"refused create returns nothing to many", "one of many creates owns and all see it", func(m *Memory) idem.Store {
			return answered(m, func(r idem.Record, got *idem.Record, err *error) {
				if r.State != 0 && got.Version != r.Version {
					*got = idem.Record{At: got.At}
				}
			})
		}},
		{"swap looks, then writes", "one of many swaps wins and all see it", func(m *Memory) idem.Store {
			look := meeting()
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				held, _ := m.Load(ctx, r.ID)
				if held.Version != seen {
					return held, nil
				}
				look(r.ID)
				held, _ = m.Load(ctx, r.ID)
				return m.Swap(ctx, held.Version, r)
			}}
		}},
		{"loads are stale", "histories are linearizable", func(m *Memory) idem.Store {
			return remembering(m, true)
		}},
		{"an applied swap says that it was not", "histories are linearizable", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				held, _ := m.Load(ctx, r.ID)
				if _, err := m.Swap(ctx, seen, r); err != nil {
					return idem.Record{}, err
				}
				return held, nil
			}}
		}},
		{"a failed swap was applied", "histories are linearizable", func(m *Memory) idem.Store {
			return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				m.Swap(ctx, seen, r)
				return idem.Record{}, errors.New("throttled")
			}}
		}},
		{"bytes of one write, version of another", "histories are linearizable", func(m *Memory) idem.Store {
			return written(m, func(r *idem.Record) { r.Note.Bytes = []byte("torn") })
		}},
		{"every process remembers", "another process sees every answered write", func(m *Memory) idem.Store {
			return remembering(m, false)
		}},
		{"refused swap returns what was remembered", "another process sees every answered write", func(m *Memory) idem.Store {
			w := remembering(m, false)
			load := w.load
			w.load = nil
			swap := w.swap
			w.swap = func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
				remembered, _ := load(ctx, r.ID)
				got, err := swap(ctx, seen, r)
				if got.Version != r.Version {
					return remembered, err
				}
				return got, err
			}
			return w
		}},
		{"every process has a table", "another process sees every answered write", func(m *Memory) idem.Store {
			return NewMemory(m.t)
		}},
	}
}

// remembering answers loads with what it knows. Own writes it knows if they are not hidden.
func remembering(m *Memory, hidden bool) *wrapped {
	var mu sync.Mutex
	known := make(map[idem.ID]idem.Record)
	keep := func(r idem.Record, err error) (idem.Record, error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && r.State != 0 {
			known[r.ID] = r
		}
		return r, err
	}
	w := &wrapped{Memory: m, load: func(ctx context.Context, id idem.ID) (idem.Record, error) {
		mu.Lock()
		r, ok := known[id]
		mu.Unlock()
		if ok {
			return r, nil
		}
		return keep(m.Load(ctx, id))
	}}
	if hidden {
		return w
	}
	w.create = func(ctx context.Context, r idem.Record) (idem.Record, error) { return keep(m.Create(ctx, r)) }
	w.swap = func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
		got, err := m.Swap(ctx, seen, r)
		if got.Version == r.Version {
			return keep(got, err)
		}
		return got, err
	}
	return w
}
