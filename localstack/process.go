package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is one that this tool has started, told by when it began from a later one with the same number. So a number
// that the system has given to somebody else meanwhile is never signalled, however old the file is that names it.
type process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// identify describes a running process.
func identify(pid int) (process, error) {
	started, _, err := beginning(pid)
	if err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return process{PID: pid, Started: started}, nil
}

// alive says whether this very process still runs. One that has ended and was not collected yet does not.
func (p process) alive() bool {
	started, ended, err := beginning(p.PID)
	return err == nil && !ended && started == p.Started
}

// stop ends a process and its group: with SIGTERM, and after patience with SIGKILL. A process that has ended already, or
// whose number belongs to another one by now, is left alone.
func (p process) stop(ctx context.Context, patience time.Duration) error {
	if !p.alive() {
		return nil
	}
	signalGroup(p.PID, syscall.SIGTERM)
	ended := p.ends(ctx, patience)
	// To the group also when its leader has ended just now: children that outlive it are ours too.
	signalGroup(p.PID, syscall.SIGKILL)
	if !ended && !p.ends(ctx, grace) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

func (p process) ends(ctx context.Context, within time.Duration) bool {
	late := time.After(within)
	for p.alive() {
		select {
		case <-late:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true
}

// beginning returns when a process began, in a form that no other process of this or any other boot has, and whether it
// has ended without being collected. See proc(5): stat has the state in field 3 and the start, in ticks, in field 22.
func beginning(pid int) (started string, ended bool, err error) {
	if pid <= 0 {
		return "", false, errors.New("no process")
	}
	fields, err := statFields(pid)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self/stat"); err == nil {
			return "", false, syscall.ESRCH
		}
		return beginningFromPS(pid)
	}
	if err != nil {
		return "", false, err
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid") // a container counts processes anew
	started = strings.Join([]string{strings.TrimSpace(string(boot)), namespace, fields[22]}, " ")
	return started, fields[3] == "Z" || fields[3] == "X", nil
}

// statFields returns the fields of /proc/PID/stat by their numbers in proc(5). The second is a name that may hold
// anything, so counting starts behind it.
func statFields(pid int) ([]string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("stat with %d fields", len(fields))
	}
	return append(make([]string, 3), fields...), nil // state, the first behind the name, is field 3
}

// beginningFromPS is for systems without /proc.
func beginningFromPS(pid int) (string, bool, error) {
	cmd := exec.Command("ps", "-o", "stat=", "-o", "lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	line, err := cmd.Output()
	state, started, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
	if err != nil || !ok {
		return "", false, syscall.ESRCH
	}
	return strings.TrimSpace(started), strings.HasPrefix(state, "Z"), nil
}
