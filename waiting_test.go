package idem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
)

// In a bubble time passes only while everybody waits, and a goroutine that is left behind fails the test.

// waits makes a world in a bubble, in which the store's clock goes with the bubble's. Each claim is written down.
func waits(t *testing.T, f func(*testing.T, *world, func() []time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var claims []time.Time
		w.follow(func(call string) {
			if call == "Create" {
				mu.Lock()
				defer mu.Unlock()
				claims = append(claims, time.Now())
			}
		})
		f(t, w, func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return append([]time.Time(nil), claims...)
		})
	})
}

// follow lets the store's clock go on with the bubble's.
func (w *world) follow(each func(call string)) {
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		w.store.Advance(time.Since(w.store.Now()))
		each(call)
		return true, nil
	})
}

// owned starts an owner that takes d, and returns when it runs.
func (w *world) owned(op *idem.Operation[charge], d time.Duration, end error) (done func() (idem.Result[charge], error)) {
	started := make(chan struct{})
	var (
		wg  sync.WaitGroup
		res idem.Result[charge]
		err error
	)
	wg.Go(func() {
		res, err = op.Do(invoked(w.t), request(), func(ctx context.Context) (charge, error) {
			close(started)
			time.Sleep(d) // of the bubble
			if end != nil {
				return charge{}, end
			}
			return w.charges(ctx)
		})
	})
	<-started
	return func() (idem.Result[charge], error) { wg.Wait(); return res, err }
}

func TestWaitingDuplicatesGetTheOwnersOutcome(t *testing.T) {
	waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
		op := w.op(idem.Options{Wait: 10 * time.Second})
		owner := w.owned(op, 3*time.Second, nil)
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				res, err := op.Do(invoked(t), request(), w.mustNotRun)
				if took := time.Since(start); err != nil || res.Outcome != idem.Replayed || res.Value.ID != "ch_1" || took < 3*time.Second || took > 4*time.Second {
					t.Errorf("%v %s, %v, after %v: want the owner's within the longest pause", res.Outcome, res.Raw, err, took)
				}
			})
		}
		wg.Wait()
		if res, err := owner(); err != nil || w.count() != 1 {
			t.Errorf("owner: %s, %v; %d effects", res.Raw, err, w.count())
		}
	})
}

func TestWaitingRunsWhatTheOwnerReleased(t *testing.T) {
	waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
		op := w.op(idem.Options{Wait: 10 * time.Second})
		owner := w.owned(op, time.Second, idem.NotApplied(errors.New("nothing")))
		var wg sync.WaitGroup
		for range 5 { // one of them owns it then, and the others wait for that one
			wg.Go(func() { must2(op.Do(invoked(t), request(), w.charges)) })
		}
		wg.Wait()
		if _, err := owner(); err == nil || w.count() != 1 {
			t.Errorf("owner: %v; %d effects", err, w.count())
		}
	})
}

func TestWaitingPausesGrowWithJitter(t *testing.T) {
	firsts := make(map[time.Duration]bool)
	for range 20 {
		waits(t, func(t *testing.T, w *world, claims func() []time.Time) {
			op := w.op(idem.Options{Wait: 20 * time.Second})
			owner := w.owned(op, 15*time.Second, nil)
			must2(op.Do(invoked(t), request(), w.mustNotRun))
			owner()
			at := claims()[1:] // the first one is the owner's
			most := 50 * time.Millisecond
			for k := 1; k < len(at); k++ {
				if pause := at[k].Sub(at[k-1]); pause < most/2 || pause >= most {
					t.Errorf("pause %d is %v, want %v to %v", k, pause, most/2, most)
				}
				most = min(2*most, time.Second)
			}
			if n := len(at); n < 15 || n > 40 {
				t.Errorf("%d claims in 15 s", n)
			}
			firsts[at[1].Sub(at[0])] = true
		})
	}
	if len(firsts) < 15 {
		t.Errorf("20 waiters chose %d different first pauses: a crowd would not spread", len(firsts))
	}
}

func TestWaitingEndsWithItsPatience(t *testing.T) {
	for _, patience := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second} {
		waits(t, func(t *testing.T, w *world, claims func() []time.Time) {
			op := w.op(idem.Options{Wait: patience})
			owner := w.owned(op, 10*time.Second, nil)
			start := time.Now()
			_, err := op.Do(invoked(t), request(), w.mustNotRun)
			as[*idem.InProgressError](t, err)
			if took := time.Since(start); took > patience || took < patience-time.Second {
				t.Errorf("waited for %v of %v", took, patience)
			}
			n := len(claims())
			owner()
			if got := len(claims()); got != n {
				t.Errorf("%d claims more after the answer", got-n)
			}
		})
	}
}

func TestWaitingEndsWhenTheCallerLeaves(t *testing.T) {
	waits(t, func(t *testing.T, w *world, claims func() []time.Time) {
		op := w.op(idem.Options{Wait: 20 * time.Second})
		owner := w.owned(op, 10*time.Second, nil)
		ctx, leave := context.WithCancel(invoked(t))
		time.AfterFunc(3*time.Second, leave)
		start := time.Now()
		_, err := op.Do(ctx, request(), w.mustNotRun)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it waited for %v after its caller had left", took-3*time.Second)
		}
		if as[*idem.UnavailableError](t, err); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		owner()
	})
}

// The time that is kept for recording an outcome is not waited away: whoever becomes the owner then can still run.
func TestWaitingKeepsTheReserve(t *testing.T) {
	for _, left := range []time.Duration{time.Second, 10 * time.Second} {
		waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
			op := w.op(idem.Options{Wait: 20 * time.Second})
			owner := w.owned(op, 25*time.Second, nil)
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			start := time.Now()
			_, err := op.Do(ctx, request(), w.mustNotRun)
			as[*idem.InProgressError](t, err)
			reserve := max(300*time.Millisecond, left/10)
			if took := time.Since(start); took > left-reserve-100*time.Millisecond {
				t.Errorf("waited for %v of %v, of which %v are the reserve and 100 ms to run", took, left, reserve)
			}
			owner()
		})
	}
}

// An owner that died is waited for until its lease is over. What then happens is what happens to everybody.
func TestWaitingForAnOwnerThatDied(t *testing.T) {
	for _, c := range []struct {
		name    string
		options idem.Options
		want    idem.Outcome
	}{
		{"held", idem.Options{}, 0},
		{"not begun", idem.Options{Begin: idem.Durable}, idem.Executed},
		{"run again", idem.Options{Recover: idem.Rerun(time.Hour)}, idem.Executed},
		{"reconciled", idem.Options{Recover: idem.Reconcile(time.Hour, func(context.Context, idem.Doubt) (charge, error) { return charge{ID: "found"}, nil })}, idem.Reconciled},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
				c.options.Wait = 50 * time.Second
				op := w.op(c.options)
				w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("dies here") })
				w.follow(func(string) {})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				res, err := op.Do(ctx, request(), w.charges)
				if took := time.Since(start); took < 35*time.Second || took > 36*time.Second+time.Millisecond {
					t.Errorf("waited for %v: the lease is 30 s and a margin of 5", took)
				}
				if c.want == 0 {
					as[*idem.IndeterminateError](t, err)
				} else if err != nil || res.Outcome != c.want {
					t.Errorf("%v, %v; want %v", res.Outcome, err, c.want)
				}
			})
		})
	}
}

// What waiting cannot change is told at once.
func TestOnlyAnOwnerIsWaitedFor(t *testing.T) {
	waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
		op := w.op(idem.Options{Wait: 20 * time.Second})
		owner := w.owned(op, 10*time.Second, errors.New("unknown"))
		start := time.Now()
		other := request()
		other.Payload = charge{Amount: 999}
		_, err := op.Do(invoked(t), other, w.mustNotRun)
		as[*idem.MismatchError](t, err)
		if took := time.Since(start); took != 0 {
			t.Errorf("a mismatch waited for %v", took)
		}
		owner()
		start = time.Now()
		_, err = op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.IndeterminateError](t, err)
		if took := time.Since(start); took != 0 {
			t.Errorf("a doubt waited for %v", took)
		}
	})
}

// A store that fails while a request waits is a refusal, not a reason to run.
func TestWaitingOverAFailingStore(t *testing.T) {
	waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
		op := w.op(idem.Options{Wait: 20 * time.Second})
		owner := w.owned(op, 10*time.Second, nil)
		start := time.Now()
		n := 0
		w.store.Fail(func(call string, _ idem.ID) (bool, error) {
			if call == "Create" {
				if n++; n == 3 {
					return false, fmt.Errorf("throttled")
				}
			}
			return true, nil
		})
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if took := time.Since(start); took > time.Second {
			t.Errorf("after %v", took)
		}
		owner()
	})
}
