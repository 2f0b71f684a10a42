package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
)

// Under Rerun an attempt that follows one that is known to have done nothing knows of all there was.
func TestRunAfterOneThatDidNothingReleases(t *testing.T) {
	nothing := failing(idem.NotApplied(errors.New("connection refused")))
	t.Run("not begun", func(t *testing.T) {
		w := newWorld(t)
		op := w.op(idem.Options{Recover: idem.Rerun(time.Hour), Begin: idem.Durable})
		w.crashed(op, request(), failing(errors.New("dies before its begin"))(w))
		w.lapse()
		op.Do(invoked(t), request(), nothing(w))
		w.wantState(idem.Released)
	})
	t.Run("reconciled", func(t *testing.T) {
		w := newWorld(t)
		op, _ := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.NeverApplied(errors.New("closed")) })
		w.crashed(op, request(), failing(errors.New("?"))(w))
		w.lapse()
		op.Do(invoked(t), request(), nothing(w))
		w.wantState(idem.Released)
	})
}

// The table was adopted between the look at its generation and the claim: the same request again is under the new one.
func TestClaimUnderAGenerationThatEndedMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	op, m := w.meddledOp(idem.Options{})
	m.create = func(context.Context, idem.Record) (idem.Record, error) {
		restored(w, w.store.Snapshot())
		return idem.Record{}, retryError(false)
	}
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnavailableError](t, err)
	if _, again := idem.RetryAfter(err); !again {
		t.Errorf("%v: says no retry", err)
	}
}

// A Commit asks nobody, so no retry of it helps a doubt.
func TestCommitInDoubtIsNotToldToRetry(t *testing.T) {
	w := newWorld(t)
	op, _ := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, errors.New("?") })
	op.Do(invoked(t), request(), failing(errors.New("?"))(w))
	_, err := op.Commit(invoked(t), request(), prepares, w.committed)
	as[*idem.IndeterminateError](t, err)
	if _, again := idem.RetryAfter(err); again {
		t.Error("a retry cannot help")
	}
}

func TestBeginUnderAContextThatIsDoneIsRefused(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(invoked(t))
	_, err := w.op(idem.Options{Begin: idem.InMemory}).Do(ctx, request(), func(ctx context.Context) (charge, error) {
		leave()
		return charge{}, idem.AttemptFrom(ctx).Begin(ctx, nil)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.wantState(idem.Released)
}

func TestBeginInMemoryCostsNothing(t *testing.T) {
	w := newWorld(t)
	for _, b := range []idem.Begin{idem.Ignored, idem.InMemory} {
		r := request()
		r.Key = string('a' + rune(b))
		before := w.store.Calls()["Swap"]
		must2(w.op(idem.Options{Begin: b}).Do(invoked(t), r, func(ctx context.Context) (charge, error) {
			must2(0, idem.AttemptFrom(ctx).Begin(ctx, nil))
			return w.charges(ctx)
		}))
		if got := w.store.Calls()["Swap"] - before; got != 1 {
			t.Errorf("begin %d: %d writes after the claim, want 1", b, got)
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var left *idem.Attempt
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		left = idem.AttemptFrom(ctx)
		if err := left.Note(ctx, strings.Repeat("x", 1022)); err != nil {
			t.Errorf("1 KiB: %v", err)
		}
		if left.Note(ctx, strings.Repeat("x", 1023)) == nil {
			t.Error("more than 1 KiB is taken")
		}
		return charge{}, errors.New("?")
	})
	w.wantState(idem.Indeterminate)
	before := w.record().Version
	if left.Note(t.Context(), "late") == nil || w.record().Version != before {
		t.Error("a note is taken from a goroutine that outlived the function")
	}
}

// overwritten applies a write, and then lets a tool write the same record again before the answer comes.
func overwritten(w *world, m *meddled) {
	m.swap = func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
		if h, err := w.store.Swap(ctx, seen, r); err != nil || h.Version != r.Version {
			return h, err
		}
		seen, r.Version = r.Version, idem.Version{byte(w.store.Calls()["Swap"]), 99}
		return w.store.Swap(ctx, seen, r)
	}
}

// A write that was applied and then overwritten by a tool is one's own: the begin is in the record, and so is the outcome.
func TestOwnWriteThatWasOverwrittenIsOnesOwn(t *testing.T) {
	for name, end := range map[string]error{"success": nil, "failure": idem.Final(&declined{"x"})} {
		w := newWorld(t)
		var kinds []string
		op, m := w.meddledOp(idem.Options{Begin: idem.Durable, Observe: func(_ context.Context, e idem.Event) { kinds = append(kinds, e.Kind) }})
		overwritten(w, m)
		res, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			if err := idem.AttemptFrom(ctx).Begin(ctx, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return charge{ID: "mine"}, end
		})
		want := map[string]string{"success": "Claimed Completed", "failure": "Claimed Failed"}[name]
		if got := strings.Join(kinds, " "); got != want || end == nil && (err != nil || res.Outcome != idem.Executed) {
			t.Errorf("%s: events %q, want %q; %v, %v", name, got, want, res.Outcome, err)
		}
		if own, ok := errors.AsType[*declined](err); end != nil && (!ok || own.code != "x") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Somebody settled the key otherwise: everybody gets the same answer, the owner too, whatever it found itself.
func TestFailingOwnerThatFindsAnotherOutcomeAnswersWithIt(t *testing.T) {
	w := newWorld(t)
	res, err := w.op(idem.Options{}).Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Completed, Result: []byte(`{"ID":"operator"}`), By: "op", Why: "saw it"}))
		return charge{}, idem.Final(errors.New("declined"))
	})
	if err != nil || res.Value.ID != "operator" || !strings.Contains(w.kinds(), "Conflict") {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAnotherDeadlineIsNotTheAttempts(t *testing.T) {
	w := newWorld(t)
	w.op(idem.Options{}).Do(invoked(t), request(), failing(context.DeadlineExceeded)(w))
	if r := w.record(); r.Reason != idem.Errored {
		t.Errorf("%v", r.Reason)
	}
}

// A replaced owner leaves its outcome: a failure contradicts no release, and what is too large is left as the fact alone.
func TestReplacedOwnersLeaveTheirOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		end    error
		want   string
	}{
		"failure": {"", idem.Final(&declined{"x"}), `{"failure":{"type":"declined","message":"declined: x"}}`},
		"large":   {strings.Repeat("x", 5000), nil, `{"result":null}`},
		"small":   {"ch_1", nil, `{"result":{"ID":"ch_1","Amount":0}}`},
	} {
		w := newWorld(t)
		op, a := reconciled(w, func(idem.Doubt) (charge, error) { return charge{}, idem.NeverApplied(errors.New("closed")) })
		op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
			w.lapse()
			op.Do(invoked(t), request(), failing(errors.New("?"))(w)) // asked, and taken over
			return charge{ID: c.result}, c.end
		})
		w.store.Advance(time.Hour)
		op.Do(invoked(t), request(), failing(errors.New("?"))(w))
		if string(a.doubt.Evidence) != c.want {
			t.Errorf("%s: evidence %.100s, want %s", name, a.doubt.Evidence, c.want)
		}
	}
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "x"}))
		return charge{}, idem.Final(errors.New("declined"))
	})
	w.wantState(idem.Released)
}

// The key has had a new life since: nothing can be left there, and the error says so.
func TestOwnerOfAnEarlierLifeCanLeaveNothing(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		w.lapse()
		seen := must2(idem.Lapse(ctx, w.store, w.record()))
		must2(idem.Resolve(ctx, w.store, w.sealer, seen, idem.Verdict{State: idem.Released, Never: true, By: "op", Why: "x"}))
		w.store.Advance(100 * 24 * time.Hour)
		op.Do(invokedAt(t, w), request(), failing(errors.New("?"))(w))
		return w.charges(ctx)
	})
	if e := as[*idem.LostError](t, err); e.Err == nil || len(w.record().Evidence.Bytes) != 0 {
		t.Errorf("left %v, %q", e.Err, w.record().Evidence.Bytes)
	}
}

// An outcome is written as long as the invocation lasts, or for as long as the reserve was where it went on after that; a quarter
// of that is for the read after it.
func TestRecordingEndsWithTheInvocation(t *testing.T) {
	for _, c := range []struct{ runs, ends time.Duration }{
		{0, 30 * time.Second},
		{40 * time.Second, 42 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			op, m := w.meddledOp(idem.Options{})
			m.swap = func(ctx context.Context, _ idem.Version, _ idem.Record) (idem.Record, error) {
				return idem.Record{}, hangs(ctx)
			}
			m.load = func(ctx context.Context, _ idem.ID) (idem.Record, error) { return idem.Record{}, hangs(ctx) }
			start := time.Now()
			_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) { time.Sleep(c.runs); return w.charges(ctx) })
			as[*idem.NotRecordedError](t, err)
			if took := time.Since(start); took != c.ends {
				t.Errorf("ran for %v: ended after %v, want %v", c.runs, took, c.ends)
			}
		})
	}
}

// Somebody wrote the record while the commit was under way: it goes over that, with the outcome that was prepared.
func TestCommitPreparesOnce(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	prepared, writes := 0, 0
	res := must2(op.Commit(invoked(t), request(), func(context.Context) (charge, error) {
		prepared++
		return charge{Amount: prepared}, nil
	}, func(ctx context.Context, seen idem.Version, next idem.Record) (idem.Record, error) {
		if writes++; writes == 1 {
			op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("x")))(w))
		}
		return w.committed(ctx, seen, next)
	}))
	if prepared != 1 || writes != 2 || res.Value.Amount != 1 {
		t.Errorf("prepared %d times, %d writes, %+v", prepared, writes, res.Value)
	}
}

// A Commit inside a guarded function: its function is not the attempt around it, and its word says nothing about that one.
func TestCommitInsideAGuardedFunction(t *testing.T) {
	w := newWorld(t)
	outer := w.op(idem.Options{})
	inner := must2(idem.New[charge](w.store, w.sealer, "inner", nil))
	outer.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		_, err := inner.Commit(ctx, request(), func(ctx context.Context) (charge, error) {
			if idem.AttemptFrom(ctx) != nil {
				t.Error("the outer attempt's handle is seen")
			}
			return charge{}, fmt.Errorf("inner: %w", idem.NotApplied(errors.New("nothing here")))
		}, w.committed)
		return charge{}, err
	})
	w.wantState(idem.Indeterminate)
}
