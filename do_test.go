package idem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

func TestFirstRunsAndReplayAnswersTheSameBytes(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	first := must(t, must2(op.Do(invoked(t), request(), w.charges)), nil)
	if got := w.kinds(); got != "Claimed Completed" {
		t.Errorf("events %q", got)
	}
	again := must(t, must2(op.Do(invoked(t), request(), w.mustNotRun)), nil)
	if first.Outcome != idem.Executed || again.Outcome != idem.Replayed {
		t.Errorf("outcomes %v and %v", first.Outcome, again.Outcome)
	}
	if string(first.Raw) != string(again.Raw) || first.Value != again.Value {
		t.Errorf("first %s, then %s", first.Raw, again.Raw)
	}
	if got := w.kinds(); got != "Replayed" {
		t.Errorf("events %q", got)
	}
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

// must2 turns a pair into one value for must; the error is fatal there.
func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A result must come back byte for byte, and the first answer must equal every replay.
func TestResultsSurviveByteForByte(t *testing.T) {
	text := func(raw string) { survives(t, "raw "+raw, json.RawMessage(raw), raw) }
	text(`{"b":1,"a":2}`)
	text(` { "spaced" : true } `)
	text(`{"n":12345678901234567890.12345678901234567890}`)
	text(`"<>&` + "\u2028" + `"`)
	text("")
	survives(t, "nil raw", json.RawMessage(nil), "")
	survives(t, "none", idem.None{}, "null")
	survives(t, "nil pointer", (*charge)(nil), "null")
	survives(t, "nil map", map[string]int(nil), "null")
	survives(t, "empty slice", []int{}, "[]")
	survives(t, "nil slice", []int(nil), "null")
	survives(t, "html", "<a href='x'>&</a>", `"<a href='x'>&</a>"`)
	survives(t, "line separator", "a\u2028b", `"a\u2028b"`)
	survives(t, "20 digits", uint64(math.MaxUint64), "18446744073709551615")
	survives(t, "nested raw", struct{ R json.RawMessage }{json.RawMessage(`12345678901234567890`)}, `{"R":12345678901234567890}`)
	survives(t, "bytes", []byte{0, 255}, `"AP8="`)
}

func survives[T any](t *testing.T, name string, v T, want string) {
	t.Run(name, func(t *testing.T) {
		w := newWorld(t)
		op, err := idem.New[T](w.store, w.sealer, "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		first := must2(op.Do(invoked(t), request(), func(context.Context) (T, error) { return v, nil }))
		again := must2(op.Do(invoked(t), request(), func(context.Context) (T, error) { t.Error("ran"); return v, nil }))
		if string(first.Raw) != want || string(again.Raw) != want {
			t.Errorf("first %q, replay %q, want %q", first.Raw, again.Raw, want)
		}
		if a, b := fmt.Sprintf("%#v", first.Value), fmt.Sprintf("%#v", again.Value); a != b {
			t.Errorf("first value %s, replayed %s", a, b)
		}
	})
}

func TestResultWithoutFormIsCompletedAndNeverRunAgain(t *testing.T) {
	w := newWorld(t)
	op := must2(idem.New[chan int](w.store, w.sealer, "charge", nil))
	_, err := op.Do(invoked(t), request(), func(context.Context) (chan int, error) { return make(chan int), nil })
	as[*idem.UnreadableError](t, err)
	w.wantState(idem.Completed)
	_, err = op.Do(invoked(t), request(), func(context.Context) (chan int, error) { t.Error("ran"); return nil, nil })
	as[*idem.UnreadableError](t, err)
	if _, again := idem.RetryAfter(err); again {
		t.Error("a retry cannot help")
	}
}

func TestResultAboveMaxResultIsCompletedAndNotKept(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{MaxResult: 10})
	first := must2(op.Do(invoked(t), request(), w.charges))
	if first.Value.ID != "ch_1" {
		t.Errorf("first answer %+v", first.Value)
	}
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	as[*idem.UnreadableError](t, err)
}

func TestConcurrentDuplicateIsToldUntilWhen(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		e := as[*idem.InProgressError](t, err)
		if after, ok := idem.RetryAfter(err); !ok || after < 20*time.Second || after > 36*time.Second {
			t.Errorf("retry after %v, %v: want about the time to the lease's end", after, ok)
		}
		if e.Until.Before(w.store.Now()) {
			t.Errorf("until %v", e.Until)
		}
		return w.charges(ctx)
	})
	if w.count() != 1 {
		t.Errorf("%d effects", w.count())
	}
}

func TestFingerprintIsCheckedInEveryState(t *testing.T) {
	for _, s := range []struct {
		state idem.State
		fn    func(*world) func(context.Context) (charge, error)
	}{
		{idem.Completed, func(w *world) func(context.Context) (charge, error) { return w.charges }},
		{idem.Failed, failing(idem.Final(errors.New("declined")))},
		{idem.Released, failing(idem.NotApplied(errors.New("nothing")))},
		{idem.Indeterminate, failing(errors.New("who knows"))},
		{idem.Pending, nil},
	} {
		t.Run(s.state.String(), func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{})
			if s.fn == nil {
				w.crashed(op, request(), w.charges)
			} else {
				op.Do(invoked(t), request(), s.fn(w))
			}
			w.wantState(s.state)
			before := w.record()
			other := request()
			other.Payload = charge{Amount: 999}
			_, err := op.Do(invoked(t), other, w.mustNotRun)
			as[*idem.MismatchError](t, err)
			if _, again := idem.RetryAfter(err); again {
				t.Error("a retry cannot help")
			}
			_, err = op.Look(invoked(t), other)
			as[*idem.MismatchError](t, err)
			if after := w.record(); after.Version != before.Version {
				t.Error("the record was touched")
			}
		})
	}
}

func failing(err error) func(*world) func(context.Context) (charge, error) {
	return func(*world) func(context.Context) (charge, error) {
		return func(context.Context) (charge, error) { return charge{}, err }
	}
}

func TestTenantsAndOperationsAreApart(t *testing.T) {
	w := newWorld(t)
	var ran []string
	for _, name := range []string{"charge", "refund"} {
		op := must2(idem.New[string](w.store, w.sealer, name, nil))
		for _, tenant := range []string{"a", "b", "a#refund", "a%23refund", "a%", "%"} {
			r := idem.Request{Tenant: tenant, Key: "k", Payload: idem.AnyPayload{}}
			who := name + " of " + tenant
			res := must2(op.Do(invoked(t), r, func(context.Context) (string, error) { ran = append(ran, who); return who, nil }))
			again := must2(op.Do(invoked(t), r, func(context.Context) (string, error) { t.Errorf("%s ran twice", who); return "", nil }))
			if res.Value != who || again.Value != who {
				t.Errorf("%s got %q, then %q", who, res.Value, again.Value)
			}
		}
	}
	if len(ran) != 12 {
		t.Errorf("%d runs", len(ran))
	}
}

// declined is an error of the function's own.
type declined struct{ code string }

func (d *declined) Error() string { return "declined: " + d.code }

func TestWhatAnErrorMeans(t *testing.T) {
	own := &declined{"no funds"}
	type row struct {
		name  string
		begin idem.Begin
		calls bool // Begin
		err   error
		state idem.State
	}
	var rows []row
	for _, b := range []idem.Begin{idem.Ignored, idem.InMemory, idem.Durable} {
		unsaid := idem.Released
		if b == idem.Ignored {
			unsaid = idem.Indeterminate
		}
		rows = append(rows,
			row{"unclassified before begin", b, false, own, unsaid},
			row{"unclassified after begin", b, true, own, idem.Indeterminate},
			row{"not applied", b, true, idem.NotApplied(own), idem.Released},
			row{"never applied", b, true, idem.NeverApplied(own), idem.Released},
			row{"final", b, true, idem.Final(own), idem.Failed},
			row{"unknown", b, true, idem.Unknown(own), idem.Indeterminate},
			row{"wrapped word", b, true, fmt.Errorf("charging: %w", idem.NotApplied(own)), idem.Released},
			row{"two words", b, true, errors.Join(idem.NotApplied(own), idem.Final(own)), idem.Indeterminate},
			row{"the word of an inner one", b, true, idem.Unknown(idem.NotApplied(own)), idem.Indeterminate},
		)
	}
	for _, r := range rows {
		t.Run(fmt.Sprintf("%s, %d", r.name, r.begin), func(t *testing.T) {
			w := newWorld(t)
			op := w.op(idem.Options{Begin: r.begin})
			_, err := op.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
				if r.calls {
					must2(0, idem.AttemptFrom(ctx).Begin(ctx, nil))
				}
				return charge{}, r.err
			})
			if !errors.Is(err, own) {
				t.Errorf("got %v: not the function's own error", err)
			}
			if r.err == error(own) || r.name == "final" || r.name == "not applied" {
				if err != error(own) {
					t.Errorf("got %T, want the very value", err)
				}
			}
			w.wantState(r.state)
		})
	}
}

func TestFinalFailureIsReplayedWithTypeAndMessage(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.Final(&declined{"no funds"}))(w))
	for range 2 {
		_, err := op.Do(invoked(t), request(), w.mustNotRun)
		f := as[*idem.FailedError](t, err)
		if f.Type != "declined" || f.Message != "declined: no funds" {
			t.Errorf("replayed as %q, %q", f.Type, f.Message)
		}
		if _, again := idem.RetryAfter(err); again {
			t.Error("it is the answer for good")
		}
	}
}

func TestLongFailureMessageIsCutAtACharacter(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.Final(errors.New(strings.Repeat("é", 600))))(w))
	_, err := op.Do(invoked(t), request(), w.mustNotRun)
	if m := as[*idem.FailedError](t, err).Message; m != strings.Repeat("é", 512) {
		t.Errorf("%d bytes", len(m))
	}
}

func TestReleasedKeyRunsAgain(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	op.Do(invoked(t), request(), failing(idem.NotApplied(errors.New("provider is down")))(w))
	fence := w.record().Fence
	res := must2(op.Do(invoked(t), request(), w.charges))
	if res.Outcome != idem.Executed || w.count() != 1 {
		t.Errorf("%v, %d effects", res.Outcome, w.count())
	}
	if w.record().Fence <= fence {
		t.Error("the fence did not rise")
	}
}

// The word that an inner guarded call was answered with says nothing about the function around it.
func TestInnerWordIsNotTheOuterOnes(t *testing.T) {
	for name, word := range map[string]error{"bare": idem.NotApplied(errors.New("inner")), "wrapped": fmt.Errorf("inner: %w", idem.NotApplied(errors.New("x")))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			outer := w.op(idem.Options{})
			inner := must2(idem.New[charge](w.store, w.sealer, "inner", nil))
			outer.Do(invoked(t), request(), func(ctx context.Context) (charge, error) {
				w.charges(ctx)
				_, err := inner.Do(ctx, request(), func(context.Context) (charge, error) { return charge{}, word })
				return charge{}, err
			})
			for _, r := range w.store.Records() {
				if want := map[string]idem.State{"charge": idem.Indeterminate, "inner": idem.Released}[r.ID.Operation]; r.State != want {
					t.Errorf("%s is %v, want %v", r.ID.Operation, r.State, want)
				}
			}
		})
	}
}

func TestPanicGoesOnAndIsUnknown(t *testing.T) {
	for begin, want := range map[idem.Begin]idem.State{idem.Ignored: idem.Indeterminate, idem.InMemory: idem.Released} {
		w := newWorld(t)
		op := w.op(idem.Options{Begin: begin})
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v", got)
				}
			}()
			op.Do(invoked(t), request(), func(context.Context) (charge, error) { panic("boom") })
		}()
		w.wantState(want)
	}
}

func TestGoexitIsUnknown(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	var wg sync.WaitGroup
	wg.Go(func() {
		op.Do(invoked(t), request(), func(context.Context) (charge, error) { runtime.Goexit(); return charge{}, nil })
	})
	wg.Wait()
	w.wantState(idem.Indeterminate)
	if r := w.record(); r.Reason != idem.Panicked {
		t.Errorf("reason %v", r.Reason)
	}
}

func TestRunningIntoTheDeadlineIsRecordedInTheReserve(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Reserve: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
	defer cancel()
	_, err := op.Do(ctx, request(), func(ctx context.Context) (charge, error) {
		<-ctx.Done()
		return charge{}, ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if r := w.record(); r.State != idem.Indeterminate || r.Reason != idem.Deadline {
		t.Errorf("%v, %v", r.State, r.Reason)
	}
	_, err = op.Do(invoked(t), request(), w.mustNotRun)
	if as[*idem.IndeterminateError](t, err).Doubt.Reason != idem.Deadline {
		t.Errorf("got %v", err)
	}
}

// A caller that leaves takes its context with it; the outcome is recorded all the same.
func TestOutcomeIsRecordedThoughTheCallerLeft(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	ctx, leave := context.WithCancel(invoked(t))
	must2(op.Do(ctx, request(), func(ctx context.Context) (charge, error) { leave(); return w.charges(ctx) }))
	w.wantState(idem.Completed)
}

func TestCallerThatLeftBeforeTheRunLeavesNothingOpen(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	ctx, leave := context.WithCancel(invoked(t))
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		if call == "Create" {
			leave()
		}
		return true, nil
	})
	_, err := op.Do(ctx, request(), w.mustNotRun)
	as[*idem.UnavailableError](t, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.store.Fail(nil)
	if all := w.store.Records(); len(all) == 1 && all[0].State != idem.Released {
		t.Errorf("left %v", all[0].State)
	}
	must2(op.Do(invoked(t), request(), w.charges))
}

func TestRequestsPerPath(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{})
	counted := func(name string, want int, f func()) {
		t.Helper()
		before := w.store.Calls()
		f()
		after := w.store.Calls()
		got := 0
		for _, call := range []string{"Create", "Swap", "Load"} {
			got += after[call] - before[call]
		}
		if got != want {
			t.Errorf("%s: %d requests, want %d", name, got, want)
		}
	}
	key := func(k string) idem.Request { r := request(); r.Key = k; return r }
	counted("first execution", 2, func() { must2(op.Do(invoked(t), key("a"), w.charges)) })
	counted("replay", 1, func() { must2(op.Do(invoked(t), key("a"), w.mustNotRun)) })
	other := key("a")
	other.Payload = idem.AnyPayload{}
	counted("mismatch", 1, func() { op.Do(invoked(t), other, w.mustNotRun) })
	w.crashed(op, key("b"), w.charges)
	counted("duplicate", 1, func() { op.Do(invoked(t), key("b"), w.mustNotRun) })
	w.lapse()
	counted("first to find it lapsed", 2, func() { op.Do(invoked(t), key("b"), w.mustNotRun) })
	counted("indeterminate duplicate", 1, func() { op.Do(invoked(t), key("b"), w.mustNotRun) })
	durable := w.op(idem.Options{Begin: idem.Durable})
	counted("first execution with durable begin", 3, func() {
		must2(durable.Do(invoked(t), key("c"), func(ctx context.Context) (charge, error) {
			must2(0, idem.AttemptFrom(ctx).Begin(ctx, "a note in the same write"))
			return w.charges(ctx)
		}))
	})
}

func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	op := w.op(idem.Options{Wait: 10 * time.Second})
	const keys, each = 40, 16
	var mu sync.Mutex
	runs := map[string]int{}
	answers := map[string]map[string]bool{}
	var wg sync.WaitGroup
	for k := range keys {
		key := fmt.Sprint("k", k)
		for range each {
			wg.Go(func() {
				r := request()
				r.Key = key
				res, err := op.Do(invoked(t), r, func(context.Context) (charge, error) {
					mu.Lock()
					defer mu.Unlock()
					runs[key]++
					return charge{ID: fmt.Sprint(key, "-", runs[key])}, nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if answers[key] == nil {
					answers[key] = map[string]bool{}
				}
				answers[key][string(res.Raw)] = true
			})
		}
	}
	wg.Wait()
	for k := range keys {
		key := fmt.Sprint("k", k)
		if runs[key] != 1 || len(answers[key]) != 1 {
			t.Errorf("%s: %d runs, %d different answers", key, runs[key], len(answers[key]))
		}
	}
}
