package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// largest is a result that lies beside its record.
func largest(context.Context) (charge, error) {
	return charge{ID: strings.Repeat("x", 6<<20-100)}, nil
}

var forLarge = idem.Options{MaxResult: 6 << 20, Reserve: 7 * time.Second}

func TestLargeResultIsReplayedToTheByte(t *testing.T) {
	w := newWorld(t)
	op := w.op(forLarge)
	first := must2(op.Do(invoked(t), request(), largest))
	again := must2(op.Do(invoked(t), request(), w.mustNotRun))
	looked := must2(op.Look(invoked(t), request()))
	if again.Outcome != idem.Replayed || string(first.Raw) != string(again.Raw) || string(first.Raw) != string(looked.Raw) {
		t.Errorf("%d bytes, then %v %d, then %d", len(first.Raw), again.Outcome, len(again.Raw), len(looked.Raw))
	}
	other := request()
	other.Payload = "another"
	before := w.store.Calls()["Fetch"]
	_, err := op.Do(invoked(t), other, w.mustNotRun)
	as[*idem.MismatchError](t, err)
	if w.store.Calls()["Fetch"] != before {
		t.Error("a mismatch read the receipt")
	}
}

func TestLargeResultThatCannotBeReadIsKnownToBeDone(t *testing.T) {
	w := newWorld(t)
	op := w.op(forLarge)
	must2(op.Do(invoked(t), request(), largest))
	w.kinds()
	for _, c := range []struct {
		err   error
		again bool
		kind  string
	}{{retryError(true), true, "StoreErrors"}, {errors.New("says nothing"), true, "StoreErrors"}, {retryError(false), false, "Replayed"}} {
		w.store.Fail(func(call string, _ idem.ID) (bool, error) {
			if call == "Fetch" {
				return false, c.err
			}
			return false, nil
		})
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		if c.again {
			as[*idem.UnavailableError](t, err)
		} else {
			as[*idem.UnreadableError](t, err)
		}
		if _, again := idem.RetryAfter(err); again != c.again || !errors.Is(err, c.err) {
			t.Errorf("%v: retry %v, error %v", c.err, again, err)
		}
		if kinds := w.kinds(); kinds != c.kind {
			t.Errorf("%v: events %s, want %s", c.err, kinds, c.kind)
		}
	}
	w.store.Fail(nil)
	if torn, err := w.store.Tear(t.Context(), w.record().ID); !torn || err != nil {
		t.Fatal(torn, err)
	}
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnreadableError](t, err)
	w.wantState(idem.Completed)
}

// Its write was applied, and a tool has rewritten the record before the answer came: the receipt is still its own.
func TestLargeResultIsKnownAsOnesOwn(t *testing.T) {
	w := newWorld(t)
	swaps := 0
	w.store.Fail(func(call string, id idem.ID) (bool, error) {
		if call != "Swap" {
			return false, nil
		}
		if swaps++; swaps > 1 {
			return false, nil
		}
		return true, errCut
	})
	retouch := func() {
		r := w.record()
		if r.State != idem.Completed {
			return
		}
		n := r
		n.Version, n.Resolved.By = idem.Version{7}, "tool"
		must(t, n, second(w.store.Swap(t.Context(), r.Version, n)))
	}
	store := loading{w.store, retouch}
	op, err := idem.New[charge](store, w.sealer, "charge", &forLarge)
	if err != nil {
		t.Fatal(err)
	}
	res := must2(op.Do(invoked(t), request(), largest))
	if res.Outcome != idem.Executed || w.record().Resolved.By != "tool" {
		t.Errorf("%v, resolved by %q", res.Outcome, w.record().Resolved.By)
	}
}

func second(_ idem.Record, err error) error { return err }

// loading is a store that calls back before a Load.
type loading struct {
	idem.Store
	before func()
}

func (l loading) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	l.before()
	return l.Store.Load(ctx, id)
}

func TestReserveMustDoForTheLargestResult(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		o  idem.Options
		ok bool
	}{
		{idem.Options{MaxResult: 300_000}, true},
		{idem.Options{MaxResult: 300_001}, false},
		{idem.Options{MaxResult: 300_001, Reserve: 301 * time.Millisecond}, true},
		{idem.Options{MaxResult: 200_000, Reserve: 100 * time.Millisecond}, false},
		{idem.Options{Reserve: 100 * time.Millisecond}, true}, // the default was not asked for
		{idem.Options{MaxResult: 6 << 20, Reserve: 6 * time.Second}, false},
		{idem.Options{MaxResult: 6 << 20, Reserve: 7 * time.Second}, true},
		{idem.Options{MaxResult: 6<<20 + 1, Reserve: 10 * time.Second}, false},
	} {
		_, err := idem.New[charge](w.store, w.sealer, "x", &c.o)
		if c.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "MaxResult") {
			t.Errorf("%d bytes, reserve %v: %v", c.o.MaxResult, c.o.Reserve, err)
		}
	}
}

func TestCommitGivesTheWritesOwnErrorToTheCaller(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	own := &declined{"condition of the order"}
	_, err := op.Commit(invoked(t), request(), prepares, func(context.Context, idem.Version, idem.Record) (idem.Record, error) {
		return idem.Record{}, idem.NotApplied(own)
	})
	if err != error(own) || len(w.store.Records()) != 0 || w.kinds() != "" {
		t.Errorf("got %v", err)
	}
	if op.Store() != idem.Store(w.store) {
		t.Error("Store is not the operation's")
	}
	must2(op.Commit(invoked(t), request(), prepares, w.committed))
}
