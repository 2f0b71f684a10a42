package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	sigKill = syscall.SIGKILL
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// asGroup starts cmd in a process group of its own. If this process dies, the kernel sends it SIGTERM, on which the
// emulator kills its function too.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// lockFile waits for an exclusive lock on the file, which ends with unlock or with this process.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != syscall.EINTR {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
}

// processesOf finds the processes that run the executable and were told the Lambda runtime API at the given address.
// No process but a function of the emulator at that address is both. Handles stay on the process that was looked at
// (pidfd), so a signal never reaches another one that got its number.
func processesOf(executable os.FileInfo, runtimeAPI string) ([]*os.Process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	is := func(dir string) bool {
		exe, err := os.Stat(dir + "/exe") // of a dead process there is none
		if err != nil || !os.SameFile(exe, executable) {
			return false
		}
		env, err := os.ReadFile(dir + "/environ")
		return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00AWS_LAMBDA_RUNTIME_API="+runtimeAPI+"\x00"))
	}
	var found []*os.Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !is(dir) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if !is(dir) { // it died, and the handle may be somebody else's
			_ = p.Release()
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

// signal sends the signal and waits until it has had its effect on all threads.
func signal(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(s); err != nil {
		return err
	}
	return await(p, s)
}

// end kills the process, which may be dying already, and waits until it is dead.
func end(p *os.Process) {
	_ = p.Signal(sigKill)
	_ = await(p, sigKill)
}

func await(p *os.Process, s syscall.Signal) error {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if hasTaken(p.Pid, s) {
			return nil
		}
	}
	return fmt.Errorf("process %d takes no %v", p.Pid, s)
}

func hasTaken(pid int, s syscall.Signal) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if err != nil {
			continue // this thread is gone
		}
		// The state is the field behind the name, which is in brackets and may hold anything.
		after := stat[bytes.LastIndexByte(stat, ')')+1:]
		if len(after) < 2 {
			continue
		}
		dead, stopped := after[1] == 'Z' || after[1] == 'X', after[1] == 'T'
		switch s {
		case sigKill:
			if !dead {
				return false
			}
		case sigStop:
			if !stopped && !dead {
				return false
			}
		case sigCont:
			if stopped {
				return false
			}
		}
	}
	return true
}
