package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// startProcess starts a shell script that leads a session, and collects it when it ends.
func startProcess(t *testing.T, script string) process {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		p.stop(t.Context(), time.Second)
		cmd.Process.Kill()
		<-ended
	})
	return p
}

func TestStopEndsGroup(t *testing.T) {
	file := t.TempDir() + "/child"
	p := startProcess(t, "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & echo $! > "+file+".new; mv "+file+".new "+file+"; wait; wait")
	for late := time.After(10 * time.Second); ; {
		if _, err := os.Stat(file); err == nil {
			break
		}
		select {
		case <-late:
			t.Fatal("no child")
		case <-time.After(10 * time.Millisecond):
		}
	}
	child := readPID(t, file)
	if !p.alive() || !child.alive() {
		t.Fatal("not running")
	}
	if err := p.stop(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.alive() || !child.ends(t.Context(), 5*time.Second) {
		t.Error("still running after stop")
	}
	if err := p.stop(t.Context(), time.Second); err != nil {
		t.Errorf("stop again: %v", err)
	}
}

// An engine that has nothing to tidy up is not waited for.
func TestStopAbrupt(t *testing.T) {
	p := startProcess(t, "trap '' TERM; while :; do sleep 0.1; done")
	begin := time.Now()
	if err := (&project{root: t.TempDir()}).stop(backend{Engine: "x", Process: p, Abrupt: true}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); p.alive() || took >= grace {
		t.Errorf("alive %v after %v", p.alive(), took)
	}
}

// The number of a process on file may be somebody else's by now.
func TestStopSparesStrangers(t *testing.T) {
	stranger := startProcess(t, "sleep 60")
	recorded := process{PID: stranger.PID, Started: "long ago"}
	if recorded.alive() {
		t.Error("a stranger counts as ours")
	}
	if err := recorded.stop(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	if !stranger.alive() {
		t.Error("a stranger was stopped")
	}
	if (process{}).alive() || (process{PID: -1}).alive() {
		t.Error("no process counts as alive")
	}
}

func TestIdentify(t *testing.T) {
	first, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	again, err := identify(os.Getpid())
	if err != nil || again != first || !first.alive() {
		t.Errorf("identify = %v, then %v, %v", first, again, err)
	}
	if other := startProcess(t, "sleep 60"); other.Started == first.Started {
		t.Errorf("two processes began at %q", first.Started)
	}
	if _, err := exec.LookPath("ps"); err == nil {
		if _, ended, err := beginningFromPS(os.Getpid()); ended || err != nil {
			t.Errorf("ps: %v, %v", ended, err)
		}
	}
}
