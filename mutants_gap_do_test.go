package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// meddled is a store whose calls a test may do otherwise.
type meddled struct {
	*idemtest.Memory
	create func(context.Context, idem.Record) (idem.Record, error)
	swap   func(context.Context, idem.Version, idem.Record) (idem.Record, error)
	load   func(context.Context, idem.ID) (idem.Record, error)
}

func (m *meddled) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	if m.create != nil {
		return m.create(ctx, r)
	}
	return m.Memory.Create(ctx, r)
}

func (m *meddled) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	if m.swap != nil {
		return m.swap(ctx, seen, r)
	}
	return m.Memory.Swap(ctx, seen, r)
}

func (m *meddled) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	if m.load != nil {
		return m.load(ctx, id)
	}
	return m.Memory.Load(ctx, id)
}

// meddledOp is the operation "charge" over the world's store, meddled with.
func (w *world) meddledOp(o idem.Options) (*idem.Operation[charge], *meddled) {
	m := &meddled{Memory: w.store}
	return must2(idem.New[charge](m, w.sealer, "charge", &o)), m
}

// hangs is a store's call that gets no answer.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(idem.ErrAmbiguous, ctx.Err())
}

// The caller left while the claim's answer was under way: the claim is there, and nothing will run.
func TestClaimOfACallerThatLeftIsReleased(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		op, m := w.meddledOp(idem.Options{})
		ctx, leave := context.WithCancel(invoked(t))
		m.create = func(ctx context.Context, r idem.Record) (idem.Record, error) {
			h, err := w.store.Create(ctx, r)
			leave()
			if lost {
				return idem.Record{}, errCut
			}
			return h, err
		}
		_, err := op.Do(ctx, request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("answer lost %v: got %v", lost, err)
		}
		w.wantState(idem.Released)
	}
}

func TestTooLittleTimeAsksNobody(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 150 * time.Millisecond} {
		w := newWorld(t)
		op := w.op(idem.Options{Reserve: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), left)
		_, err := op.Do(ctx, request(), w.mustNotRun)
		cancel()
		as[*idem.UnavailableError](t, err)
		if calls := w.store.Calls(); len(calls) != 0 || w.sealer.prepares != 0 || w.kinds() != "Refused" {
			t.Errorf("%v left: calls %v, %d keys prepared", left, calls, w.sealer.prepares)
		}
	}
}

func TestLeaseIsBounded(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 365*24*time.Hour)
	defer cancel()
	w.crashed(w.op(idem.Options{}), request(), w.charges) // by the deadline of an invocation
	if left := w.record().Lease.Sub(w.store.Now()); left < 30*time.Second || left > 36*time.Second {
		t.Errorf("lease of %v", left)
	}
	r := request()
	r.Key = "a year"
	must2(w.op(idem.Options{}).Do(ctx, r, w.charges))
	for _, r := range w.store.Records() {
		if left := r.Lease.Sub(w.store.Now()); left > 24*time.Hour+time.Minute {
			t.Errorf("lease of %v", left)
		}
	}
}

// The deadline is by a clock that is ahead of the store's, so the lease is.
func TestLeaseIsNotShorterThanTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.store.Advance(-time.Hour)
	ctx := invoked(t)
	must2(w.op(idem.Options{}).Do(ctx, request(), w.charges))
	if deadline, _ := ctx.Deadline(); w.record().Lease.Before(deadline) {
		t.Errorf("lease until %v, deadline %v", w.record().Lease, deadline)
	}
}

// The store's clock went on while the claim was under way, as on an environment that was frozen: the lease goes on for 15 s only.
func TestRunEndsBeforeItsLease(t *testing.T) {
	w := newWorld(t)
	op, m := w.meddledOp(idem.Options{})
	m.create = func(ctx context.Context, r idem.Record) (idem.Record, error) {
		w.store.Advance(20 * time.Second)
		return w.store.Create(ctx, r)
	}
	must2(op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		if deadline, _ := ctx.Deadline(); time.Until(deadline) > 10*time.Second {
			t.Errorf("%v to run", time.Until(deadline))
		}
		return w.charges(ctx)
	}))
}

// A record of the key may have been forgotten a little before its retention is over, and that by the store's clock.
func TestKeyNearlyAsOldAsTheRetentionIsRefused(t *testing.T) {
	w := newWorld(t)
	r := request()
	r.Issued = time.Now().Add(-24*time.Hour + 10*time.Minute)
	_, err := w.op(idem.Options{}).Do(invoked(t), r, w.mustNotRun)
	as[*idem.RequestError](t, err)
	r.Issued = time.Now()
	w.store.Advance(25 * time.Hour)
	_, err = w.op(idem.Options{}).Do(invokedAt(t, w), r, w.mustNotRun)
	as[*idem.RequestError](t, err)
}

// What gets no answer ends: a claim after three seconds, or when the function's time is over; the read after it after half a second.
func TestCallsWithoutAnAnswerEnd(t *testing.T) {
	for name, c := range map[string]struct {
		time, reserve, ends time.Duration
		loads               bool
	}{
		"a claim":                {30 * time.Second, time.Second, 3500 * time.Millisecond, false},
		"a claim in little time": {3 * time.Second, time.Second, 2500 * time.Millisecond, false},
		"the read after it":      {30 * time.Second, time.Second, 500 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				op, m := w.meddledOp(idem.Options{Reserve: c.reserve})
				m.create = func(ctx context.Context, _ idem.Record) (idem.Record, error) {
					if c.loads {
						return idem.Record{}, errCut
					}
					return idem.Record{}, hangs(ctx)
				}
				m.load = func(ctx context.Context, _ idem.ID) (idem.Record, error) { return idem.Record{}, hangs(ctx) }
				ctx, cancel := context.WithTimeout(t.Context(), c.time)
				defer cancel()
				start := time.Now()
				_, err := op.Do(ctx, request(), w.mustNotRun)
				as[*idem.UnavailableError](t, err)
				if took := time.Since(start); took != c.ends {
					t.Errorf("ended after %v, want %v", took, c.ends)
				}
			})
		})
	}
}

// The write's answer is lost and the read fails: nobody knows, whatever the read's error says.
func TestFailedReadDoesNotEndTheDoubt(t *testing.T) {
	w := newWorld(t)
	op, m := w.meddledOp(idem.Options{})
	m.swap = func(context.Context, idem.Version, idem.Record) (idem.Record, error) { return idem.Record{}, errCut }
	m.load = func(context.Context, idem.ID) (idem.Record, error) { return idem.Record{}, errors.New("denied") }
	_, err := op.Do(invoked(t), request(), w.charges)
	as[*idem.NotRecordedError](t, err)
	if !errors.Is(err, idem.ErrAmbiguous) {
		t.Errorf("got %v", err)
	}
}

// Somebody deleted the record by hand while it was written: what the owner knows is left as a doubt with evidence.
func TestRecordThatVanishedIsLeftInDoubt(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		op, m := w.meddledOp(idem.Options{})
		empty := w.store.Snapshot()
		once := false
		m.swap = func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
			if !once {
				once = true
				w.store.Restore(empty, idem.Generation{})
				if lost {
					return idem.Record{}, errCut
				}
			}
			return w.store.Swap(ctx, seen, r)
		}
		_, err := op.Do(invoked(t), request(), w.charges)
		as[*idem.LostError](t, err)
		if r := w.record(); r.State != idem.Indeterminate || len(r.Evidence.Bytes) == 0 || !r.Begun {
			t.Errorf("answer lost %v: %v, evidence %q", lost, r.State, r.Evidence.Bytes)
		}
		_, err = op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.IndeterminateError](t, err)
	}
}

// While the reconciler was asked, an operator released the key and somebody else took it.
func TestVerdictThatComesTooLateSeesTheNewOwner(t *testing.T) {
	w := newWorld(t)
	hold := w.op(idem.Options{})
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) {
		must2(idem.Resolve(t.Context(), w.store, w.sealer, w.record(), idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "x"}))
		w.crashed(hold, request(), w.charges)
		return charge{ID: "of the first"}, nil
	})
	w.crashed(op, request(), w.charges)
	w.lapse()
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.InProgressError](t, err)
	w.wantState(idem.Pending)
}

// The reconciler took nearly all the time: the key is not taken for a run that has none.
func TestVerdictWithoutTimeToRunTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		op, _ := reconciled(w, func(idem.Doubt) (charge, error) {
			time.Sleep(2*time.Second - 300*time.Millisecond - 50*time.Millisecond)
			return charge{}, idem.NeverApplied(errors.New("closed"))
		})
		w.crashed(op, request(), w.charges)
		w.lapse()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := op.Do(ctx, request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		w.wantState(idem.Indeterminate)
	})
}

// What this version cannot judge runs nothing, and is neither a mismatch nor in progress.
func TestRecordOfANewerVersionOrGenerationRunsNothing(t *testing.T) {
	w := newWorld(t)
	op, m := w.meddledOp(idem.Options{})
	for name, change := range map[string]func(*idem.Record){
		"state":      func(r *idem.Record) { r.State = 9 },
		"generation": func(r *idem.Record) { r.Generation = 9 },
	} {
		m.create = func(_ context.Context, r idem.Record) (idem.Record, error) {
			r.Version, r.At = idem.Version{1}, w.store.Now()
			change(&r)
			return r, nil
		}
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if !strings.Contains(err.Error(), map[string]string{"state": "does not know", "generation": "adopted"}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFunctionsContextEndsAReserveEarlier(t *testing.T) {
	w := newWorld(t)
	outer := invoked(t)
	must2(w.op(idem.Options{Reserve: 3 * time.Second}).Do(outer, request(), func(ctx context.Context) (charge, error) {
		end, _ := outer.Deadline()
		if deadline, _ := ctx.Deadline(); !deadline.Equal(end.Add(-3 * time.Second)) {
			t.Errorf("ends %v before the invocation", end.Sub(deadline))
		}
		return w.charges(ctx)
	}))
}
