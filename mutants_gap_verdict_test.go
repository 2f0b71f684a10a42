package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/idem-go/idem"
)

// failingSealer cannot seal from some time on.
type failingSealer struct {
	*fakeSealer
	broken bool
}

func (s *failingSealer) Prepare(ctx context.Context, scope map[string]string) (func(dst, binding, text []byte) ([]byte, error), error) {
	seal, err := s.fakeSealer.Prepare(ctx, scope)
	return func(dst, binding, text []byte) ([]byte, error) {
		if s.broken {
			return nil, errors.New("no entropy")
		}
		return seal(dst, binding, text)
	}, err
}

// That it happened is believed and recorded, whether or not the reconciler's result can be kept.
func TestReconcilersResultThatCannotBeKeptIsCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		max   int
		found any
	}{
		"no form":   {0, make(chan int)},
		"too large": {10, "a result of more than ten bytes"},
	} {
		w := newWorld(t)
		op := must2(idem.New[any](w.store, w.sealer, "charge", &idem.Options{MaxResult: c.max, Recover: idem.Reconcile(settle, func(context.Context, idem.Doubt) (any, error) { return c.found, nil })}))
		op.Do(invoked(t), request(), func(context.Context) (any, error) { return nil, errors.New("?") })
		for range 2 {
			_, err := op.Do(invoked(t), request(), func(context.Context) (any, error) { t.Error("ran"); return nil, nil })
			as[*idem.UnreadableError](t, err)
		}
		if r := w.record(); r.State != idem.Completed || len(r.Receipt.Bytes) != 0 {
			t.Errorf("%s: %v, receipt %q", name, r.State, r.Receipt.Bytes)
		}
	}
}

func TestVerdictThatCannotBeSealedIsNotRecorded(t *testing.T) {
	for name, say := range map[string]error{"it happened": nil, "it failed": idem.Final(errors.New("declined"))} {
		w := newWorld(t)
		s := &failingSealer{fakeSealer: w.sealer}
		op := must2(idem.New[charge](w.store, s, "charge", &idem.Options{Recover: idem.Reconcile(settle, func(context.Context, idem.Doubt) (charge, error) { return charge{}, say })}))
		op.Do(invoked(t), request(), failing(errors.New("?"))(w))
		s.broken = true
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		as[*idem.UnavailableError](t, err)
		if got := w.record().State; got != idem.Indeterminate {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A success whose result cannot be sealed is completed without it: the effect happened.
func TestSuccessThatCannotBeSealedIsCompleted(t *testing.T) {
	w := newWorld(t)
	s := &failingSealer{fakeSealer: w.sealer}
	op := must2(idem.New[charge](w.store, s, "charge", nil))
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { s.broken = true; return w.charges(ctx) })
	if e := as[*idem.UnreadableError](t, err); string(e.Raw) != `{"ID":"ch_1","Amount":100}` {
		t.Errorf("%s", e.Raw)
	}
	w.wantState(idem.Completed)
}

// A final failure that cannot be sealed stays open: it is not known to be recorded, and says nothing untrue.
func TestFinalFailureThatCannotBeSealedIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	s := &failingSealer{fakeSealer: w.sealer}
	op := must2(idem.New[charge](w.store, s, "charge", nil))
	own := &declined{"no funds"}
	_, err := op.Do(invoked(t), request(), func(context.Context) (charge, error) { s.broken = true; return charge{}, idem.Final(own) })
	if err != error(own) {
		t.Errorf("got %v", err)
	}
	w.wantState(idem.Pending)
}

// A reconciler is not asked with half of what is known.
func TestReconcilerIsNotAskedWithoutTheNote(t *testing.T) {
	w := newWorld(t)
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, nil })
	w.crashed(op, request(), func(ctx context.Context) (charge, error) {
		return charge{}, idem.AttemptFrom(ctx).Note(ctx, "ch_77")
	})
	w.lapse()
	w.sealer.set(nil, errors.New("tampered"))
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnavailableError](t, err)
	if a.asked != 0 {
		t.Error("asked")
	}
}

// Evidence that was sealed before this life began proves nothing about it.
func TestEvidenceOfAnEarlierLifeIsNotShown(t *testing.T) {
	w := newWorld(t)
	op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, errors.New("?") })
	op.Do(invoked(t), request(), failing(errors.New("?"))(w))
	r := w.record()
	seen := r.Version
	r.Version, r.Evidence = idem.Version{7}, idem.Sealed{Fence: r.Life - 1, Bytes: []byte("of an earlier life")}
	must2(w.store.Swap(t.Context(), seen, r))
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.IndeterminateError](t, err)
	if a.asked != 1 || a.doubt.Evidence != nil {
		t.Errorf("asked %d times, with evidence %s", a.asked, a.doubt.Evidence)
	}
}

// What the reconciler knows is recorded, although the caller has left.
func TestVerdictIsRecordedThoughTheCallerLeft(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(invoked(t))
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) { leave(); return charge{ID: "found"}, nil })
	op.Do(invoked(t), request(), failing(errors.New("?"))(w))
	op.Do(ctx, request(), w.mustNotRun)
	w.wantState(idem.Completed)
}

// Others write faster than this request does: it gives up after some turns.
func TestRecordThatKeepsChangingIsGivenUp(t *testing.T) {
	w := newWorld(t)
	op, m := w.meddledOp(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("x")))(w))
	released := w.record()
	turns := 0
	m.create = func(context.Context, idem.Record) (idem.Record, error) {
		turns++
		r := released
		r.Version[0], r.At = byte(turns), w.store.Now()
		return r, nil
	}
	m.swap = func(ctx context.Context, _ idem.Version, r idem.Record) (idem.Record, error) { return m.create(ctx, r) }
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnavailableError](t, err)
	if turns < 3 || turns > 20 {
		t.Errorf("%d turns", turns)
	}
}

// Whoever decides says who and why, in words that can be stored and shown.
func TestVerdictSaysWhoAndWhy(t *testing.T) {
	w, _, seen := inDoubt(t)
	good := idem.Verdict{State: idem.Released, Never: true, By: "arn:op", Why: "the provider's ledger"}
	for name, change := range map[string]func(*idem.Verdict){
		"no who":        func(v *idem.Verdict) { v.By = "" },
		"no why":        func(v *idem.Verdict) { v.Why = "" },
		"long who":      func(v *idem.Verdict) { v.By = strings.Repeat("x", 257) },
		"long why":      func(v *idem.Verdict) { v.Why = strings.Repeat("x", 257) },
		"who not UTF-8": func(v *idem.Verdict) { v.By = "\xff" },
		"why not UTF-8": func(v *idem.Verdict) { v.Why = "\xff" },
	} {
		v := good
		change(&v)
		if _, err := idem.Resolve(t.Context(), w.store, w.sealer, seen, v); err == nil {
			t.Errorf("%s: taken", name)
		} else {
			as[*idem.VerdictError](t, err)
		}
		if w.record().Version != seen.Version {
			t.Fatalf("%s: the record was touched", name)
		}
	}
	must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, good))
}
