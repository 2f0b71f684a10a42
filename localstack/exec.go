package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// exec runs a command between the start and the stop of the back ends and returns the exit status.
func (p *project) exec(ctx context.Context, args []string) (status int) {
	watchParent()
	// From here on, so that a signal in the moment before the command starts is passed to it, and not lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	c, err := choose(os.Getenv)
	if err != nil {
		return report(p.out, err)
	}
	p.reap(ctx)
	r, err := p.execRoster()
	if err != nil {
		return report(p.out, err)
	}
	defer func() {
		if err := p.stopAll(r); err != nil && status == 0 {
			status = report(p.out, err)
		}
	}()
	backends, err := p.start(ctx, c, p.engines(), r.add)
	if ctx.Err() != nil {
		return exitSignal + int(syscall.SIGINT)
	}
	if err != nil {
		return report(p.out, err)
	}
	status = p.command(args, c.found(backends), signals)
	if err := endedOnes(backends); err != nil {
		if said := report(p.out, err); status == 0 {
			status = said
		}
	}
	return status
}

// killAfter is how long the command has to end after a signal.
const killAfter = 10 * time.Second

// command runs the command, passes signals on to it and returns its exit status. The back ends run until it has ended,
// so that it can tidy up in them.
func (p *project) command(args []string, environment []variable, signals <-chan os.Signal) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	for _, v := range environment {
		cmd.Env = append(cmd.Env, v.name+"="+v.value)
	}
	// At a terminal the command stays in our group: it could not read from it otherwise, and Ctrl-C reaches it anyway.
	terminal := isTerminal(os.Stdin)
	if !terminal {
		ownGroup(cmd)
	}
	if err := cmd.Start(); err != nil {
		report(p.out, err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return exitNotFound
		}
		return exitNotRun
	}
	pass := func(s syscall.Signal) {
		if !terminal {
			signalGroup(cmd.Process.Pid, s)
		} else if s != syscall.SIGINT { // the terminal has sent that one to both
			cmd.Process.Signal(s)
		}
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	var kill <-chan time.Time
	for {
		select {
		case <-ended:
			return exitStatus(cmd.ProcessState)
		case s := <-signals:
			pass(s.(syscall.Signal))
			if kill == nil {
				kill = time.After(killAfter)
			}
		case <-kill:
			p.say("the command goes on %v after the signal: killing it", killAfter)
			pass(syscall.SIGKILL)
		}
	}
}

// isTerminal tells a terminal from the other character device that stands for an input, /dev/null.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// watchParent turns the end of go run into a SIGTERM to this process: go run does not pass signals on, so without it a
// killed go run would leave the command and the back ends running.
func watchParent() {
	program, err := os.Executable()
	if err != nil || !strings.Contains(filepath.ToSlash(program), "/go-build") {
		return
	}
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			time.Sleep(250 * time.Millisecond)
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Signal(syscall.SIGTERM)
		}
	}()
}
