package idemtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/idem-go/idem"
)

// wrapped is a Memory of which some methods are replaced.
type wrapped struct {
	*Memory
	create     func(context.Context, idem.Record) (idem.Record, error)
	swap       func(context.Context, idem.Version, idem.Record) (idem.Record, error)
	load       func(context.Context, idem.ID) (idem.Record, error)
	fetch      func(context.Context, idem.Record) (idem.Record, error)
	generation func(context.Context) (idem.Generation, error)
	list       func(context.Context, string, ...idem.State) iter.Seq2[idem.Record, error]
	expire     func()
}

func (w *wrapped) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	if w.create != nil {
		return w.create(ctx, r)
	}
	return w.Memory.Create(ctx, r)
}

func (w *wrapped) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	if w.swap != nil {
		return w.swap(ctx, seen, r)
	}
	return w.Memory.Swap(ctx, seen, r)
}

func (w *wrapped) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	if w.load != nil {
		return w.load(ctx, id)
	}
	return w.Memory.Load(ctx, id)
}

func (w *wrapped) Fetch(ctx context.Context, r idem.Record) (idem.Record, error) {
	if w.fetch != nil {
		return w.fetch(ctx, r)
	}
	return w.Memory.Fetch(ctx, r)
}

func (w *wrapped) Generation(ctx context.Context) (idem.Generation, error) {
	if w.generation != nil {
		return w.generation(ctx)
	}
	return w.Memory.Generation(ctx)
}

func (w *wrapped) List(ctx context.Context, op string, states ...idem.State) iter.Seq2[idem.Record, error] {
	if w.list != nil {
		return w.list(ctx, op, states...)
	}
	return w.Memory.List(ctx, op, states...)
}

func (w *wrapped) Expire() {
	if w.expire != nil {
		w.expire()
		return
	}
	w.Memory.Expire()
}

// written changes every record on its way in.
func written(m *Memory, change func(r *idem.Record)) *wrapped {
	return &wrapped{Memory: m,
		create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
			change(&r)
			return m.Create(ctx, r)
		},
		swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
			change(&r)
			return m.Swap(ctx, seen, r)
		}}
}

// answered changes every answer; r is what was written, zero for a load.
func answered(m *Memory, change func(r idem.Record, got *idem.Record, err *error)) *wrapped {
	return &wrapped{Memory: m,
		create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
			got, err := m.Create(ctx, r)
			change(r, &got, &err)
			return got, err
		},
		swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
			got, err := m.Swap(ctx, seen, r)
			change(r, &got, &err)
			return got, err
		},
		load: func(ctx context.Context, id idem.ID) (idem.Record, error) {
			got, err := m.Load(ctx, id)
			change(idem.Record{}, &got, &err)
			return got, err
		}}
}

// readdressed keeps every record under another ID.
func readdressed(m *Memory, address func(idem.ID) idem.ID) *wrapped {
	back := func(id idem.ID, got idem.Record, err error) (idem.Record, error) {
		if got.State != 0 {
			got.ID = id
		}
		return got, err
	}
	return &wrapped{Memory: m,
		create: func(ctx context.Context, r idem.Record) (idem.Record, error) {
			id := r.ID
			r.ID = address(id)
			got, err := m.Create(ctx, r)
			return back(id, got, err)
		},
		swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
			id := r.ID
			r.ID = address(id)
			got, err := m.Swap(ctx, seen, r)
			return back(id, got, err)
		},
		load: func(ctx context.Context, id idem.ID) (idem.Record, error) {
			got, err := m.Load(ctx, address(id))
			return back(id, got, err)
		}}
}

// network is a store whose requests can be broken and which repeats them, as one on a network does. Its settings break it.
type network struct {
	*Memory
	pending int   // how often a pending record is sent; 0: 3
	others  int   // how often any other call is sent; 0: as long as the context allows
	plain   bool  // an error never says that it is ambiguous
	always  error // what it says when a write was sent twice, even if that was answered
	deaf    bool  // waits without looking at the context
	mu      sync.Mutex
	left    int
	applied bool
}

func (n *network) Break(requests int, applied bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left, n.applied = requests, applied
}

func (n *network) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	return n.call(ctx, r.State, func() (idem.Record, error) { return n.Memory.Create(ctx, r) })
}

func (n *network) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	return n.call(ctx, r.State, func() (idem.Record, error) { return n.Memory.Swap(ctx, seen, r) })
}

func (n *network) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	return n.call(ctx, 0, func() (idem.Record, error) { return n.Memory.Load(ctx, id) })
}

func (n *network) call(ctx context.Context, state idem.State, send func() (idem.Record, error)) (idem.Record, error) {
	times := n.others
	if state == idem.Pending {
		times = cmp.Or(n.pending, 3)
	}
	err := errors.New("connection lost")
	for i := 1; ; i++ {
		n.mu.Lock()
		lost, applied := n.left > 0, n.applied
		n.left--
		n.mu.Unlock()
		if !lost {
			got, serr := send()
			if i > 1 && n.always != nil && state != 0 {
				return idem.Record{}, n.always
			}
			if serr != nil {
				serr = errors.Join(serr, err)
			}
			return got, serr
		}
		if applied {
			send()
			if !n.plain && state != 0 {
				err = fmt.Errorf("answer lost: %w", idem.ErrAmbiguous)
			}
		}
		if i == times {
			return idem.Record{}, err
		}
		pause := time.After(50 * time.Millisecond)
		if n.deaf {
			<-time.After(20 * time.Second)
		}
		select {
		case <-ctx.Done():
			return idem.Record{}, errors.Join(err, ctx.Err())
		case <-pause:
		}
	}
}
