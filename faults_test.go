package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

var errCut = fmt.Errorf("connection cut: %w", idem.ErrAmbiguous)

// failOnce lets the nth call of a name fail, applied or not.
func (w *world) failOnce(name string, nth int, applied bool, err error) {
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		if call == name {
			if nth--; nth == 0 {
				return applied, err
			}
		}
		return true, nil
	})
}

// kinesis-client#2 and many after it: a claim whose answer was lost is the caller's own, not somebody else's.
func TestClaimAppliedAndAnswerLostRunsOnce(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.failOnce("Create", 1, true, errCut)
	must2(op.Do(invoked(t), request(), w.charges))
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

func TestClaimThatEndsAmbiguousRunsNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("arrives later %v", late), func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			var write idemtest.Delayed
			w.failOnce("Create", 1, false, &write)
			_, err := op.Do(invoked(t), request(), w.mustNotRun)
			as[*idem.UnavailableError](t, err)
			if _, again := idem.RetryAfter(err); !again {
				t.Error("a retry helps")
			}
			w.store.Fail(nil)
			if late {
				write.Deliver() // a claim that nobody knows of: held, not run
				w.lapse()
				_, err = op.Do(invoked(t), request(), w.mustNotRun)
				as[*idem.IndeterminateError](t, err)
				return
			}
			must2(op.Do(invoked(t), request(), w.charges))
			if got := write.Deliver(); got != 0 {
				t.Errorf("%d late writes were applied", got)
			}
		})
	}
}

// The claim is ambiguous, and the read after it finds another's outcome: that is an answer.
func TestAmbiguousClaimThatFindsAnOutcomeAnswersWithIt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	must2(op.Do(invoked(t), request(), w.charges))
	w.failOnce("Create", 1, false, errCut)
	res := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if res.Outcome != idem.Replayed {
		t.Errorf("%v", res.Outcome)
	}
}

func TestUnavailableStoreRunsNothing(t *testing.T) {
	for _, call := range []string{"Generation", "Create"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			w.failOnce(call, 1, false, errors.New("throttled"))
			_, err := op.Do(invoked(t), request(), w.mustNotRun)
			as[*idem.UnavailableError](t, err)
			if len(w.store.Records()) != 0 || w.kinds() != "StoreErrors" {
				t.Error("something was written or not observed")
			}
		})
	}
}

func TestStoreThatRefusesForGoodIsNotRetried(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.failOnce("Generation", 1, false, retryError(false))
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	if _, again := idem.RetryAfter(err); again {
		t.Errorf("%v: a retry cannot help", err)
	}
}

func TestOutcomeAppliedAndAnswerLostIsAnswered(t *testing.T) {
	for _, end := range []error{nil, idem.Final(errors.New("no")), idem.NotApplied(errors.New("no")), errors.New("unknown")} {
		w := newWorld(t)
		op := w.op(idem.Options{})
		w.failOnce("Swap", 1, true, errCut)
		_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { return charge{}, end })
		if (err == nil) != (end == nil) {
			t.Errorf("got %v for %v", err, end)
		}
		if s := w.record().State; s == idem.Pending {
			t.Errorf("%v: %v", end, s)
		}
	}
}

func TestOutcomeThatIsNotRecordedIsSaid(t *testing.T) {
	for name, cause := range map[string]error{"refused": errors.New("denied"), "ambiguous": errCut} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			w.failOnce("Swap", 1, false, cause)
			_, err := op.Do(invoked(t), request(), w.charges)
			e := as[*idem.NotRecordedError](t, err)
			if string(e.Raw) != `{"ID":"ch_1","Amount":100}` || !errors.Is(err, cause) {
				t.Errorf("%+v", e)
			}
			w.lapse()
			_, err = op.Do(invoked(t), request(), w.mustNotRun)
			as[*idem.IndeterminateError](t, err)
		})
	}
}

// A late completion arrives after the reconciler settled the key: it is refused by the version.
func TestCompletionThatArrivesLateChangesNothing(t *testing.T) {
	w := newWorld(t)
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) { return charge{ID: "found"}, nil })
	var write idemtest.Delayed
	w.failOnce("Swap", 1, false, &write)
	_, err := op.Do(invoked(t), request(), w.charges)
	as[*idem.NotRecordedError](t, err)
	w.store.Fail(nil)
	w.lapse()
	res := must2(op.Do(invoked(t), request(), w.mustNotRun))
	if write.Deliver() != 0 || res.Value.ID != "found" {
		t.Errorf("%+v", res.Value)
	}
}

func TestBeginThatIsNotKnownToBeStoredRunsNothing(t *testing.T) {
	for _, applied := range []string{"applied", "never", "late"} {
		t.Run(applied, func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{Begin: idem.Durable})
			var write idemtest.Delayed
			var fault error = errCut
			if applied == "late" {
				fault = &write
			}
			lost := 0
			w.store.Fail(func(call string, _ idem.ID) (bool, error) {
				if call == "Swap" && lost == 0 {
					lost++
					return applied == "applied", fault
				}
				if call == "Load" && lost == 1 {
					lost++
					return false, errCut
				}
				return true, nil
			})
			_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
				err := idem.AttemptFrom(ctx).Begin(ctx, nil)
				if err == nil {
					t.Error("the begin was accepted")
				}
				write.Deliver()
				return charge{}, err
			})
			if !errors.Is(err, idem.ErrAmbiguous) {
				t.Errorf("got %v", err)
			}
			w.wantState(idem.Released)
			w.store.Fail(nil)
			must2(op.Do(invoked(t), request(), w.charges))
		})
	}
}

func TestSealerThatIsDownMeansNothingWasWritten(t *testing.T) {
	for _, again := range []bool{true, false} {
		w := newWorld(t)
		op := w.op(idem.Options{})
		w.sealer.set(retryError(again), nil)
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if _, retry := idem.RetryAfter(err); retry != again {
			t.Errorf("retry helps: %v, want %v", retry, again)
		}
		if len(w.store.Records()) != 0 || w.kinds() != "KeyErrors" {
			t.Error("something was written or not observed")
		}
	}
}

func TestSealerThatIsDownOnAReplayNeverRunsAgain(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	must2(op.Do(invoked(t), request(), w.charges))
	w.sealer.set(nil, retryError(true))
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnavailableError](t, err)
	w.sealer.set(nil, errors.New("tampered"))
	_, err = op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnreadableError](t, err)
	w.sealer.set(nil, nil)
	must2(op.Do(invoked(t), request(), w.mustNotRun))
}

// Nothing sealed can be moved to another record, kind or attempt.
func TestMovedReceiptIsUnreadable(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	key := func(k string) idem.Request { r := request(); r.Key = k; return r }
	must2(op.Do(invoked(t), key("a"), w.charges))
	must2(op.Do(invoked(t), key("b"), w.charges))
	all := w.store.Records()
	forged := all[0]
	forged.Receipt, forged.Version = all[1].Receipt, idem.Version{1}
	forged.Receipt.Fence = all[0].Receipt.Fence
	if _, err := w.store.Swap(t.Context(), all[0].Version, forged); err != nil {
		t.Fatal(err)
	}
	unreadable := 0
	for _, k := range []string{"a", "b"} {
		if _, err := op.Do(invoked(t), key(k), w.mustNotRun); err != nil {
			as[*idem.UnreadableError](t, err)
			unreadable++
		}
	}
	if unreadable != 1 {
		t.Errorf("%d are unreadable", unreadable)
	}
}

// The attempt ran, another outcome is recorded, and cannot be read now: that is not "nothing ran".
func TestConflictThatCannotBeReadIsNotNothingRan(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Completed, Result: []byte(`{"ID":"operator"}`), By: "op", Why: "saw it"}))
		w.sealer.set(nil, retryError(true))
		return w.charges(ctx)
	})
	if e := as[*idem.NotRecordedError](t, err); len(e.Raw) == 0 {
		t.Errorf("%+v", e)
	}
	w.sealer.set(nil, nil)
	if res := must2(op.Do(invoked(t), request(), w.mustNotRun)); res.Value.ID != "operator" {
		t.Errorf("%+v", res.Value)
	}
}
