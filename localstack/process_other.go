//go:build !linux && !darwin

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Process groups and file locks are needed to stop exactly what was started. Elsewhere (Windows: use WSL) only endpoints
// given in the environment work.
var errSystem = errors.New("local back ends need Linux or macOS; give an endpoint in " + dynamoVariable + " instead")

func ownSession(*exec.Cmd)                  {}
func ownGroup(*exec.Cmd)                    {}
func signalGroup(int, syscall.Signal) error { return errSystem }
func beNice(int)                            {}
func tryLock(*os.File) (bool, error)        { return false, errSystem }
func exitStatus(state *os.ProcessState) int { return state.ExitCode() }
