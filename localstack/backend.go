package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An engine is a way to have local endpoints.
type engine interface {
	// Probe finds out, by running them, whether the tools that the engine needs are there. Its error is for people and
	// says what to install.
	Probe(ctx context.Context) error
	// Start installs what is missing, starts the engine and returns when every service of it has answered a real call.
	// After an error nothing of it runs. Each process is handed to started at once, before it is waited for, so that
	// it can be found should this one be killed.
	Start(ctx context.Context, started func(backend) error) (backend, error)
}

// A backend is a running engine: what it offers, and all that is needed to stop it, also by another process later.
type backend struct {
	Engine   string    `json:"engine"`
	Services []service `json:"services"`
	Process  process   `json:"process,omitzero"`  // leads a session and process group of its own
	Abrupt   bool      `json:"abrupt,omitempty"`  // is killed at once: there is nothing that it would have to tidy up
	Compose  string    `json:"compose,omitempty"` // project name of Docker Compose
	Data     string    `json:"data,omitempty"`    // folder to remove afterwards
	Log      string    `json:"log"`

	gone <-chan struct{} // closed when Process ends; nil in another process than the one that started it
}

// A service is one endpoint of a backend.
type service struct {
	Kind  string `json:"kind"`  // "DynamoDB" or "KMS"
	Title string `json:"title"` // what answers, with its version
	Note  string `json:"note,omitempty"`
	endpoint
}

// endpoints returns those of one kind.
func endpoints(backends []backend, kind string) []endpoint {
	var list []endpoint
	for _, b := range backends {
		for _, s := range b.Services {
			if s.Kind == kind {
				list = append(list, s.endpoint)
			}
		}
	}
	return list
}

// lines introduces a backend, one line for each address.
func (b backend) lines() []string {
	var lines []string
	for i := 0; i < len(b.Services); {
		s := b.Services[i]
		var kinds []string
		for ; i < len(b.Services) && b.Services[i].URL == s.URL; i++ {
			kinds = append(kinds, b.Services[i].Kind)
		}
		title := fmt.Sprintf("%s (%s)", s.Title, strings.Join(kinds, ", "))
		if s.Note != "" {
			title += " " + s.Note
		}
		lines = append(lines, fmt.Sprintf("local back end: %s at %s: an emulator, not AWS", title, s.URL))
	}
	return lines
}

// grace is how long a process may take to end by itself.
const grace = 5 * time.Second

// stop ends exactly what the backend says, if it still runs, and removes its data. It may be called again.
func (p *project) stop(b backend) error {
	// Not the run's context: that has ended by the time things are stopped.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if b.Compose != "" {
		errs = append(errs, p.composeDown(ctx, b.Compose))
	}
	if b.Process != (process{}) {
		patience := grace
		if b.Abrupt {
			patience = 0
		}
		errs = append(errs, b.Process.stop(ctx, patience))
	}
	// The path comes from a file that anybody can edit.
	if b.Data != "" && filepath.Dir(b.Data) == p.local("data") {
		errs = append(errs, os.RemoveAll(b.Data))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop of %s: %w", b.Engine, err)
	}
	return nil
}

// alive says whether the backend still runs, as far as this machine can tell.
func (b backend) alive(ctx context.Context) bool {
	if b.Process != (process{}) && !b.Process.alive() {
		return false
	}
	for _, s := range b.Services {
		if s.answers(ctx) != nil {
			return false
		}
	}
	return true
}
