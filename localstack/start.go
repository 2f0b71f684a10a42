package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// An unavailableError says that the command cannot be given the back ends it needs.
type unavailableError struct{ text string }

func (e *unavailableError) Error() string { return e.text }

// engines are all that can be chosen: those in preference, one for KMS alone, and the one for where nobody else has a KMS.
func (p *project) engines() map[string]engine {
	return map[string]engine{
		"docker": docker{p}, "ministack": ministack(p), "dynoxide": dynoxide(p), "dynalite": dynalite(p),
		localStackName: localStack(p), localKMSName: localKMS(p),
	}
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
		if err == nil && !c.complete(backends) {
			var more []backend
			more, err = p.startAll(ctx, []string{c.also}, engines, started)
			backends = append(backends, more...)
		}
	}
	if err == nil && len(backends) > 0 && len(c.kms)+len(endpoints(backends, "KMS")) == 0 {
		var more []backend
		more, err = p.startAll(ctx, []string{localKMSName}, engines, started)
		backends = append(backends, more...)
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

// complete says whether what is needed with the first that could be had is there.
func (c choice) complete(backends []backend) bool {
	return c.also == "" || has(endpoints(backends, "KMS"), c.also)
}

// found returns the endpoints that the command is told: what was given by hand stands in the place of what was started,
// except that LocalStack is there because it was asked for.
func (c choice) found(backends []backend) []variable {
	dynamo, kms := c.dynamo, c.kms
	if len(dynamo) == 0 {
		dynamo = endpoints(backends, "DynamoDB")
	}
	if len(kms) == 0 {
		kms = endpoints(backends, "KMS")
	} else if !has(kms, localStackName) {
		only := slices.DeleteFunc(slices.Clone(backends), func(b backend) bool { return b.Engine != localStackName })
		kms = slices.Concat(kms, endpoints(only, "KMS"))
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
