package lab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ErrNoProcess says that the function has no process: before the first invocation, or after a crash until the next.
var ErrNoProcess = errors.New("lab: function has no process")

// Kill kills the function's process with SIGKILL and returns when it is dead. The emulator lives.
func (e *Environment) Kill() error { return e.signal(sigKill) }

// Stop stops the function's process with SIGSTOP and returns when all its threads stand still. The emulator goes on,
// and kills it at its deadline as Lambda would.
func (e *Environment) Stop() error { return e.signal(sigStop) }

// Cont lets a stopped function go on.
func (e *Environment) Cont() error { return e.signal(sigCont) }

// StopEmulator stops the emulator and lets the function be: nobody enforces the deadline and nobody takes the answer,
// so the function can go on past its deadline, as a zombie does.
func (e *Environment) StopEmulator() error {
	if err := signal(e.emulator.Process, sigStop); err != nil {
		return fmt.Errorf("lab: stop the emulator: %w", err)
	}
	return nil
}

// ContEmulator lets a stopped emulator go on. If the deadline has passed, it kills the function then.
func (e *Environment) ContEmulator() error {
	if err := signal(e.emulator.Process, sigCont); err != nil {
		return fmt.Errorf("lab: continue the emulator: %w", err)
	}
	return nil
}

// PID returns the process id of the function's process.
func (e *Environment) PID() (int, error) {
	p, err := e.process()
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Release() }()
	return p.Pid, nil
}

func (e *Environment) signal(s syscall.Signal) error {
	p, err := e.process()
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if err := signal(p, s); err != nil {
		return fmt.Errorf("lab: %v: %w", s, err)
	}
	return nil
}

func (e *Environment) process() (*os.Process, error) {
	found, err := processesOf(e.executable, e.runtimeAPI)
	if err != nil {
		return nil, fmt.Errorf("lab: find the function's process: %w", err)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var pids []string
	for _, p := range found {
		pids = append(pids, fmt.Sprint(p.Pid))
		_ = p.Release()
	}
	if len(found) == 0 {
		return nil, ErrNoProcess
	}
	return nil, fmt.Errorf("lab: function has processes %s", strings.Join(pids, ", "))
}
