package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// Under Rerun the second attempt knows only of itself: whatever it says, the first one may have happened.

// The second attempt could not connect; later than the downstream remembers, nothing runs again.
func TestRerunThatDidNothingLeavesTheFirstOnesDoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	w.crashed(op, request(), w.charges) // attempt 1: effect, crash
	w.lapse()
	op.Do(invoked(t), request(), func(context.Context) (charge, error) { // attempt 2: connection refused
		return charge{}, idem.NotApplied(errors.New("connection refused"))
	})
	w.store.Advance(3 * time.Hour) // downstream forgot
	op.Do(invoked(t), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// A durable begin of the second attempt says nothing about the first.
func TestRerunThatCrashesBeforeItsBeginLeavesTheFirstOnesDoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour), Begin: idem.Durable})
	begins := func(ctx context.Context) (charge, error) {
		if err := idem.AttemptFrom(ctx).Begin(ctx, nil); err != nil {
			return charge{}, err
		}
		return w.charges(ctx)
	}
	w.crashed(op, request(), begins)
	w.lapse()
	w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, nil })
	w.store.Advance(3 * time.Hour)
	op.Do(invoked(t), request(), begins)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// Nor does one in memory.
func TestRerunThatFailsBeforeItsBeginLeavesTheFirstOnesDoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour), Begin: idem.InMemory})
	w.crashed(op, request(), w.charges)
	w.lapse()
	op.Do(invoked(t), request(), func(context.Context) (charge, error) { return charge{}, errors.New("config") })
	w.store.Advance(3 * time.Hour)
	op.Do(invoked(t), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// after is a store that calls back after a Swap.
type after struct {
	*idemtest.Memory
	swapped func()
}

func (a after) Swap(ctx context.Context, v idem.Version, r idem.Record) (idem.Record, error) {
	h, err := a.Memory.Swap(ctx, v, r)
	a.swapped()
	return h, err
}

// The caller left just after the claim.
func TestRerunThatIsTooLateLeavesTheFirstOnesDoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	w.crashed(op, request(), w.charges)
	w.lapse()
	ctx, cancel := context.WithCancel(invoked(t))
	op2, _ := idem.New[charge](after{w.store, cancel}, w.sealer, "charge", &idem.Options{Recover: idem.Rerun(time.Hour)})
	op2.Do(ctx, request(), w.mustNotRun)
	w.store.Advance(3 * time.Hour)
	op.Do(invoked(t), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// When the lost attempt began nobody knows, so nobody knows whether the downstream still remembers it.
func TestKeyThatARestoreLostIsNeverRerun(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(24 * time.Hour)})
	image := w.store.Snapshot()
	must2(op.Do(invoked(t), request(), w.charges))
	w.store.Advance(20 * time.Hour) // the old table refuses writes from now on; keys issued later are not in the lost window
	now := w.store.Now()
	w.store.Restore(image, idem.Generation{Number: 1, Watermark: now, Quiet: now.Add(time.Minute), Until: now.Add(14 * 24 * time.Hour)})
	w.store.Advance(10 * time.Hour) // 30 h after the effect: the downstream has forgotten the key
	op.Do(invokedAt(t, w), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// An answer without a time decides nothing; the next one may have one.
func TestRerunRefusedForWantOfATimeSaysThatARetryHelps(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	op.Do(invoked(t), request(), func(context.Context) (charge, error) { return charge{}, errors.New("?") })
	op2, _ := idem.New[charge](noDate{w.store}, w.sealer, "charge", &idem.Options{Recover: idem.Rerun(time.Hour)})
	_, err := op2.Do(invoked(t), request(), w.charges)
	_, ok := idem.RetryAfter(err)
	if !ok {
		t.Errorf("%v: says no retry", err)
	}
	_, err = op.Do(invoked(t), request(), w.charges)
}

// noDate is a store whose answers tell no time.
type noDate struct{ idem.Store }

func (s noDate) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	h, err := s.Store.Create(ctx, r)
	h.At = time.Time{}
	return h, err
}
func (s noDate) Swap(ctx context.Context, v idem.Version, r idem.Record) (idem.Record, error) {
	h, err := s.Store.Swap(ctx, v, r)
	h.At = time.Time{}
	return h, err
}

// What Look says is what a request would meet.
func TestLookUnderRerunSaysThatARetryRuns(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	w.crashed(op, request(), w.charges)
	w.lapse()
	_, err := op.Look(invoked(t), request())
	if strings.Contains(err.Error(), "operator") {
		t.Error(err)
	}
}

// The guest is two hours ahead of the store.
func TestGuestClockAheadDoesNotExtendRerun(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour), Lease: time.Minute})
	// the guest is 2 h ahead of the store == store 2h behind
	w.store.Advance(-2 * time.Hour)
	op.Do(t.Context(), request(), func(c context.Context) (charge, error) {
		w.charges(c)
		return charge{}, idem.Unknown(errors.New("timeout"))
	})
	w.store.Advance(2*time.Hour + 30*time.Minute) // 2.5 h after the first attempt, by the store
	op.Do(t.Context(), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}
