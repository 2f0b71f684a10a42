package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// An installation is an engine of fixed version in a folder of its own. It is complete iff the folder holds a stamp that
// says what this program would install now: the stamp is written last, so a run that was interrupted, a changed version
// and a project folder that was moved all lead to a new installation.
type installation struct {
	title  string     // for people: "dynoxide 3.2.0 with cargo (about 3 minutes)"
	folder string     // absolute
	files  []string   // whose content decides what is installed
	env    []string   // added to the environment
	steps  [][]string // commands, run in folder
	scrap  []string   // paths below folder that are not needed afterwards
	works  []string   // succeeds iff the installed program runs
}

const stampName = "stamp"

// ensure installs the engine unless that was done already. Runs in one project folder wait for each other.
func (p *project) ensure(ctx context.Context, in installation) error {
	if done, err := in.isComplete(ctx); done || err != nil {
		return err
	}
	unlock, err := p.lock(ctx, "install")
	if err != nil {
		return err
	}
	defer unlock()
	if done, err := in.isComplete(ctx); done || err != nil { // by the run that was waited for
		return err
	}
	if err := p.install(ctx, in); err != nil {
		return fmt.Errorf("installation of %s: %w", in.title, err)
	}
	return nil
}

func (p *project) install(ctx context.Context, in installation) error {
	stamp, err := in.stamp()
	if err != nil {
		return err
	}
	// The stamp goes first: if we crash while the folder is being removed, nobody takes the rest for an installation.
	if err := os.Remove(filepath.Join(in.folder, stampName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(in.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(in.folder, 0o755); err != nil {
		return err
	}
	log, err := p.openLog("install-" + filepath.Base(in.folder))
	if err != nil {
		return err
	}
	defer log.Close()
	begin := time.Now()
	p.say("installing %s in %s", in.title, in.folder)
	for _, step := range in.steps {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = in.folder, append(os.Environ(), in.env...), log, log
		if err := p.runStep(ctx, cmd, begin); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, logTail(log.Name()))
		}
	}
	if _, err := runTool(ctx, in.works); err != nil {
		return fmt.Errorf("%w\n%s", err, logTail(log.Name()))
	}
	for _, path := range in.scrap {
		if err := os.RemoveAll(filepath.Join(in.folder, path)); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(in.folder, stampName), stamp); err != nil {
		return err
	}
	p.say("installed in %v", time.Since(begin).Round(time.Second))
	return nil
}

// runStep runs one command of an installation in its own process group, and says now and then that it still runs.
func (p *project) runStep(ctx context.Context, cmd *exec.Cmd, begin time.Time) error {
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	beNice(cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	progress := time.NewTicker(30 * time.Second)
	defer progress.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			signalGroup(cmd.Process.Pid, syscall.SIGKILL)
			<-ended
			return context.Cause(ctx)
		case <-progress.C:
			p.say("  still installing after %v", time.Since(begin).Round(time.Second))
		}
	}
}

// isComplete says whether exactly this was installed, wholly, and still runs. The last matters where the language's
// runtime has been replaced underneath. It is an error, and no reason to install again, if that cannot be found out.
func (in installation) isComplete(ctx context.Context) (bool, error) {
	want, err := in.stamp()
	if err != nil {
		return false, err
	}
	got, err := os.ReadFile(filepath.Join(in.folder, stampName))
	if err != nil || string(got) != string(want) {
		return false, nil
	}
	_, err = runTool(ctx, in.works)
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return false, fmt.Errorf("check of %s: %w", in.folder, err)
	}
	return false, nil
}

// stamp tells everything that decides what is installed.
func (in installation) stamp() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintln(&b, in.folder, runtime.GOOS, runtime.GOARCH)
	for _, step := range in.steps {
		fmt.Fprintf(&b, "%q\n", step)
	}
	for _, file := range in.files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s %x\n", filepath.Base(file), sha256.Sum256(content))
	}
	return []byte(b.String()), nil
}
