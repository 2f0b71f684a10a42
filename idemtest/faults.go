package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/idem-go/idem"
)

// Fail has f called before each Create, Swap, Load, Generation and List, with the call's name; f may block, to order
// goroutines. A nil error lets the call go on. Any other is what the caller gets, as it is, and a write is applied iff apply
// says so; under a [Delayed] it arrives later (again). A nil f ends the faults.
//
// A store never says "not applied" of what it applied: apply with an error that does not wrap [idem.ErrAmbiguous] fails the
// test. Calls whose context is done are not seen by f: nothing would be sent.
func (m *Memory) Fail(f func(call string, id idem.ID) (apply bool, err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// Delayed is an error for [Memory.Fail]: the caller's write is still under way, until Deliver. It wraps [idem.ErrAmbiguous].
// The zero value is ready for use, and may hold several writes.
type Delayed struct {
	mu     sync.Mutex
	writes []func() bool
}

// Error implements error.
func (d *Delayed) Error() string { return "idemtest: write is delayed" }

// Unwrap returns [idem.ErrAmbiguous].
func (d *Delayed) Unwrap() error { return idem.ErrAmbiguous }

// Deliver lets the writes arrive in the order they were sent, and tells how many then hold their ID. Called again, it lets
// them arrive again, as re-sent messages do.
func (d *Delayed) Deliver() int {
	d.mu.Lock()
	writes := d.writes[:len(d.writes):len(d.writes)]
	d.mu.Unlock()
	n := 0
	for _, w := range writes {
		if w() {
			n++
		}
	}
	return n
}

func (d *Delayed) hold(w func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes = append(d.writes, w)
}

// before is what every call does first. It returns what Fail's function said, or that ctx is done. m.mu is not held.
func (m *Memory) before(ctx context.Context, call string, id idem.ID) (apply bool, err error) {
	m.mu.Lock()
	m.calls[call]++
	f := m.fail
	m.mu.Unlock()
	if err := done(ctx, call); err != nil {
		return false, err
	}
	if f == nil {
		return false, nil
	}
	if apply, err = f(call, id); err != nil {
		return apply, err
	}
	return false, done(ctx, call) // f may have blocked
}

func done(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("idemtest: %s not applied: %w", call, err)
	}
	return nil
}

// mistake is a write that Fail's function took from its caller.
func (m *Memory) mistake(call string, w write, apply bool, err error) {
	arrive := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		r, err := m.apply(w)
		return err == nil && r.Version == w.record.Version
	}
	if d, ok := errors.AsType[*Delayed](err); ok {
		d.hold(arrive)
	}
	if !apply {
		return
	}
	if !errors.Is(err, idem.ErrAmbiguous) {
		m.errorf("idemtest: %s %v: Fail applied it under an error that says it was not: %v", call, w.record.ID, err)
	}
	arrive()
}
