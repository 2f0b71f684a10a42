package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// powertools-lambda-python#8049: a timeout after the effect, and the withdrawal was repeated.
func TestCrashAfterTheEffectIsHeldAndNeverRunAgain(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.InProgressError](t, err) // while the lease lasts
	for range 3 {
		w.lapse()
		_, err = op.Do(invoked(t), request(), w.mustNotRun)
		if e := as[*idem.IndeterminateError](t, err); e.Doubt.Reason != idem.Lapsed || e.Doubt.DownstreamKey == "" {
			t.Errorf("doubt %+v", e.Doubt)
		}
		if _, again := idem.RetryAfter(err); again {
			t.Error("a retry cannot help: the operation holds")
		}
	}
	w.store.Advance(365 * 24 * time.Hour)
	w.store.Expire()
	_, err = op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err) // what is unresolved does not expire
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

func TestCrashBeforeADurableBeginRunsAgain(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.Durable})
	w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("dies before its begin") })
	w.lapse()
	must2(op.Do(invoked(t), request(), w.charges))
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

func TestCrashAfterADurableBeginIsHeld(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.Durable})
	begun := false
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		if begun && call == "Swap" {
			return false, errors.New("the process is dead")
		}
		return true, nil
	})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		must2(0, idem.AttemptFrom(ctx).Begin(ctx, nil))
		begun = true
		return w.charges(ctx)
	})
	w.store.Fail(nil)
	w.lapse()
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
}

// Two deployments may have different settings: whether a record has begun is read from the record.
func TestBegunIsReadFromTheRecord(t *testing.T) {
	w := newWorld(t)
	w.crashed(w.op(idem.Options{}), request(), w.charges)
	w.lapse()
	_, err := w.op(idem.Options{Begin: idem.Durable}).Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
}

func TestBeginIsRefusedOnceSomebodyTookOver(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.Durable})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		must2(op.Do(invoked(t), request(), w.charges)) // not begun: anybody may run
		if err := idem.AttemptFrom(ctx).Begin(ctx, nil); err != nil {
			return charge{}, err
		}
		return w.charges(ctx)
	})
	if err == nil || w.count() != 1 {
		t.Errorf("got %v, %d effects", err, w.count())
	}
	w.wantState(idem.Completed)
}

func TestBeginIsRefusedAfterTheDeadline(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.InMemory, Reserve: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	_, err := op.Do(ctx, request(), func(ctx context.Context) (charge, error) {
		<-ctx.Done()
		return charge{}, idem.AttemptFrom(ctx).Begin(context.WithoutCancel(ctx), nil)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.wantState(idem.Released)
}

func TestBeginIsRefusedAfterTheFunctionReturned(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var left *idem.Attempt
	must2(op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { left = idem.AttemptFrom(ctx); return charge{}, nil }))
	if left.Begin(t.Context(), nil) == nil || left.Note(t.Context(), "x") == nil {
		t.Error("accepted from a goroutine that outlived the function")
	}
}

func TestNilAttemptDoesNothing(t *testing.T) {
	a := idem.AttemptFrom(t.Context())
	if a != nil || a.Begin(t.Context(), nil) != nil || a.Note(t.Context(), "x") != nil || a.DownstreamKey() != "" || a.Fence() != 0 || a.ID() != "" {
		t.Error("it does something")
	}
}

func TestLateOwnersTruthIsWelcome(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	res := must2(op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.IndeterminateError](t, err)
		return w.charges(ctx)
	}))
	if res.Outcome != idem.Executed {
		t.Errorf("outcome %v", res.Outcome)
	}
	w.wantState(idem.Completed)
}

// answers makes a reconciler that counts its questions.
type answers struct {
	asked int
	doubt idem.Doubt
	say   func(idem.Doubt) (charge, error)
}

func (a *answers) ask(_ context.Context, d idem.Doubt) (charge, error) {
	a.asked++
	a.doubt = d
	return a.say(d)
}

const settle = 10 * time.Minute

func reconciled(w *world, say func(idem.Doubt) (charge, error)) (*idem.Operation[charge], *answers) {
	a := &answers{say: say}
	return w.op(idem.Options{Recover: idem.Reconcile(settle, a.ask)}), a
}

func TestRetryAsksTheProviderBeforeAnythingElse(t *testing.T) {
	w := newWorld(t)
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{ID: "found"}, nil })
	w.crashed(op, request(), func(ctx context.Context) (charge, error) {
		must2(0, idem.AttemptFrom(ctx).Note(ctx, map[string]string{"provider": "ch_77"}))
		return w.charges(ctx)
	})
	w.lapse()
	res := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if res.Outcome != idem.Reconciled || res.Value.ID != "found" || a.asked != 1 {
		t.Errorf("%+v after %d questions", res, a.asked)
	}
	d := a.doubt
	if string(d.Note) != `{"provider":"ch_77"}` || d.Request == nil || d.Request.Key != "order-1" || d.Tenant != "acme" || d.Reason != idem.Lapsed || d.DownstreamKey == "" || d.Fence == 0 {
		t.Errorf("asked with %+v", d)
	}
	again := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if again.Outcome != idem.Replayed || string(again.Raw) != string(res.Raw) || a.asked != 1 {
		t.Errorf("then %+v after %d questions", again, a.asked)
	}
}

func TestNotFoundIsNotNever(t *testing.T) {
	w := newWorld(t)
	nothing := errors.New("no such charge")
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.NotApplied(nothing) })
	w.crashed(op, request(), func(context.Context) (charge, error) {
		return charge{}, errors.New("its request may still be under way")
	})
	w.lapse()
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	pause, again := idem.RetryAfter(err)
	if !again || pause < 20*time.Second || pause > 40*time.Second {
		t.Errorf("retry after %v, %v", pause, again)
	}
	_, err = op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	if a.asked != 1 {
		t.Errorf("asked %d times: not to be asked again before the pause is over", a.asked)
	}
	w.store.Advance(settle)
	must2(op.Do(invoked(t), request(), w.charges))
	if a.asked != 2 || w.count() != 1 {
		t.Errorf("asked %d times, %d effects", a.asked, w.count())
	}
	if by := w.record().Resolved.By; by != "reconciler" {
		t.Errorf("resolved by %q", by)
	}
}

// Time that passes between question and verdict makes the answer no truer.
func TestSettleIsJudgedWhenAsked(t *testing.T) {
	w := newWorld(t)
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) {
		w.store.Advance(2 * settle)
		return charge{}, idem.NotApplied(errors.New("nothing"))
	})
	w.crashed(op, request(), w.charges)
	w.lapse()
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
}

func TestNeverCountsAtOnce(t *testing.T) {
	w := newWorld(t)
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.NeverApplied(errors.New("closed")) })
	w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("x") })
	fence := w.record().Fence
	w.lapse()
	res := must2(op.Do(invoked(t), request(), w.charges))
	if res.Outcome != idem.Executed || w.count() != 1 || w.record().Fence <= fence {
		t.Errorf("%v, %d effects", res.Outcome, w.count())
	}
}

func TestReconcilersFinalFailureIsRecorded(t *testing.T) {
	w := newWorld(t)
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.Final(&declined{"late"}) })
	w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("x") })
	w.lapse()
	for range 2 {
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		if f := as[*idem.FailedError](t, err); f.Type != "declined" || f.Message != "declined: late" {
			t.Errorf("%+v", f)
		}
	}
	if a.asked != 1 {
		t.Errorf("asked %d times", a.asked)
	}
}

func TestUnsureReconcilerIsAskedAgainWithGrowingPauses(t *testing.T) {
	w := newWorld(t)
	cause := errors.New("provider does not answer")
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, cause })
	w.crashed(op, request(), w.charges)
	w.lapse()
	var last time.Duration
	for k := range 8 {
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		e := as[*idem.IndeterminateError](t, err)
		if !errors.Is(err, cause) || a.asked != k+1 {
			t.Errorf("%v after %d questions", err, a.asked)
		}
		if e.After < last || e.After > 31*time.Minute {
			t.Errorf("pause %v after %v", e.After, last)
		}
		last = e.After
		w.store.Advance(last + time.Second)
	}
}

func TestReconcilerThatPanicsLeavesTheDoubt(t *testing.T) {
	w := newWorld(t)
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) { panic("boom") })
	w.crashed(op, request(), w.charges)
	w.lapse()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		op.Do(invoked(t), request(), w.mustNotRun)
	}()
	w.wantState(idem.Indeterminate)
}

// The owner finishes while the reconciler is asked: asking is not taking over.
func TestOwnerFinishesWhileTheReconcilerIsAsked(t *testing.T) {
	w := newWorld(t)
	var finish func()
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) {
		finish()
		return charge{}, idem.NeverApplied(errors.New("lies"))
	})
	done := make(chan idem.Result[charge])
	started := make(chan struct{})
	goOn := make(chan struct{})
	go func() {
		done <- must2(op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			close(started)
			<-goOn
			return w.charges(ctx)
		}))
	}()
	<-started
	var first idem.Result[charge]
	finish = func() { close(goOn); first = <-done }
	w.lapse()
	res := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if res.Outcome != idem.Replayed || string(res.Raw) != string(first.Raw) || w.count() != 1 {
		t.Errorf("%v %s, first %s; %d effects", res.Outcome, res.Raw, first.Raw, w.count())
	}
}

func TestFencedOffOwnerLeavesEvidence(t *testing.T) {
	w := newWorld(t)
	var seen []string
	op, _ := reconciled(w, func(d idem.Doubt) (charge, error) {
		seen = append(seen, string(d.Evidence))
		if d.Evidence != nil {
			return charge{ID: "by evidence"}, nil
		}
		return charge{}, idem.NeverApplied(errors.New("wrong"))
	})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, errors.New("second") })
		return w.charges(ctx)
	})
	lost := as[*idem.LostError](t, err)
	if lost.Err != nil || !strings.Contains(string(lost.Raw), "ch_1") {
		t.Errorf("%+v", lost)
	}
	w.lapse()
	res := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if res.Value.ID != "by evidence" || len(seen) != 2 || seen[1] != `{"result":{"ID":"ch_1","Amount":100}}` {
		t.Errorf("%+v; evidence %q", res.Value, seen)
	}
}

// A success that is reported after the key was released means that somebody was wrong: it is not run again.
func TestSuccessAfterAReleaseMakesADoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "mistaken"}))
		return w.charges(ctx)
	})
	as[*idem.LostError](t, err)
	_, err = op.Do(invoked(t), request(), w.mustNotRun)
	if e := as[*idem.IndeterminateError](t, err); e.Doubt.Reason != idem.Contradicted {
		t.Errorf("%v", e.Doubt.Reason)
	}
}

func TestOwnerThatFindsAnotherOutcomeAnswersWithIt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	res := must2(op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Completed, Result: []byte(`{"ID":"operator"}`), By: "op", Why: "saw it"}))
		return w.charges(ctx)
	}))
	if res.Value.ID != "operator" || !strings.Contains(w.kinds(), "Conflict") {
		t.Errorf("%+v", res)
	}
}

func TestRerunIsBounded(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(24 * time.Hour)})
	for range 5 {
		w.crashed(op, request(), w.charges)
		w.lapse()
	}
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
}

func TestRerunHoldsWhenTheDownstreamForgets(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	w.crashed(op, request(), w.charges)
	w.store.Advance(2 * time.Hour)
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
}

func TestDownstreamKeyIsOneForAllAttemptsAndFenceRises(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Rerun(time.Hour)})
	var keys []string
	var fences []uint64
	note := func(ctx context.Context) (charge, error) {
		a := idem.AttemptFrom(ctx)
		keys, fences = append(keys, a.DownstreamKey()), append(fences, a.Fence())
		return charge{}, nil
	}
	w.crashed(op, request(), note)
	w.lapse()
	must2(op.Do(invoked(t), request(), note))
	if keys[0] != keys[1] || fences[0] >= fences[1] || len(keys[0]) != 45 {
		t.Errorf("keys %q, fences %d", keys, fences)
	}
	other := request()
	other.Tenant = "other"
	must2(op.Do(invoked(t), other, note))
	if keys[2] == keys[0] {
		t.Error("two tenants share a downstream key")
	}
}

func TestOutcomeIsReplayedUntilItExpiresAndThenTheKeyIsNew(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed by TTL %v", removed), func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{Retain: 2 * time.Hour})
			must2(op.Do(invoked(t), request(), w.charges))
			fence := w.record().Fence
			w.store.Advance(2*time.Hour - time.Minute)
			w.store.Expire()
			must2(op.Do(invoked(t), request(), w.mustNotRun))
			w.store.Advance(10 * time.Minute) // expired, within the grace
			if !removed {
				must2(op.Do(invoked(t), request(), w.mustNotRun))
			}
			w.store.Advance(10 * time.Minute)
			if removed {
				w.store.Expire()
			}
			other := request()
			other.Payload = charge{Amount: 5}
			must2(op.Do(invokedAt(t, w), other, w.charges)) // a new life may have another fingerprint
			if w.count() != 2 || w.record().Fence <= fence || w.record().Life != w.record().Fence {
				t.Errorf("%d effects, fence %d after %d, life %d", w.count(), w.record().Fence, fence, w.record().Life)
			}
		})
	}
}

// invokedAt is an invocation at the store's time, which a test has moved far from the machine's.
func invokedAt(t *testing.T, w *world) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), w.store.Now().Add(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// What a restore did to the table: the image is of before, the generation is a new one.
func restored(w *world, image idemtest.Snapshot) {
	now := w.store.Now()
	w.store.Restore(image, idem.Generation{Number: 1, Watermark: now, Quiet: now.Add(time.Minute), Until: now.Add(24 * time.Hour)})
}

func TestRestoredTableDoesNotTakeALostKeyForNew(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	image := w.store.Snapshot()
	must2(op.Do(invoked(t), request(), w.charges))
	w.store.Advance(time.Hour)
	restored(w, image)
	_, err := op.Do(invokedAt(t, w), request(), w.mustNotRun)
	if e := as[*idem.IndeterminateError](t, err); e.Doubt.Reason != idem.Restored {
		t.Errorf("%v", e.Doubt.Reason)
	}
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

func TestRestoredTableRunsWhatIsKnownToBeNew(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	restored(w, w.store.Snapshot())
	w.store.Advance(time.Minute)
	issued := request()
	issued.Issued = w.store.Now()
	must2(op.Do(invoked(t), issued, w.charges))
	implausible := request()
	implausible.Key, implausible.Issued = "k2", w.store.Now().Add(72*365*24*time.Hour) // 2099 proves nothing
	_, err := op.Do(invoked(t), implausible, w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	old := request()
	old.Key, old.Issued = "k3", w.store.Now().Add(-time.Hour)
	_, err = op.Do(invoked(t), old, w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	w.store.Advance(25 * time.Hour) // the longest retry horizon has passed
	fresh := request()
	fresh.Key = "k4"
	must2(op.Do(invokedAt(t, w), fresh, w.charges))
}

func TestRestoredRecordsAreQuarantinedUnlessTheyAreDone(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	key := func(k string) idem.Request { r := request(); r.Key = k; return r }
	must2(op.Do(invoked(t), key("done"), w.charges))
	op.Do(invoked(t), key("final"), failing(idem.Final(errors.New("no")))(w))
	op.Do(invoked(t), key("released"), failing(idem.NotApplied(errors.New("no")))(w))
	w.crashed(w.op(idem.Options{Begin: idem.Durable}), key("not begun"), failing(errors.New("x"))(w))
	w.crashed(op, key("pending"), w.charges)
	w.store.Advance(time.Minute)
	restored(w, w.store.Snapshot())
	if res := must2(op.Do(invokedAt(t, w), key("done"), w.mustNotRun)); res.Outcome != idem.Replayed {
		t.Errorf("done: %v", res.Outcome)
	}
	_, err := op.Do(invokedAt(t, w), key("final"), w.mustNotRun)
	as[*idem.FailedError](t, err)
	for _, k := range []string{"released", "not begun", "pending"} {
		_, err := op.Do(invokedAt(t, w), key(k), w.mustNotRun)
		if e := as[*idem.IndeterminateError](t, err); e.Doubt.Reason != idem.Restored {
			t.Errorf("%s: %v", k, e.Doubt.Reason)
		}
	}
}

// Settle of a quarantined key counts from the end of the lost window's leases, never from the record's own.
func TestQuarantineSettlesFromTheAdoption(t *testing.T) {
	w := newWorld(t)
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.NotApplied(errors.New("nothing")) })
	restored(w, w.store.Snapshot())
	_, err := op.Do(invokedAt(t, w), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	if a.asked != 1 {
		t.Errorf("asked %d times: the reconciler is asked at once", a.asked)
	}
	w.store.Advance(settle + 30*time.Second) // after settle, not after quiet + settle
	_, err = op.Do(invokedAt(t, w), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	w.store.Advance(3 * time.Minute)
	must2(op.Do(invokedAt(t, w), request(), w.charges))
}

func TestOwnerOfAnOldGenerationWritesNothing(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		restored(w, w.store.Snapshot())
		return w.charges(ctx)
	})
	if e := as[*idem.NotRecordedError](t, err); !strings.Contains(string(e.Raw), "ch_1") {
		t.Errorf("%s", e.Raw)
	}
	w.wantState(idem.Pending)
}
