package lab_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/internal/lab"
)

func TestTwoEnvironmentsAtOnce(t *testing.T) {
	a, b := held(t, 9*time.Second), held(t, 9*time.Second)
	if a.first.PID == b.first.PID || a.env.Log == b.env.Log {
		t.Errorf("got %+v, %+v", a.first, b.first)
	}
	if err := a.env.Kill(); err != nil {
		t.Fatal(err)
	}
	expect(t, <-a.outcome, 502, "Runtime.ExitError", "signal: killed")
	b.gate.Open()
	if o := <-b.outcome; o.echo.Status != 200 || o.echo.PID != b.first.PID || o.echo.Calls != 2 {
		t.Errorf("the other: got %+v", o)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	env := start(t, nil)
	pid := invoke(t, env, `{"do":"echo"}`, "").echo.PID
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	broken := make(chan error)
	go func() {
		_, _, _, err := env.Invoke(t.Context(), []byte(`{"do":"echo"}`), "")
		broken <- err
	}()
	env.Close()
	env.Close()
	if alive(pid) {
		t.Error("the function lives")
	}
	if err := <-broken; err == nil {
		t.Error("the invocation under way was answered")
	}
	if _, _, _, err := env.Invoke(t.Context(), []byte(`{}`), ""); err == nil {
		t.Error("invoked")
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	echo, err := buildEcho()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*lab.Options{
		"half a second":   {Timeout: 1500 * time.Millisecond},
		"max concurrency": {Env: map[string]string{"AWS_LAMBDA_MAX_CONCURRENCY": "2"}},
	} {
		if env, err := echo.Start(t.Context(), o); err == nil {
			env.Close()
			t.Errorf("%s: started", name)
		}
	}
	if _, err := lab.Build(t.Context(), "./testdata/nothing", t.TempDir()); err == nil {
		t.Error("built nothing")
	}
}
