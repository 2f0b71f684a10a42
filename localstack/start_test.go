package main

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A stubEngine can or cannot be had, and remembers what was asked of it.
type stubEngine struct {
	name             string
	probeErr, failed error
	calls            *[]string
}

func (s stubEngine) Probe(context.Context) error {
	*s.calls = append(*s.calls, "probe "+s.name)
	return s.probeErr
}

func (s stubEngine) Start(context.Context, func(backend) error) (backend, error) {
	*s.calls = append(*s.calls, "start "+s.name)
	return backend{Engine: s.name, Services: []service{
		{Kind: "DynamoDB", Title: s.name + " 1", endpoint: endpoint{s.name, "http://127.0.0.1:1"}},
	}}, s.failed
}

func TestStartChoice(t *testing.T) {
	no, broken := errors.New("needs a thing"), errors.New("no answer")
	works, missing, fails := stubEngine{}, stubEngine{probeErr: no}, stubEngine{failed: broken}
	tests := []struct {
		name    string
		choice  choice
		engines map[string]stubEngine
		calls   string
		started []string
		want    []string // in the error; none if it works
	}{
		{"the first works", choice{first: []string{"a", "b"}}, map[string]stubEngine{"a": works, "b": works},
			"probe a, start a", []string{"a"}, nil},
		{"the first is missing", choice{first: []string{"a", "b"}}, map[string]stubEngine{"a": missing, "b": works},
			"probe a, probe b, start b", []string{"b"}, nil},
		{"the first fails", choice{first: []string{"a", "b"}}, map[string]stubEngine{"a": fails, "b": works},
			"probe a, start a, probe b, start b", []string{"b"}, nil},
		{"none", choice{first: []string{"a", "b"}}, map[string]stubEngine{"a": missing, "b": fails},
			"probe a, probe b, start b", nil, []string{"no local back end", "a: needs a thing", "b: no answer", dynamoVariable}},
		{"all", choice{all: []string{"a", "b"}}, map[string]stubEngine{"a": works, "b": works},
			"probe a, probe b, start a, start b", []string{"a", "b"}, nil},
		{"all, one missing", choice{all: []string{"a", "b"}}, map[string]stubEngine{"a": works, "b": missing},
			"probe a, probe b", nil, []string{"asked for", "b: needs a thing"}},
		{"the first and one more", choice{first: []string{"a", "b"}, also: "c"}, map[string]stubEngine{"a": works, "b": works, "c": works},
			"probe a, start a, probe c, start c", []string{"a", "c"}, nil},
		{"the first, one more missing", choice{first: []string{"a", "b"}, also: "c"}, map[string]stubEngine{"a": works, "b": works, "c": missing},
			"probe a, start a, probe c", nil, []string{"asked for", "c: needs a thing"}},
		{"all, one fails", choice{all: []string{"a", "b"}}, map[string]stubEngine{"a": fails, "b": works},
			"probe a, probe b, start a", nil, []string{"asked for", "a: no answer"}},
		{"nobody has a KMS", choice{first: []string{"a"}}, map[string]stubEngine{"a": works, localKMSName: works},
			"probe a, start a, probe local-kms, start local-kms", []string{"a", localKMSName}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			engines := map[string]engine{}
			for name, e := range test.engines {
				e.name, e.calls = name, &calls
				engines[name] = e
			}
			if engines[localKMSName] == nil {
				test.choice.kms = []endpoint{{"given", "http://127.0.0.1:2"}}
			}
			var said bytes.Buffer
			backends, err := (&project{root: t.TempDir(), out: &said}).start(t.Context(), test.choice, engines, nil)
			if got := strings.Join(calls, ", "); got != test.calls {
				t.Errorf("calls = %s, want %s", got, test.calls)
			}
			var started []string
			for _, b := range backends {
				started = append(started, b.Engine)
			}
			if !slices.Equal(started, test.started) {
				t.Errorf("started %v, want %v", started, test.started)
			}
			if _, unavailable := errors.AsType[*unavailableError](err); unavailable != (test.want != nil) {
				t.Errorf("error = %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want %q in it", err, want)
				}
			}
			for _, name := range test.started {
				if line := "local back end: " + name + " 1 (DynamoDB) at http://127.0.0.1:1: an emulator, not AWS\n"; !strings.Contains(said.String(), line) {
					t.Errorf("said %q, want %q", said.String(), line)
				}
			}
		})
	}
}

func TestStartGiven(t *testing.T) {
	var said bytes.Buffer
	p := &project{root: t.TempDir(), out: &said}
	c := choice{dynamo: []endpoint{{unnamed, "https://dynamodb.example"}}}
	if backends, err := p.start(t.Context(), c, nil, nil); err != nil || backends != nil {
		t.Errorf("start = %v, %v, want nothing", backends, err)
	}
	if !strings.Contains(said.String(), "perhaps AWS") {
		t.Errorf("said %q", said.String())
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	c.dynamo[0] = loopback("ministack", port)
	if _, err := p.start(t.Context(), c, nil, nil); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("error = %v, want that nobody answers", err)
	}
}

func TestStartInterruptedIsNoMissingEngine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var calls []string
	engines := map[string]engine{"a": stubEngine{name: "a", failed: ctx.Err(), calls: &calls}, "b": stubEngine{name: "b", calls: &calls}}
	_, err := (&project{root: t.TempDir(), out: &bytes.Buffer{}}).start(ctx, choice{first: []string{"a", "b"}}, engines, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want the context's", err)
	}
	if slices.Contains(calls, "probe b") {
		t.Errorf("calls = %v, want none after the end of the context", calls)
	}
}

func TestRosterSurvivesItsOwner(t *testing.T) {
	p := &project{root: t.TempDir(), out: &bytes.Buffer{}}
	left := startProcess(t, "sleep 60")
	dead := &roster{path: p.local("run", "1.json"), Owner: process{PID: 1, Started: "before"}}
	if err := dead.add(backend{Engine: "dynoxide", Process: left}); err != nil {
		t.Fatal(err)
	}
	used := startProcess(t, "sleep 60")
	mine, err := p.execRoster()
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.add(backend{Engine: "dynalite", Process: used}); err != nil {
		t.Fatal(err)
	}
	p.reap(t.Context())
	if left.alive() || !used.alive() {
		t.Errorf("alive after reap: of a dead run %v, of a living one %v", left.alive(), used.alive())
	}
	again := &roster{path: mine.path}
	if err := again.load(); err != nil || !reflect.DeepEqual(again, mine) {
		t.Errorf("read back %+v, %v, want %+v", again, err, mine)
	}
	if err := p.stopAll(mine); err != nil || used.alive() {
		t.Errorf("stop: %v, alive %v", err, used.alive())
	}
	if err := again.load(); err != nil {
		t.Errorf("file that is gone: %v", err)
	}
}

// A path in a file that anybody can edit must not get anything else removed.
func TestStopRemovesOnlyData(t *testing.T) {
	p := &project{root: t.TempDir(), out: &bytes.Buffer{}}
	if err := writeFile(p.local("log", "kept"), nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.local("log"), p.local("data", "..", "log"), p.local("data") + "/../log", p.local("data")} {
		if err := p.stop(backend{Engine: "x", Data: path}); err != nil {
			t.Error(err)
		}
		if tail := logTail(p.local("log", "kept")); strings.Contains(tail, "no such file") {
			t.Fatalf("stop removed %s", path)
		}
	}
}
