package lab_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/lab"
)

func TestInvoke(t *testing.T) {
	env := start(t, &lab.Options{Env: map[string]string{"GREETING": "hello=you"}, Timeout: 9 * time.Second})
	if _, err := env.PID(); !errors.Is(err, lab.ErrNoProcess) {
		t.Errorf("before the first invocation: got %v", err)
	}
	if err := env.Kill(); !errors.Is(err, lab.ErrNoProcess) {
		t.Errorf("kill before the first invocation: got %v", err)
	}
	first := invoke(t, env, `{"do":"echo","env":"GREETING"}`, "r1").echo
	if first.Calls != 1 || first.RequestID != "r1" || first.Env != "hello=you" {
		t.Errorf("got %+v", first)
	}
	if left := time.Until(first.Deadline); left < 5*time.Second || left > 9*time.Second {
		t.Errorf("deadline in %v", left)
	}
	if pid, err := env.PID(); err != nil || pid != first.PID {
		t.Errorf("pid: got %d, %v, want %d", pid, err, first.PID)
	}
	// Lambda's retry: the same request id, here in the same process.
	again := invoke(t, env, `{"do":"echo","env":"HOME"}`, "r1").echo
	if again.PID != first.PID || again.Calls != 2 || again.RequestID != "r1" || again.Env != "" {
		t.Errorf("again: got %+v", again)
	}
	for name, want := range map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "function", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "lab",
	} {
		if got := invoke(t, env, `{"do":"echo","env":"`+name+`"}`, "").echo; got.Env != want || got.RequestID == "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if _, _, _, err := env.Invoke(t.Context(), make([]byte, 6<<20+1), ""); err == nil {
		t.Error("payload over the limit: invoked")
	}
}

func TestFunctionErrors(t *testing.T) {
	env := start(t, nil)
	first := invoke(t, env, `{"do":"echo"}`, "").echo
	expect(t, invoke(t, env, `{"do":"fail"}`, ""), 200, "EchoError", `{"errorMessage":"echo told to fail","errorType":"EchoError"}`)
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.PID != first.PID {
		t.Error("an error ended the process")
	}
	expect(t, invoke(t, env, `{"do":"panic"}`, ""), 502, "string", `"errorMessage":"echo told to panic"`)
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.PID == first.PID || got.Calls != 1 {
		t.Errorf("after a panic: got %+v", got)
	}
	expect(t, invoke(t, env, `{"do":"exit"}`, "r7"), 502, "Runtime.ExitError", "RequestId: r7 Error: Runtime exited with error: exit status 3")
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.Calls != 1 {
		t.Errorf("after an exit: got %+v", got)
	}
}

func TestTimeoutKills(t *testing.T) {
	env := start(t, &lab.Options{Timeout: time.Second})
	pid := invoke(t, env, `{"do":"echo"}`, "").echo.PID
	began := time.Now()
	expect(t, invoke(t, env, `{"do":"wait"}`, ""), 200, "Sandbox.Timedout", "Task timed out after 1.00 seconds")
	if took := time.Since(began); took < time.Second {
		t.Errorf("timed out after %v", took)
	}
	if alive(pid) {
		t.Error("the process lives")
	}
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.PID == pid || got.Calls != 1 {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestInvocationsWaitForOneAnother(t *testing.T) {
	h := held(t, 9*time.Second)
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, _, _, err := h.env.Invoke(ctx, []byte(`{"do":"echo"}`), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("while it is busy: got %v", err)
	}
	h.gate.Open()
	next := invoke(t, h.env, `{"do":"echo"}`, "").echo
	if o := <-h.outcome; o.echo.Calls != 2 || next.Calls != 3 || next.PID != h.first.PID {
		t.Errorf("got %+v, then %+v", o.echo, next)
	}
}

func TestAbandonedInvocationGoesOn(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	env := start(t, nil)
	gate := lab.NewGate()
	p.Before(lab.Match{}, lab.Hold(gate))
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-gate.Held()
		giveUp()
	}()
	if _, _, _, err := env.Invoke(ctx, fmt.Appendf(nil, `{"do":"call","url":%q}`, p.URL()), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gate.Open()
	if got := invoke(t, env, `{"do":"echo"}`, "").echo; got.Calls != 2 || u.reached.Load() != 1 {
		t.Errorf("next: got %+v, %d upstream", got, u.reached.Load())
	}
}
