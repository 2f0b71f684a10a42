//go:build !linux

package lab

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// An environment is found and watched through /proc, and the emulator is built for Linux only.

const (
	sigKill syscall.Signal = iota
	sigStop
	sigCont
)

func asGroup(*exec.Cmd) {}

func lockFile(string) (func(), error) { return nil, errors.ErrUnsupported }

func processesOf(os.FileInfo, string) ([]*os.Process, error) { return nil, errors.ErrUnsupported }

func signal(*os.Process, syscall.Signal) error { return errors.ErrUnsupported }

func end(*os.Process) {}
