package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// up starts back ends that outlive this process and prints, for the shell's eval, how to find them. If they run already
// they are used as they are.
func (p *project) up(ctx context.Context, stdout io.Writer) error {
	watchParent()
	c, err := choose(os.Getenv)
	if err != nil {
		return err
	}
	unlock, err := p.lock(ctx, "up")
	if err != nil {
		return err
	}
	defer unlock()
	p.reap(ctx)
	r := p.upRoster()
	if err := r.load(); err != nil {
		return err
	}
	backends, err := p.reuse(ctx, c, r)
	if err != nil {
		return err
	}
	if backends == nil {
		if backends, err = p.start(ctx, c, p.engines(), r.add); err != nil {
			return errors.Join(err, p.stopAll(r))
		}
		r.Backends = backends // without those that were tried and stopped
		if len(backends) > 0 {
			if err := r.save(); err != nil {
				return errors.Join(err, p.stopAll(r))
			}
		}
	}
	for _, v := range c.found(backends) {
		fmt.Fprintf(stdout, "export %s=%s\n", v.name, quote(v.value))
	}
	return nil
}

// reuse returns the back ends that are up and fit the choice, nil if there are none. What is left of others that have
// died is removed; others that run are an error, since somebody may be using them.
func (p *project) reuse(ctx context.Context, c choice, r *roster) ([]backend, error) {
	if len(r.Backends) == 0 || len(c.dynamo) > 0 {
		return nil, nil
	}
	if slices.ContainsFunc(r.Backends, func(b backend) bool { return !b.alive(ctx) }) {
		p.say("of what up had started (%s) not all runs any more: starting again", strings.Join(r.names(), ", "))
		return nil, p.stopAll(r)
	}
	for _, name := range c.all {
		if !slices.Contains(r.names(), name) {
			return nil, fmt.Errorf("%s is up, %s is not: run down first", strings.Join(r.names(), ", "), name)
		}
	}
	if !c.complete(r.Backends) {
		return nil, fmt.Errorf("%s is up, %s is not: run down first", strings.Join(r.names(), ", "), c.also)
	}
	for _, b := range r.Backends {
		for _, line := range b.lines() {
			p.say("%s (was up already)", line)
		}
	}
	return r.Backends, nil
}

// down stops what up has started.
func (p *project) down(ctx context.Context) error {
	unlock, err := p.lock(ctx, "up")
	if err != nil {
		return err
	}
	defer unlock()
	p.reap(ctx)
	r := p.upRoster()
	if err := r.load(); err != nil {
		return err
	}
	if len(r.Backends) == 0 {
		p.say("nothing is up")
		return nil
	}
	names := strings.Join(r.names(), ", ")
	if err := p.stopAll(r); err != nil {
		return err
	}
	p.say("stopped %s; in the shell: unset %s %s", names, dynamoVariable, kmsVariable)
	return nil
}

// status tells what up has started and whether it answers. It is an error if not all does.
func (p *project) status(ctx context.Context) error {
	r := p.upRoster()
	if err := r.load(); err != nil {
		return err
	}
	if len(r.Backends) == 0 {
		return errors.New("nothing is up")
	}
	dead := 0
	for _, b := range r.Backends {
		state := "answers"
		if !b.alive(ctx) {
			state = "does not answer, see " + b.Log
			dead++
		}
		for _, line := range b.lines() {
			p.say("%s: %s", line, state)
		}
	}
	if dead > 0 {
		return fmt.Errorf("%d of %d back ends down", dead, len(r.Backends))
	}
	return nil
}

// quote makes one word of the shell's.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
