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

func TestLookTellsAndRunsNothing(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	_, err := op.Look(invoked(t), request())
	as[*idem.NotFoundError](t, err)
	w.crashed(op, request(), w.charges)
	_, err = op.Look(invoked(t), request())
	as[*idem.InProgressError](t, err)
	w.lapse()
	before := w.record()
	_, err = op.Look(invoked(t), request())
	if e := as[*idem.IndeterminateError](t, err); e.Doubt.Reason != idem.Lapsed {
		t.Errorf("%v", e.Doubt.Reason)
	}
	if w.record().Version != before.Version {
		t.Error("the record was touched")
	}
	seen := must2(idem.Lapse(t.Context(), w.store, w.record()))
	_, err = op.Look(invoked(t), request())
	as[*idem.IndeterminateError](t, err)
	must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, idem.Verdict{State: idem.Completed, Result: []byte(`{"ID":"x"}`), By: "op", Why: "seen"}))
	if res := must2(op.Look(invoked(t), request())); res.Value.ID != "x" || res.Outcome != idem.Replayed {
		t.Errorf("%+v", res)
	}
}

func TestLookOfAReleasedKeyFindsNothing(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("x")))(w))
	_, err := op.Look(invoked(t), request())
	as[*idem.NotFoundError](t, err)
}

func inDoubt(t *testing.T) (*world, *idem.Operation[charge], idem.Record) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	w.lapse()
	return w, op, must2(idem.Lapse(t.Context(), w.store, w.record()))
}

func TestOperatorResolvesWithoutKnowingTheType(t *testing.T) {
	verdict := func(v idem.Verdict) idem.Verdict { v.By, v.Why = "arn:op", "the provider's ledger"; return v }
	t.Run("completed", func(t *testing.T) {
		w, op, seen := inDoubt(t)
		must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Completed, Result: json.RawMessage(`{"ID":"ch_9"}`)})))
		if res := must2(op.Do(invoked(t), request(), w.mustNotRun)); res.Value.ID != "ch_9" {
			t.Errorf("%+v", res.Value)
		}
		r := w.record()
		if r.Resolved.By != "arn:op" || r.Resolved.Why != "the provider's ledger" || r.Resolved.At.IsZero() {
			t.Errorf("%+v", r.Resolved)
		}
		if kept := r.Expires.Sub(w.store.Now()); kept < 90*24*time.Hour {
			t.Errorf("kept for %v", kept)
		}
	})
	t.Run("failed", func(t *testing.T) {
		w, op, seen := inDoubt(t)
		must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Failed, Never: true, Type: "Declined", Message: "no"})))
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		if f := as[*idem.FailedError](t, err); f.Type != "Declined" || f.Message != "no" {
			t.Errorf("%+v", f)
		}
	})
	t.Run("released", func(t *testing.T) {
		w, op, seen := inDoubt(t)
		must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Released, Never: true})))
		must2(op.Do(invoked(t), request(), w.charges))
		if by := w.record().Resolved.By; by != "arn:op" {
			t.Errorf("who decided is lost: %q", by)
		}
	})
	t.Run("not found waits for settle", func(t *testing.T) {
		w, _, seen := inDoubt(t)
		_, err := idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Released}))
		if e := as[*idem.VerdictError](t, err); !strings.Contains(e.Problem, "until") || e.Until.IsZero() {
			t.Errorf("%v", e)
		}
		w.store.Advance(16 * time.Minute)
		_, err = idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Released}))
		as[*idem.VerdictError](t, err) // asked before
		must2(idem.Resolve(t.Context(), w.store, w.sealer, w.record(), verdict(idem.Verdict{State: idem.Released})))
	})
	t.Run("changed since it was shown", func(t *testing.T) {
		w, _, seen := inDoubt(t)
		must2(idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Completed, Result: json.RawMessage(`1`)})))
		now, err := idem.Resolve(t.Context(), w.store, w.sealer, seen, verdict(idem.Verdict{State: idem.Released, Never: true}))
		as[*idem.VerdictError](t, err)
		if now.State != idem.Completed {
			t.Errorf("%v", now.State)
		}
	})
	t.Run("pending is not to be decided", func(t *testing.T) {
		w := newWorld(t)
		w.crashed(w.op(idem.Options{}), request(), w.charges)
		_, err := idem.Resolve(t.Context(), w.store, w.sealer, w.record(), verdict(idem.Verdict{State: idem.Released, Never: true}))
		as[*idem.VerdictError](t, err)
	})
	t.Run("bad verdicts", func(t *testing.T) {
		w, _, seen := inDoubt(t)
		for _, v := range []idem.Verdict{{}, {State: idem.Pending, By: "a", Why: "b"}, {State: idem.Completed, By: "a", Why: "b", Result: []byte("{")}, {State: idem.Released, By: "a"}, {State: idem.Failed, Never: true, By: "a", Why: "b"}} {
			_, err := idem.Resolve(t.Context(), w.store, w.sealer, seen, v)
			as[*idem.VerdictError](t, err)
		}
	})
}

func TestLapseMovesOnlyWhatNobodyWorksOn(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	w.crashed(op, request(), w.charges)
	same := must2(idem.Lapse(t.Context(), w.store, w.record()))
	if same.State != idem.Pending {
		t.Errorf("%v though its lease is not over", same.State)
	}
	w.lapse()
	if r := must2(idem.Lapse(t.Context(), w.store, w.record())); r.State != idem.Indeterminate || r.Reason != idem.Lapsed {
		t.Errorf("%v, %v", r.State, r.Reason)
	}
	w2 := newWorld(t)
	w2.crashed(w2.op(idem.Options{Begin: idem.Durable}), request(), func(context.Context) (charge, error) { return charge{}, errors.New("x") })
	w2.lapse()
	if r := must2(idem.Lapse(t.Context(), w2.store, w2.record())); r.State != idem.Released {
		t.Errorf("%v: it had not begun", r.State)
	}
}
