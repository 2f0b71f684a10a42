package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// A recipe is an engine that is installed from a package registry and runs as a process of this machine.
type recipe struct {
	project *project
	name    string
	version string
	note    string
	kinds   []string // of services, all at one address
	tools   []tool
	abrupt  bool // see backend
	installation
	// command is what runs the engine at a loopback port; data is an empty folder of its own.
	command func(port int, data string) *exec.Cmd
}

var _ engine = (*recipe)(nil)

// startLimit is how long an engine may take until it answers.
const startLimit = 60 * time.Second

var errEnded = errors.New("process ended before it answered")

func (r *recipe) Probe(ctx context.Context) error {
	if done, err := r.isComplete(ctx); done || err != nil {
		return err // what installed it is not needed any more
	}
	for _, t := range r.tools {
		if err := t.probe(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *recipe) Start(ctx context.Context, started func(backend) error) (backend, error) {
	if err := r.project.ensure(ctx, r.installation); err != nil {
		return backend{}, err
	}
	const tries = 4
	var err error
	for range tries {
		var b backend
		if b, err = r.launch(ctx, started); err == nil {
			return b, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return backend{}, fmt.Errorf("start of %s %s: %w", r.name, r.version, err)
}

func (r *recipe) launch(ctx context.Context, started func(backend) error) (b backend, err error) {
	if err := os.MkdirAll(r.project.local("data"), 0o755); err != nil {
		return backend{}, err
	}
	data, err := os.MkdirTemp(r.project.local("data"), r.name+"-")
	if err != nil {
		return backend{}, err
	}
	b = backend{Engine: r.name, Data: data, Abrupt: r.abrupt}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.project.stop(b))
		}
	}()
	port, err := freePort()
	if err != nil {
		return b, err
	}
	log, err := r.project.openLog(r.name)
	if err != nil {
		return b, err
	}
	defer log.Close() // the engine has its own handle
	b.Log = log.Name()
	for _, kind := range r.kinds {
		b.Services = append(b.Services, service{
			Kind: kind, Title: r.name + " " + r.version, Note: r.note,
			endpoint: endpoint{Name: r.name, URL: fmt.Sprintf("http://127.0.0.1:%d", port)},
		})
	}
	cmd := r.command(port, data)
	cmd.Stdout, cmd.Stderr = log, log
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		return b, err
	}
	// If we crash here, the engine goes on unknown to anybody: the one moment in which that can happen.
	if b.Process, err = identify(cmd.Process.Pid); err == nil {
		err = started(b)
	}
	gone := make(chan struct{})
	go func() {
		cmd.Wait()
		close(gone)
	}()
	b.gone = gone
	if err != nil {
		return b, err
	}
	err = await(ctx, b.Services, gone, startLimit)
	if err == nil {
		err = checkListeners(b.Process.PID, port)
	}
	if errors.Is(err, errEnded) && portIsTaken(port) {
		err = errPortTaken
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\n%s", err, logTail(b.Log))
	}
	return b, err
}

// cleanEnvironment is what an engine gets of ours: not the variables that would point it to an account, a proxy or
// another emulator's settings.
func cleanEnvironment(data string, more ...string) []string {
	env := []string{"TMPDIR=" + data, "HOME=" + data, "LANG=C.UTF-8"}
	if path, ok := os.LookupEnv("PATH"); ok {
		env = append(env, "PATH="+path)
	}
	return append(env, more...)
}
