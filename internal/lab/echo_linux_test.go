package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/lab"
)

// workDir holds the one build of the echo function, and every environment's log.
var workDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var buildEcho = sync.OnceValues(func() (*lab.Function, error) {
	return lab.Build(context.Background(), "./testdata/echo", workDir)
})

func start(t *testing.T, o *lab.Options) *lab.Environment {
	t.Helper()
	echo, err := buildEcho()
	if err != nil {
		t.Fatal(err)
	}
	env, err := echo.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		env.Close()
		if t.Failed() {
			log, _ := os.ReadFile(env.Log)
			t.Logf("%s", log)
		}
	})
	return env
}

// outcome is what an invocation came to.
type outcome struct {
	status        int
	functionError string
	body          string
	echo          echo
}

// echo is the answer of the echo function.
type echo struct {
	PID       int
	Calls     int
	RequestID string
	Deadline  time.Time
	Env       string
	Status    int
}

func invoke(t *testing.T, env *lab.Environment, event, requestID string) (o outcome) {
	t.Helper()
	body, status, functionError, err := env.Invoke(t.Context(), []byte(event), requestID)
	if err != nil {
		t.Errorf("invoke %s: %v", event, err)
		return o
	}
	o = outcome{status: status, functionError: functionError, body: string(body)}
	if functionError == "" {
		if err := json.Unmarshal(body, &o.echo); err != nil {
			t.Errorf("invoke %s: %d %s: %v", event, status, body, err)
		}
	}
	return o
}

// expect checks an outcome that is an error.
func expect(t *testing.T, got outcome, status int, functionError, body string) {
	t.Helper()
	if got.status != status || got.functionError != functionError || !strings.Contains(got.body, body) {
		t.Errorf("got %d %q %s, want %d %q %s", got.status, got.functionError, got.body, status, functionError, body)
	}
}

// state is the process's state as the kernel names it: "T" stopped, "Z" dead and not yet collected; empty if it is gone.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat))[2]
}

func alive(pid int) bool {
	s := state(pid)
	return s != "" && s != "Z" && s != "X" // X: dead, and being collected
}

// held starts an environment whose invocation is held on the wire: its process waits for the answer.
func held(t *testing.T, timeout time.Duration) (h *holding) {
	t.Helper()
	h = &holding{upstream: newUpstream(t), gate: lab.NewGate(), outcome: make(chan outcome, 1)}
	h.proxy = newProxy(t, h.upstream.URL)
	h.env = start(t, &lab.Options{Timeout: timeout})
	h.first = invoke(t, h.env, `{"do":"echo"}`, "").echo
	h.proxy.Before(lab.Match{}, lab.Hold(h.gate))
	h.forwarded = h.proxy.After(lab.Match{})
	go func() { h.outcome <- invoke(t, h.env, fmt.Sprintf(`{"do":"call","url":%q}`, h.proxy.URL()), "held") }()
	<-h.gate.Held()
	return h
}

// holding is an environment whose invocation is held.
type holding struct {
	upstream  *upstream
	proxy     *lab.Proxy
	env       *lab.Environment
	gate      *lab.Gate
	forwarded *lab.Rule // acts when the held request has been forwarded
	first     echo
	outcome   chan outcome
}
