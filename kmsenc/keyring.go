package kmsenc

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	maxScopes  = 1 << 10 // sealing keys kept: operations, or with PerTenant tenants of operations
	maxOpening = 1 << 12 // opening keys kept: one for each wrapped key in the records that are read
	tenantPart = maxOpening / 16

	maxHardAge = 24 * time.Hour
	flightTime = attempts*(callTimeout+longestPause) + time.Second
)

// keyring gives data keys and asks KMS for them as seldom as is safe. It starts no goroutine.
type keyring struct {
	mu               sync.Mutex
	clock            clock
	hard             time.Duration
	sealing, opening cache
}

func newKeyring(soft, hard time.Duration, perTenant bool) *keyring {
	r := &keyring{clock: newClock(), hard: hard}
	r.sealing = cache{soft: soft, limit: maxScopes, slots: make(map[string]*list.Element)}
	r.opening = cache{limit: maxOpening, slots: make(map[string]*list.Element)}
	if perTenant {
		r.opening.share = tenantPart
	}
	return r
}

// turn is what a caller has to do: use the key, or ask KMS as leader of a flight, or wait for another's flight, or give up.
type turn struct {
	key  *dataKey // held for the caller
	err  *Error
	lead *flight       // with a key: a refresh, and the key serves if it fails
	wait *flight       // of another caller
	now  time.Duration // when that was decided
}

// get returns a data key, held for the caller. Of many callers one asks KMS, on its own goroutine and under its own context.
// Whoever finds a key that is to be replaced asks in a hurry while the others go on with it; if there is no key, they wait, each
// as long as its own context lets it.
func (r *keyring) get(ctx context.Context, c *cache, n name, q question) (*dataKey, error) {
	for {
		if ctx.Err() != nil {
			return nil, over("", n.arn, ctx)
		}
		s, t := r.turn(c, n)
		switch {
		case t.err != nil:
			return nil, t.err
		case t.lead != nil:
			return r.fly(ctx, c, s, t, q)
		case t.key != nil:
			return t.key, nil
		}
		patience := time.NewTimer(t.wait.over - t.now)
		select {
		case <-t.wait.done:
		case <-patience.C:
		case <-ctx.Done():
		}
		patience.Stop()
	}
}

// turn looks at the slot.
func (r *keyring) turn(c *cache, n name) (*slot, turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.now()
	s := c.slot(n)
	t := turn{now: now}
	if s.key != nil && (now-s.key.born >= r.hard || s.key.spent()) {
		s.drop()
		s.until, s.failed = 0, 0 // there was time for a refresh; now there is none
	}
	flying := s.flight != nil && now < s.flight.over
	old := s.key != nil && c.soft > 0 && (now-s.key.born >= c.soft || s.key.worn())
	switch {
	case s.key == nil && flying:
		t.wait = s.flight
		return s, t
	case s.key == nil && now < s.until:
		t.err = s.err
		return s, t
	case s.key == nil, old && !flying && now >= s.until:
		t.lead = &flight{done: make(chan struct{}), over: now + flightTime}
		s.flight = t.lead
	}
	if s.key != nil {
		s.key.hold()
		t.key = s.key
	}
	c.used(s)
	return s, t
}

// fly asks KMS and lets the others know.
func (r *keyring) fly(ctx context.Context, c *cache, s *slot, t turn, q question) (*dataKey, error) {
	var fresh *dataKey
	var err *Error
	landed := false
	defer func() {
		if !landed { // the API panicked: the others must not wait for us
			r.land(c, s, t, nil, nil)
		}
	}()
	fresh, err = q.fetch(ctx, t.now, t.key != nil)
	if err != nil && err.Kind == ErrUnavailable && ctx.Err() != nil {
		r.land(c, s, t, nil, nil) // that says nothing about KMS
	} else {
		r.land(c, s, t, fresh, err)
	}
	landed = true
	switch {
	case err == nil:
		if t.key != nil {
			t.key.release()
		}
		return fresh, nil
	case t.key != nil && err.Kind == ErrUnavailable:
		return t.key, nil
	case t.key != nil:
		t.key.release()
	}
	return nil, err
}

// land ends a flight with a key, an error, or neither if its caller gave up.
func (r *keyring) land(c *cache, s *slot, t turn, fresh *dataKey, err *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(t.lead.done)
	if s.flight == t.lead {
		s.flight = nil
	} else if err != nil {
		return // another flight took over: what it finds counts
	}
	now := r.clock.now()
	switch {
	case fresh != nil:
		s.put(fresh)
		if c == &r.sealing { // what is sealed here opens here, without KMS
			r.opening.slot(name{fresh.opening, s.arn, s.scope}).put(fresh)
		}
	case err != nil:
		s.failed++
		s.err, s.until = err, now+pauseAfter(err, s)
		if err.Kind == ErrRefused {
			r.revoke(c, s, err)
		}
		if s.key == nil {
			c.useless(s)
		}
	}
}

// revoke drops what a refusal says must not be used any more: all keys of a KMS key that nobody can use, or those of the scope
// that was denied. What was prepared for an attempt keeps its data key: its result has to be recorded.
func (r *keyring) revoke(c *cache, s *slot, err *Error) {
	scope := func(x *slot) bool { return x.arn == s.arn && (err.unusable() || x.scope == s.scope) }
	r.opening.evict(scope)
	if c == &r.sealing || err.unusable() {
		r.sealing.evict(scope)
	}
}

// pauseAfter is how long KMS is not asked again, so that neither an outage nor a forged record becomes a storm of calls. A little
// chance keeps processes apart.
func pauseAfter(err *Error, s *slot) time.Duration {
	first, longest := 500*time.Millisecond, 5*time.Second
	switch {
	case s.key != nil && err.Kind == ErrUnavailable: // a refresh: there is time
		first, longest = 5*time.Second, 20*time.Second
	case err.Kind == ErrRefused:
		first, longest = time.Second, 10*time.Second
	case err.Kind == ErrTampered:
		first, longest = 2*time.Second, 5*time.Second
	}
	pause := min(longest, first<<min(s.failed-1, 10))
	return pause - time.Duration(rand.Int64N(int64(pause/4)))
}
