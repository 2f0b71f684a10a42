package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// committed is a back end that writes the receipt and the effect together, as a transaction does.
func (w *world) committed(ctx context.Context, seen idem.Version, next idem.Record) (idem.Record, error) {
	write := func() (idem.Record, error) { return w.store.Create(ctx, next) }
	if seen != (idem.Version{}) {
		write = func() (idem.Record, error) { return w.store.Swap(ctx, seen, next) }
	}
	holder, err := write()
	if holder.Version == next.Version || errors.Is(err, idem.ErrAmbiguous) && len(w.store.Records()) == 1 {
		w.charges(ctx)
	}
	return holder, err
}

func prepares(context.Context) (charge, error) { return charge{ID: "tx"}, nil }

func TestCommittedEffectHasNoDoubt(t *testing.T) {
	for _, fault := range []error{nil, errCut} {
		w := newWorld(t)
		op := w.op(idem.Options{})
		if fault != nil {
			w.failOnce("Create", 1, true, fault)
		}
		first := must2(op.Commit(invoked(t), request(), prepares, w.committed))
		again := must2(op.Commit(invoked(t), request(), prepares, w.committed))
		mixed := must2(op.Do(invoked(t), request(), w.mustNotRun))
		if first.Outcome != idem.Executed || again.Outcome != idem.Replayed || string(first.Raw) != string(again.Raw) || string(mixed.Raw) != string(first.Raw) {
			t.Errorf("%v %s, then %v %s", first.Outcome, first.Raw, again.Outcome, again.Raw)
		}
		if w.count() != 1 || w.record().State != idem.Completed {
			t.Errorf("%d effects, %v", w.count(), w.record().State)
		}
	}
}

func TestCommitThatStaysAmbiguousDidNothingOrEverything(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var late idemtest.Delayed
	w.failOnce("Create", 1, false, &late)
	_, err := op.Commit(invoked(t), request(), prepares, func(ctx context.Context, _ idem.Version, next idem.Record) (idem.Record, error) {
		return w.store.Create(ctx, next)
	})
	if e := as[*idem.NotRecordedError](t, err); !strings.Contains(e.Error(), "or neither") {
		t.Errorf("%v", e)
	}
	w.store.Fail(nil)
	late.Deliver() // now the effect and its receipt are there
	if res := must2(op.Commit(invoked(t), request(), prepares, w.committed)); res.Outcome != idem.Replayed || w.count() != 0 {
		t.Errorf("%v, %d more effects", res.Outcome, w.count())
	}
}

func TestCommitOverReleasedAndAgainstAnAttempt(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("x")))(w))
	must2(op.Commit(invoked(t), request(), prepares, w.committed))
	w2 := newWorld(t)
	op2 := w2.op(idem.Options{})
	w2.crashed(op2, request(), w2.charges)
	_, err := op2.Commit(invoked(t), request(), prepares, w2.committed)
	as[*idem.InProgressError](t, err)
	w2.lapse()
	_, err = op2.Commit(invoked(t), request(), prepares, w2.committed)
	as[*idem.IndeterminateError](t, err)
}

func TestCommitThatPreparesNothingWritesNothing(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{MaxResult: 4})
	own := &declined{"x"}
	_, err := op.Commit(invoked(t), request(), func(context.Context) (charge, error) { return charge{}, idem.Final(own) }, w.committed)
	if err != error(own) {
		t.Errorf("got %v", err)
	}
	_, err = op.Commit(invoked(t), request(), prepares, w.committed)
	as[*idem.RequestError](t, err)
	if len(w.store.Records()) != 0 {
		t.Error("something was written")
	}
}
