//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ownSession lets a background process survive the terminal it was started from, and lead a group of its own.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// ownGroup lets a command and all it starts be signalled together.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(pid int, s syscall.Signal) error { return syscall.Kill(-pid, s) }

// beNice leaves the machine to others while something is built.
func beNice(group int) { syscall.Setpriority(syscall.PRIO_PGRP, group, 10) }

// tryLock takes an exclusive lock that the system releases when this process ends, however that happens.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// exitStatus gives a shell's view of how a command ended.
func exitStatus(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return state.ExitCode()
}
