package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

func panicAfterTheEffect(t *testing.T) {
	for _, begin := range []idem.Begin{idem.Ignored, idem.InMemory, idem.Durable} {
		w := newWorld(t)
		op := w.op(idem.Options{Begin: begin})
		func() {
			defer func() { recover() }()
			op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
				must2(0, idem.AttemptFrom(ctx).Begin(ctx, nil))
				w.charges(ctx)
				panic("boom")
			})
		}()
		w.held(op, idem.Panicked)
	}
}

// held: the effect happened, nobody knows, and it is not run again.
func (w *world) held(op *idem.Operation[charge], why idem.Reason) {
	w.t.Helper()
	for range 3 {
		_, err := op.Do(invoked(w.t), request(), w.mustNotRun)
		if e := as[*idem.IndeterminateError](w.t, err); e.Doubt.Reason != why {
			w.t.Errorf("in doubt because of %v, want %v", e.Doubt.Reason, why)
		}
		w.lapse()
	}
	if w.count() != 1 {
		w.t.Errorf("%d effects", w.count())
	}
}

func errorAfterTheEffect(t *testing.T) {
	for _, begin := range []idem.Begin{idem.Ignored, idem.InMemory, idem.Durable} {
		w := newWorld(t)
		op := w.op(idem.Options{Begin: begin})
		_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			must2(0, idem.AttemptFrom(ctx).Begin(ctx, nil))
			w.charges(ctx)
			return charge{}, errCut
		})
		if err != errCut {
			t.Errorf("got %v", err)
		}
		w.held(op, idem.Errored)
	}
}

func claimArrivesAgainAfterItsRelease(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var claim idemtest.Delayed
	w.failOnce("Create", 1, true, &claim)
	op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("nothing")))(w))
	w.store.Fail(nil)
	w.wantState(idem.Released)
	if claim.Deliver() != 0 {
		t.Error("the claim was applied a second time")
	}
	w.wantState(idem.Released)
	must2(op.Do(invoked(t), request(), w.charges))
	if claim.Deliver() != 0 || w.record().State != idem.Completed || w.count() != 1 {
		t.Errorf("%v, %d effects", w.record().State, w.count())
	}
}

// The token of a transaction is forgotten after ten minutes; the version that the record must have is not.
func transactionArrivesAgain(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var again func()
	must2(op.Commit(invoked(t), request(), prepares, func(ctx context.Context, seen idem.Version, next idem.Record) (idem.Record, error) {
		before := len(w.store.Records())
		again = func() {
			w.store.Create(context.WithoutCancel(ctx), next)
			if len(w.store.Records()) > before {
				w.t.Error("the transaction was applied a second time")
			}
		}
		holder, err := w.committed(ctx, seen, next)
		before = len(w.store.Records())
		return holder, err
	}))
	w.store.Advance(11 * time.Minute)
	again()
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// The visibility timeout is 10 s, the function takes 25 s and may take 30.
func redeliveredWhileRunning(t *testing.T) {
	waits(t, func(t *testing.T, w *world, _ func() []time.Time) {
		op := w.op(idem.Options{})
		owner := w.owned(op, 25*time.Second, nil)
		for range 2 {
			time.Sleep(10 * time.Second) // of the bubble
			_, err := op.Do(invoked(t), request(), w.mustNotRun)
			if after, again := idem.RetryAfter(err); !again || after > 35*time.Second {
				t.Errorf("%v: retry %v after %v", err, again, after)
			}
		}
		res, err := owner()
		time.Sleep(10 * time.Second)
		if third := must2(op.Do(invoked(t), request(), w.mustNotRun)); err != nil || string(third.Raw) != string(res.Raw) || w.count() != 1 {
			t.Errorf("%s, %v; then %s; %d effects", res.Raw, err, third.Raw, w.count())
		}
	})
}

func retriedAfterATimeout(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute} {
		w.store.Advance(pause)
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.IndeterminateError](t, err)
	}
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// An operator says "nothing happened" of an owner that only sleeps. Nothing can help an effect that ignores both the begin and the
// downstream's key; with either of them there is one.
func zombieAfterARelease(t *testing.T) {
	release := func(w *world) {
		w.lapse()
		seen := must2(idem.Lapse(t.Context(), w.store, w.record()))
		if seen.State == idem.Indeterminate {
			must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "mistaken"}))
		}
	}
	t.Run("refused at its begin", func(t *testing.T) {
		w := newWorld(t)
		op := w.op(idem.Options{Begin: idem.Durable})
		_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			release(w)
			must2(op.Do(invoked(t), request(), w.charges))
			if err := idem.AttemptFrom(ctx).Begin(ctx, nil); err != nil {
				return charge{}, err
			}
			return w.charges(ctx)
		})
		if err == nil || w.count() != 1 {
			t.Errorf("%v, %d effects", err, w.count())
		}
	})
	t.Run("under the downstream's key", func(t *testing.T) {
		w := newWorld(t)
		op := w.op(idem.Options{})
		charged := make(map[string]bool)
		once := func(ctx context.Context) (charge, error) {
			charged[idem.AttemptFrom(ctx).DownstreamKey()] = true
			return charge{ID: "ch_1"}, nil
		}
		op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			release(w)
			must2(op.Do(invoked(t), request(), once))
			return once(ctx)
		})
		if len(charged) != 1 {
			t.Errorf("%d effects", len(charged))
		}
	})
}

// The deadline is the Lambda service's. A caller that is behind believes that it has more time than that; nobody takes the key from
// it any earlier, and a lease that is longer by as much is the price.
func clockBehindAtTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const behind = 5 * time.Minute
		w := newWorld(t)
		w.store.Advance(behind)
		op := w.op(idem.Options{})
		deadline := w.store.Now().Add(30 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		must2(op.Do(ctx, request(), func(ctx context.Context) (charge, error) {
			lease := w.record().Lease
			if late := lease.Sub(deadline); late < 5*time.Second || late > behind+5*time.Second {
				t.Errorf("the lease ends %v after the deadline", late)
			}
			w.store.Advance(34 * time.Second)
			_, err := op.Do(invokedAt(t, w), request(), w.mustNotRun)
			as[*idem.InProgressError](t, err)
			w.store.Advance(lease.Sub(w.store.Now()) + time.Second)
			_, err = op.Do(invokedAt(t, w), request(), w.mustNotRun)
			as[*idem.IndeterminateError](t, err)
			return w.charges(ctx)
		}))
		w.wantState(idem.Completed)
	})
}

// A caller whose clock is ahead thinks that the lease is over. It is not asked.
func clockAheadAtATakeover(t *testing.T) {
	for _, o := range []idem.Options{{}, {Begin: idem.Durable}, {Recover: idem.Rerun(time.Hour)}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(o)
			w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("dies here") })
			time.Sleep(5 * time.Minute) // of the bubble: the store's clock stands
			_, err := op.Do(invoked(t), request(), w.mustNotRun)
			as[*idem.InProgressError](t, err)
		})
	}
}

// The record expired and was seen, and TTL removes it before the new owner's write: the key is new all the same, once.
func removedBetweenReadAndWrite(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Retain: time.Hour})
	must2(op.Do(invoked(t), request(), w.charges))
	w.store.Advance(2 * time.Hour)
	removed := false
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		if call == "Swap" && !removed {
			w.store.Expire()
			removed = true
		}
		return true, nil
	})
	res := must2(op.Do(invokedAt(t, w), request(), w.charges))
	if !removed || res.Outcome != idem.Executed || w.count() != 2 {
		t.Errorf("removed %v, %v, %d effects in two lives", removed, res.Outcome, w.count())
	}
}

func expiryIsATime(t *testing.T) {
	for _, end := range []error{nil, idem.Final(errors.New("no")), idem.NotApplied(errors.New("no"))} {
		for _, retain := range []time.Duration{time.Hour, 24 * time.Hour, 400 * 24 * time.Hour} {
			w := newWorld(t)
			op := w.op(idem.Options{Retain: retain})
			op.Do(invoked(t), request(), failing(end)(w))
			r := w.record()
			if kept := r.Expires.Sub(w.store.Now()); kept < retain || kept > retain+time.Minute || r.Expires.Nanosecond() != 0 {
				t.Errorf("%v is kept for %v, until %v; want %v and whole seconds", r.State, kept, r.Expires, retain)
			}
		}
	}
	w := newWorld(t)
	w.crashed(w.op(idem.Options{}), request(), w.charges)
	if r := w.record(); !r.Expires.IsZero() {
		t.Errorf("%v expires at %v", r.State, r.Expires)
	}
}

// Each request of a storm costs one write that is refused, and is told to come back later.
func stormOnOneKey(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	before := w.store.Calls()
	const storm = 500
	for range storm {
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		if after, again := idem.RetryAfter(err); !again || after < 20*time.Second {
			t.Fatalf("%v: retry %v after %v", err, again, after)
		}
	}
	after := w.store.Calls()
	if n := after["Create"] + after["Swap"] + after["Load"] - before["Create"] - before["Swap"] - before["Load"]; n != storm {
		t.Errorf("%d requests for %d deliveries", n, storm)
	}
}

// Records that a tenant leaves open stay, can be found, and are nobody else's burden.
func tenantOpensRecords(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	const open = 50
	for k := range open {
		r := request()
		r.Tenant, r.Key = "mallory", fmt.Sprint("key-", k)
		w.crashed(op, r, w.charges)
	}
	must2(op.Do(invoked(t), request(), w.charges))
	w.lapse()
	found := 0
	for r, err := range w.store.List(t.Context(), "charge", idem.Pending) {
		if must2(r, err).ID.Tenant != "mallory" {
			t.Errorf("open: %v", r.ID)
		}
		if moved := must2(idem.Lapse(t.Context(), w.store, r)); moved.State != idem.Indeterminate {
			t.Errorf("swept to %v", moved.State)
		}
		found++
	}
	if found != open {
		t.Errorf("%d open records found, want %d", found, open)
	}
}
