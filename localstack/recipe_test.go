package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeRecipe starts this test binary as an engine; address makes the one it listens at out of the port it is told.
func fakeRecipe(t *testing.T, address func(port int) string) *recipe {
	t.Helper()
	p := &project{root: t.TempDir(), out: io.Discard}
	if err := os.MkdirAll(p.local("fake"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &recipe{
		project: p, name: "fake", version: "1", kinds: []string{"DynamoDB", "KMS"},
		installation: installation{title: "fake", folder: p.local("fake"), works: []string{"true"}},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = cleanEnvironment(data, fakeVariable+"="+address(port))
			return cmd
		},
	}
}

func atLoopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func TestStart(t *testing.T) {
	r := fakeRecipe(t, atLoopback)
	var recorded backend
	b, err := r.Start(t.Context(), func(b backend) error { recorded = b; return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer r.project.stop(b)
	if recorded.Process != b.Process || !b.alive(t.Context()) {
		t.Errorf("recorded %v, running %v", recorded.Process, b.Process)
	}
	if got := b.lines(); len(got) != 1 || !strings.HasPrefix(got[0], "local back end: fake 1 (DynamoDB, KMS) at http://127.0.0.1:") ||
		!strings.HasSuffix(got[0], ": an emulator, not AWS") {
		t.Errorf("lines = %q", got)
	}
	if err := endedOnes([]backend{b}); err != nil {
		t.Error(err)
	}
	if err := r.project.stop(b); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.Data); b.Process.alive() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("alive %v, data %v after stop", b.Process.alive(), err)
	}
	<-b.gone
	if err := endedOnes([]backend{b}); err == nil {
		t.Error("an engine that ended is not reported")
	}
}

func TestStartTriesAnotherPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tries := 0
	r := fakeRecipe(t, func(port int) string {
		if tries++; tries == 1 { // as if somebody had been faster
			taken.Close()
			taken, err = net.Listen("tcp", atLoopback(port))
		}
		return atLoopback(port)
	})
	b, startErr := r.Start(t.Context(), func(backend) error { return nil })
	if err != nil || startErr != nil {
		t.Fatal(err, startErr)
	}
	defer r.project.stop(b)
	if tries != 2 {
		t.Errorf("%d tries, want 2", tries)
	}
}

// An answer on the port proves nothing if it comes from another run's engine.
func TestStartNoticesStranger(t *testing.T) {
	stranger := fakeRecipe(t, atLoopback)
	other, err := stranger.Start(t.Context(), func(backend) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.project.stop(other)
	port, _ := strconv.Atoi(other.Services[0].URL[strings.LastIndexByte(other.Services[0].URL, ':')+1:])
	p := startProcess(t, "sleep 60")
	if err := checkListeners(p.PID, port); !errors.Is(err, errPortTaken) {
		t.Errorf("error = %v, want %v", err, errPortTaken)
	}
	if err := checkListeners(other.Process.PID, port); err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		name, want string
		address    func(int) string
	}{
		{"all addresses", "not a loopback address", func(port int) string { return "0.0.0.0:" + strconv.Itoa(port) }},
		{"ends", "fake engine: listen tcp4: ", func(int) string { return "127.0.0.1:none" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := fakeRecipe(t, test.address)
			var recorded backend
			_, err := r.Start(t.Context(), func(b backend) error { recorded = b; return nil })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(recorded.Data); recorded.Process.alive() || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("alive %v, data %v after a failed start", recorded.Process.alive(), err)
			}
		})
	}
}

func TestStartInterrupted(t *testing.T) {
	r := fakeRecipe(t, atLoopback)
	r.command = func(int, string) *exec.Cmd { return exec.Command("sleep", "60") }
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var recorded backend
	if _, err := r.Start(ctx, func(b backend) error { recorded = b; return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the context's", err)
	}
	if recorded.Process.PID == 0 || recorded.Process.alive() {
		t.Errorf("process %v still runs", recorded.Process)
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0050":                         "0.0.0.0:80",
		"00000000000000000000000001000000:1F90": "[::1]:8080",
		"0000000000000000FFFF00000100007F:1F90": "127.0.0.1:8080",
	} {
		if got, err := parseAddress(text); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s (on a little-endian machine)", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "0100007F", "0100007F:", "01:1F90", "XX00007F:1F90"} {
		if got, err := parseAddress(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}
