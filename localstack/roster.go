package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A roster is the file that says what has been started and must be stopped one day: it is written before anything is
// waited for, so that a run that was killed leaves nothing behind that the next cannot find.
type roster struct {
	path     string
	Owner    process   `json:"owner,omitzero"` // stops them at its end; none if up has started them
	Backends []backend `json:"backends"`
}

// execRoster is for the backends that end with this process.
func (p *project) execRoster() (*roster, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &roster{path: p.local("run", fmt.Sprintf("%d.json", self.PID)), Owner: self}, nil
}

// upRoster is for those that go on.
func (p *project) upRoster() *roster { return &roster{path: p.local("state.json")} }

// add puts a backend on record.
func (r *roster) add(b backend) error {
	r.Backends = append(r.Backends, b)
	return r.save()
}

// save writes the file; readers see the old or the new one.
func (r *roster) save() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(r.path, append(text, '\n'))
}

// load reads the file into r. A file that is not there is an empty roster.
func (r *roster) load() error {
	text, err := os.ReadFile(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return nil
}

// stopAll stops all backends, in the order opposite to their start, and forgets them. What cannot be stopped stays on
// record.
func (p *project) stopAll(r *roster) error {
	var left []backend
	var errs []error
	for i := len(r.Backends) - 1; i >= 0; i-- {
		if err := p.stop(r.Backends[i]); err != nil {
			left, errs = append(left, r.Backends[i]), append(errs, err)
		}
	}
	r.Backends = left
	if len(left) > 0 {
		return errors.Join(append(errs, r.save())...)
	}
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// reap stops what earlier runs had started and could not stop, because they were killed.
func (p *project) reap(ctx context.Context) {
	files, _ := filepath.Glob(p.local("run", "*.json"))
	for _, path := range files {
		if ctx.Err() != nil {
			return
		}
		r := &roster{path: path}
		if err := r.load(); err != nil {
			p.say("%v", err)
			continue
		}
		if len(r.Backends) == 0 || r.Owner.alive() { // empty: its owner has removed it just now
			continue
		}
		p.say("stopping what process %d has left running: %s", r.Owner.PID, strings.Join(r.names(), ", "))
		if err := p.stopAll(r); err != nil {
			p.say("%v", err)
		}
	}
}

func (r *roster) names() []string {
	var names []string
	for _, b := range r.Backends {
		names = append(names, b.Engine)
	}
	return names
}
