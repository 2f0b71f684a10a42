package lab_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/lab"
)

func TestKillOnTheWire(t *testing.T) {
	for _, test := range []struct {
		name    string
		add     func(*lab.Proxy, lab.Match, ...lab.Action) *lab.Rule
		reached int32
	}{
		{"before", (*lab.Proxy).Before, 0},
		{"after", (*lab.Proxy).After, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t)
			p := newProxy(t, u.URL)
			env := start(t, nil)
			rule := test.add(p, lab.Match{N: 2}, lab.Kill(env.Kill))
			call := fmt.Sprintf(`{"do":"call","url":%q}`, p.URL())
			first := invoke(t, env, call, "").echo
			if first.Status != 200 {
				t.Errorf("first: got %+v", first)
			}
			expect(t, invoke(t, env, call, "r2"), 502, "Runtime.ExitError", "RequestId: r2 Error: Runtime exited with error: signal: killed")
			if err := rule.Wait(within(t)); err != nil {
				t.Error(err)
			}
			if got := u.reached.Load(); got != 1+test.reached || alive(first.PID) {
				t.Errorf("%d upstream, alive %v", got, alive(first.PID))
			}
			if got := invoke(t, env, call, "").echo; got.PID == first.PID || got.Calls != 1 || got.Status != 200 {
				t.Errorf("afterwards: got %+v", got)
			}
		})
	}
}

func TestKillWhileItStarts(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	env := start(t, &lab.Options{Env: map[string]string{"ECHO_INIT_URL": p.URL()}})
	p.After(lab.Match{N: 1}, lab.Kill(env.Kill))
	expect(t, invoke(t, env, `{"do":"echo"}`, "r1"), 502, "Runtime.ExitError", "")
	if got := invoke(t, env, `{"do":"echo"}`, "r2").echo; got.Calls != 1 || u.reached.Load() != 2 {
		t.Errorf("afterwards: got %+v, %d upstream", got, u.reached.Load())
	}
}

func TestKillWhileIdle(t *testing.T) {
	env := start(t, nil)
	pid := invoke(t, env, `{"do":"echo"}`, "").echo.PID
	if err := env.Kill(); err != nil || alive(pid) {
		t.Fatalf("got %v, alive %v", err, alive(pid))
	}
	// The emulator finds out with the next invocation, which reaches no function.
	expect(t, invoke(t, env, `{"do":"echo"}`, "r2"), 502, "Runtime.ExitError", "RequestId: r2 Error: Runtime exited with error: signal: killed")
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.Calls != 1 {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestStopAndCont(t *testing.T) {
	h := held(t, 9*time.Second)
	if err := h.env.Stop(); err != nil || state(h.first.PID) != "T" {
		t.Fatalf("stop: %v, state %s", err, state(h.first.PID))
	}
	h.gate.Open()
	if err := h.forwarded.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-h.outcome:
		t.Errorf("stopped, and yet %+v", o)
	default:
	}
	if err := h.env.Cont(); err != nil {
		t.Fatal(err)
	}
	if o := <-h.outcome; o.echo.Status != 200 || o.echo.PID != h.first.PID {
		t.Errorf("got %+v", o)
	}
}

func TestStoppedPastItsDeadlineIsKilled(t *testing.T) {
	h := held(t, time.Second)
	if err := h.env.Stop(); err != nil {
		t.Fatal(err)
	}
	expect(t, <-h.outcome, 200, "Sandbox.Timedout", "Task timed out after 1.00 seconds")
	if alive(h.first.PID) {
		t.Error("the process lives")
	}
	// Its request was on the wire, and arrives after its death.
	h.gate.Open()
	if err := h.forwarded.Wait(within(t)); err != nil || h.upstream.reached.Load() != 1 {
		t.Errorf("late request: %v, %d upstream", err, h.upstream.reached.Load())
	}
	if got := invoke(t, h.env, `{"do":"echo"}`, "").echo; got.Calls != 1 {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestStoppedWhileIdleTimesOut(t *testing.T) {
	env := start(t, &lab.Options{Timeout: time.Second})
	pid := invoke(t, env, `{"do":"echo"}`, "").echo.PID
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	expect(t, invoke(t, env, `{"do":"echo"}`, ""), 200, "Sandbox.Timedout", "Task timed out")
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.PID == pid {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestZombieOutlivesItsDeadline(t *testing.T) {
	h := held(t, time.Second)
	deadline := time.Now().Add(time.Second) // or before
	if err := h.env.StopEmulator(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(deadline)) // the event is the time itself
	h.gate.Open()
	if err := h.forwarded.Wait(within(t)); err != nil || h.upstream.reached.Load() != 1 || !alive(h.first.PID) {
		t.Errorf("past its deadline: %v, %d upstream, alive %v", err, h.upstream.reached.Load(), alive(h.first.PID))
	}
	if err := h.env.ContEmulator(); err != nil {
		t.Fatal(err)
	}
	// Whether the emulator then sees its timer first or the answer that has been waiting is its own affair.
	if got := <-h.outcome; got.functionError != "" {
		expect(t, got, 200, "Sandbox.Timedout", "Task timed out")
	}
}
