package idem_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// The guest is 20 minutes behind the store, and its deadline is made of its own clock.
func TestGuestClockBehindDoesNotShortenTheLease(t *testing.T) {
	for _, lease := range []bool{false, true} {
		w := newWorld(t)
		w.store.Advance(20 * time.Minute) // the store is 20 min ahead of the guest
		op := w.op(idem.Options{Lease: time.Minute, Recover: idem.Reconcile(15*time.Minute, func(context.Context, idem.Doubt) (charge, error) {
			return charge{}, idem.NotApplied(errors.New("not found"))
		})})
		ctx := t.Context()
		if !lease {
			ctx = invoked(t)
		}
		op.Do(ctx, request(), func(c context.Context) (charge, error) {
			op.Do(ctx, request(), w.charges) // a duplicate, 0 s later
			return w.charges(c)
		})
		if w.count() != 1 {
			t.Errorf("%d effects", w.count())
		}
	}
}

// After TTL removed the record, on a guest two hours behind.
func TestFenceRisesThoughTheGuestClockIsBehind(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Retain: time.Hour})
	var fences []uint64
	fn := func(ctx context.Context) (charge, error) {
		fences = append(fences, idem.AttemptFrom(ctx).Fence())
		return charge{}, nil
	}
	op.Do(invoked(t), request(), fn)
	w.store.Advance(2 * time.Hour)
	w.store.Expire()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	op.Do(ctx, request(), fn) // on a guest that is 2 h behind
	if fences[1] <= fences[0] {
		t.Errorf("%v", fences)
	}
}

// The function says that it may have happened: a forgotten Begin does not make that untrue.
func TestUnknownIsBelievedWithoutABegin(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.Durable})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.charges(ctx)
		return charge{}, idem.Unknown(errors.New("timeout"))
	})
	w.wantState(idem.Indeterminate)
	op.Do(invoked(t), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// An inner guarded call fails for want of a form; the outer one has not succeeded by that.
func TestInnerResultWithoutFormIsNotTheOuterOnesSuccess(t *testing.T) {
	w := newWorld(t)
	inner, err := idem.New[any](w.store, w.sealer, "inner", nil)
	if err != nil {
		t.Fatal(err)
	}
	op := w.op(idem.Options{})
	_, err = op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		_, err := inner.Commit(ctx, request(), func(context.Context) (any, error) { return make(chan int), nil }, func(ctx context.Context, seen idem.Version, next idem.Record) (idem.Record, error) {
			t.Error("written")
			return next, nil
		})
		return charge{}, err
	})
	w.wantState(idem.Indeterminate)
}

// Evidence of a failure lies there already; then a released attempt reports that it happened.
func TestEvidenceOfSuccessReplacesLesserEvidence(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Recover: idem.Reconcile(time.Minute, func(context.Context, idem.Doubt) (charge, error) {
		return charge{}, idem.NeverApplied(errors.New("closed"))
	})})
	hold := w.op(idem.Options{})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { // f1
		w.lapse()
		op.Do(invoked(t), request(), func(ctx2 context.Context) (charge, error) { // f2
			return charge{}, idem.Unknown(errors.New("?"))
		})
		return charge{}, idem.Final(errors.New("declined"))
	})
	// f3 runs long; operator releases; f3 succeeds
	w.lapse()
	w.store.Advance(time.Hour)
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		r, err := idem.Lapse(ctx, w.store, w.record())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := idem.Resolve(ctx, w.store, w.sealer, r, idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "x"}); err != nil {
			t.Fatal(err)
		}
		return w.charges(ctx)
	})
	w.wantState(idem.Indeterminate)
	hold.Do(invoked(t), request(), w.charges)
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// An empty result is a result.
func TestEvidenceOfAnEmptyResultSaysThatItHappened(t *testing.T) {
	w := newWorld(t)
	var got json.RawMessage
	ask := idem.Reconcile(time.Minute, func(_ context.Context, d idem.Doubt) (json.RawMessage, error) {
		got = d.Evidence
		return nil, idem.NeverApplied(errors.New("closed"))
	})
	op, err := idem.New[json.RawMessage](w.store, w.sealer, "raw", &idem.Options{Recover: ask})
	if err != nil {
		t.Fatal(err)
	}
	op.Do(invoked(t), request(), func(ctx context.Context) (json.RawMessage, error) {
		w.lapse()
		op.Do(invoked(t), request(), func(context.Context) (json.RawMessage, error) { return nil, errors.New("?") })
		return nil, nil
	})
	w.store.Advance(time.Hour)
	op.Do(invoked(t), request(), func(context.Context) (json.RawMessage, error) { return nil, errors.New("?") })
	if string(got) != `{"result":null}` {
		t.Errorf("evidence %s", got)
	}
}

// paymentError has the word inside.
type paymentError struct{ Err error }

func (e *paymentError) Error() string { return "payment: " + e.Err.Error() }
func (e *paymentError) Unwrap() error { return e.Err }

// Its own type is what the caller gets and what is replayed.
func TestErrorWithTheWordInsideComesBackAsItIs(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	own := &paymentError{idem.Final(errors.New("declined"))}
	_, err := op.Do(invoked(t), request(), func(context.Context) (charge, error) { return charge{}, own })
	if err != own {
		t.Errorf("got %T", err)
	}
	_, err = op.Do(invoked(t), request(), w.charges)
	if f := as[*idem.FailedError](t, err); f.Type != "paymentError" {
		t.Errorf("type %q", f.Type)
	}
}

// An operator would believe it.
func TestVerdictOnAPendingRecordDoesNotSayThatItHappened(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), func(context.Context) (charge, error) { return charge{}, nil })
	_, err := idem.Resolve(t.Context(), w.store, w.sealer, w.record(), idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "x"})
	if strings.Contains(err.Error(), "the effect happened") {
		t.Errorf("%v", err)
	}
}

// A duplicate found the record lapsed; the owner then errs.
func TestNobodyTookOverIsNotLost(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		op.Do(invoked(t), request(), w.mustNotRun)
		return charge{}, errors.New("?")
	})
	if k := w.kinds(); strings.Contains(k, "Lost") {
		t.Error(k)
	}
}

// A cleanup that failed beside it changes nothing.
func TestRetryAfterLooksIntoJoinedErrors(t *testing.T) {
	err := errors.Join(&idem.InProgressError{After: time.Second}, errors.New("cleanup"))
	if _, ok := idem.RetryAfter(err); !ok {
		t.Error("false")
	}
}

// nilErr is the classic: a nil pointer in an error.
type nilErr struct{ err error }

func (e *nilErr) Error() string { return "x" }
func (e *nilErr) Unwrap() error { return e.err }

// The function had its effect and returned a nil pointer as its error.
func TestErrorWhoseMethodsPanicIsUnknown(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	func() {
		defer func() { recover() }()
		op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			w.charges(ctx)
			var e *nilErr
			return charge{}, e
		})
	}()
	w.wantState(idem.Indeterminate)
}

type boomErr struct{}

func (boomErr) Error() string { panic("boom") }

// What it says cannot be had, that it is final can.
func TestFinalErrorWhoseTextPanicsIsRecorded(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	func() {
		defer func() { recover() }()
		op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { return charge{}, idem.Final(boomErr{}) })
	}()
	if s := w.record().State; s == idem.Pending {
		t.Error(s)
	}
}

// Nothing ran yet.
func TestHookThatPanicsBeforeTheRunReleases(t *testing.T) {
	w := newWorld(t)
	op, _ := idem.New[charge](w.store, w.sealer, "charge", &idem.Options{Observe: func(context.Context, idem.Event) { panic("metrics") }})
	func() {
		defer func() { recover() }()
		op.Do(invoked(t), request(), w.mustNotRun)
	}()
	w.wantState(idem.Released)
}

// Somebody logs the error as JSON.
func TestErrorValueHoldsNoKey(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	w.lapse()
	_, err := op.Do(invoked(t), request(), w.charges)
	b, _ := json.Marshal(err)
	if strings.Contains(string(b), "order-1") {
		t.Errorf("%s", b)
	}
}

// One of the two may have had an effect.
func TestWordJoinedWithAnErrorThatSaysNothingIsUnknown(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), func(context.Context) (charge, error) {
		return charge{}, errors.Join(idem.NotApplied(errors.New("card 1 declined")), context.DeadlineExceeded)
	})
	w.wantState(idem.Indeterminate)
}

type badJSON struct{ N int }

func (badJSON) MarshalJSON() ([]byte, error) { panic("boom") }

// The function succeeded.
func TestResultWhoseEncodingPanicsIsCompleted(t *testing.T) {
	w := newWorld(t)
	op, err := idem.New[badJSON](w.store, w.sealer, "charge", &idem.Options{Begin: idem.InMemory})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { recover() }()
		op.Do(invoked(t), request(), func(ctx context.Context) (badJSON, error) { w.charges(ctx); return badJSON{}, nil })
	}()
	w.wantState(idem.Completed)
}

// What it knows is worth the reserve.
func TestReconcilersAnswerAtTheLastMomentIsRecorded(t *testing.T) {
	w := newWorld(t)
	n := 0
	op := w.op(idem.Options{Recover: idem.Reconcile(time.Second, func(ctx context.Context, d idem.Doubt) (charge, error) {
		n++
		<-ctx.Done() // the answer is there when the function's time ends
		return charge{ID: "found"}, nil
	})})
	w.crashed(op, request(), w.charges)
	w.lapse()
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	op.Do(ctx, request(), w.mustNotRun)
	w.wantState(idem.Completed)
}

type endless struct{}

func (e endless) Error() string { return "endless" }
func (e endless) Unwrap() error { return e }

func TestErrorThatUnwrapsToItselfIsUnknown(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.Ignored})
	if _, err := op.Do(invoked(t), request(), func(context.Context) (charge, error) { return charge{}, endless{} }); err != error(endless{}) {
		t.Errorf("got %T", err)
	}
	w.wantState(idem.Indeterminate)
}

// Under Durable, or with a note, a begin is a write: it is refused where the outcome is in doubt already.
func TestBeginWithANoteIsRefusedInDoubt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Begin: idem.InMemory})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.IndeterminateError](t, err)
		if idem.AttemptFrom(ctx).Begin(ctx, "note") == nil {
			t.Error("begun though it is in doubt")
		}
		return charge{}, errors.New("?")
	})
}

// The function's own logs name the record as events do.
func TestAttemptNamesItsRecord(t *testing.T) {
	w := newWorld(t)
	must2(w.op(idem.Options{}).Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		if got, want := idem.AttemptFrom(ctx).ID(), w.record().ID.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return charge{}, nil
	}))
	if w.events[0].Digest == "" || !strings.HasSuffix(w.record().ID.String(), w.events[0].Digest) {
		t.Errorf("event %q", w.events[0].Digest)
	}
}

// A reconciler, and a Commit's function, are not the attempt around them.
func TestReconcilerHasNoAttempt(t *testing.T) {
	w := newWorld(t)
	outer := w.op(idem.Options{})
	inner := must2(idem.New[charge](w.store, w.sealer, "inner", &idem.Options{Recover: idem.Reconcile(settle, func(ctx context.Context, _ idem.Doubt) (charge, error) {
		if idem.AttemptFrom(ctx) != nil {
			t.Error("the outer attempt's handle is seen")
		}
		return charge{}, nil
	})}))
	must2(outer.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		inner.Do(ctx, request(), func(context.Context) (charge, error) { return charge{}, errors.New("?") })
		_, err := inner.Do(ctx, request(), w.mustNotRun)
		return charge{}, err
	}))
}
