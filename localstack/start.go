package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// An unavailableError says that the command cannot be given the back ends it needs.
type unavailableError struct{ text string }

func (e *unavailableError) Error() string { return e.text }

// engines are all that can be chosen; their names are those in preference.
func (p *project) engines() map[string]engine {
	return map[string]engine{"docker": docker{p}, "ministack": ministack(p), "dynoxide": dynoxide(p), "dynalite": dynalite(p)}
}

// start starts what was chosen and introduces it, one line each. After an error nothing goes on that is not on record.
func (p *project) start(ctx context.Context, c choice, engines map[string]engine, started func(backend) error) ([]backend, error) {
	var backends []backend
	var err error
	switch {
	case len(c.dynamo) > 0:
		err = p.introduceGiven(ctx, c)
	case len(c.all) > 0:
		backends, err = p.startAll(ctx, c.all, engines, started)
	default:
		backends, err = p.startFirst(ctx, c.first, engines, started)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, b := range backends {
		for _, line := range b.lines() {
			p.say("%s", line)
		}
	}
	return backends, nil
}

// startAll probes all before it starts, and perhaps builds for minutes, the first.
func (p *project) startAll(ctx context.Context, names []string, engines map[string]engine, started func(backend) error) ([]backend, error) {
	var missing []string
	for _, name := range names {
		if err := engines[name].Probe(ctx); err != nil {
			missing = append(missing, fmt.Sprintf("\n  %s: %v", name, err))
		}
	}
	if len(missing) > 0 {
		return nil, &unavailableError{"a back end that was asked for cannot be had:" + strings.Join(missing, "")}
	}
	var backends []backend
	for _, name := range names {
		b, err := engines[name].Start(ctx, started)
		if err != nil {
			return nil, &unavailableError{fmt.Sprintf("a back end that was asked for cannot be had:\n  %s: %v", name, err)}
		}
		backends = append(backends, b)
	}
	return backends, nil
}

// startFirst goes on with the next if one cannot be had, and says why.
func (p *project) startFirst(ctx context.Context, names []string, engines map[string]engine, started func(backend) error) ([]backend, error) {
	var reasons []string
	for _, name := range names {
		err := engines[name].Probe(ctx)
		if err == nil {
			var b backend
			if b, err = engines[name].Start(ctx, started); err == nil {
				return []backend{b}, nil
			}
			if ctx.Err() == nil {
				p.say("%s cannot be had, trying the next: %v", name, err)
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		reasons = append(reasons, fmt.Sprintf("\n  %s: %v", name, err))
	}
	return nil, &unavailableError{"no local back end can be had; install what one of these needs, or give an endpoint in " +
		dynamoVariable + ":" + strings.Join(reasons, "")}
}

// introduceGiven tells what is used instead of a back end of ours. An address of this machine where nobody answers is
// an error: most likely it was left in the shell after down.
func (p *project) introduceGiven(ctx context.Context, c choice) error {
	for _, e := range c.dynamo {
		if !e.isLoopback() {
			p.say("local back end: none, %s gives %s at %s: not on this machine, perhaps AWS", dynamoVariable, e.Name, e.URL)
			continue
		}
		p.say("local back end: %s at %s, given in %s: an emulator, not AWS", e.Name, e.URL, dynamoVariable)
		if err := (service{Kind: "DynamoDB", endpoint: e}).answers(ctx); err != nil {
			return &unavailableError{fmt.Sprintf("%s at %s does not answer (unset %s %s to start a back end): %v",
				e.Name, e.URL, dynamoVariable, kmsVariable, err)}
		}
	}
	return nil
}

// found returns the endpoints that the command is told: what was given by hand stands before what was started.
func (c choice) found(backends []backend) []variable {
	dynamo, kms := c.dynamo, c.kms
	if len(dynamo) == 0 {
		dynamo = endpoints(backends, "DynamoDB")
	}
	if len(kms) == 0 {
		kms = endpoints(backends, "KMS")
	}
	return variables(os.Getenv, dynamo, kms)
}

// endedOnes is an error if an engine has ended while it was needed: whatever passed without it proves nothing.
func endedOnes(backends []backend) error {
	var errs []error
	for _, b := range backends {
		select {
		case <-b.gone: // never for containers: their channel is nil
			errs = append(errs, fmt.Errorf("%s has ended while the command ran\n%s", b.Engine, logTail(b.Log)))
		default:
		}
	}
	return errors.Join(errs...)
}
