package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
)

// patience is how long one call goes on. The SDK's own retries are off: they know neither how long a claim may take nor that a
// repeated conditional write meets its own item, and they repeat a throttled request too slowly for a function of three seconds.
type patience struct {
	attempts int           // 0: until the context is done
	fast     time.Duration // first back-off
	fastMax  time.Duration
	slow     time.Duration // first back-off of a throttled request
	slowMax  time.Duration
	wire     time.Duration // what one attempt takes beyond Options.AttemptTimeout, because of its size

	again func(context.Context) error // asked before every attempt but the first; an error ends the call
}

var (
	// Nothing has run yet: better to refuse soon than to run out of time.
	claiming = patience{attempts: 3, fast: 10 * time.Millisecond, fastMax: 50 * time.Millisecond, slow: 50 * time.Millisecond, slowMax: 200 * time.Millisecond}

	// Something may have happened that only this write tells: go on as long as the caller has time.
	recording = patience{fast: 20 * time.Millisecond, fastMax: 400 * time.Millisecond, slow: 50 * time.Millisecond, slowMax: 400 * time.Millisecond}
)

func patienceFor(s idem.State) patience {
	if s == idem.Pending {
		return claiming
	}
	return recording
}

// with is p for a request of n bytes, on a network that carries a megabyte a second.
func (p patience) with(n int) patience {
	p.wire = time.Duration(n) * time.Microsecond
	return p
}

// pause before the attempt after n, with jitter over its upper half.
func (p patience) pause(n int, at pace) time.Duration {
	d, limit := p.fast, p.fastMax
	if at == slow {
		d, limit = p.slow, p.slowMax
	}
	d = min(d<<min(n-1, 10), limit)
	return d/2 + rand.N(d/2)
}

// errAttemptTimeout is one attempt's; the caller's context is not done.
var errAttemptTimeout = errors.New("no answer in time")

// run sends one request until there is a definite answer, patience is at an end or ctx is done. The same request, with the same
// version in it, is sent every time. It returns nil if the last answer was a success, a *callError otherwise.
//
// Doubt adds up: one attempt that may have been applied leaves the call unclear, whatever later attempts that were rejected
// without being looked at (throttled, not connected) say. Only an answer about the item itself ends the doubt. A success or a
// refusal was decided on the item as it is, by the service that orders all writes to it:
//
//   - a success: this write is applied. An earlier attempt of it that still arrives is refused, since the item then carries our
//     version, and not the one that was seen (or nothing).
//   - refused, the item carries our version: an earlier attempt was applied.
//   - a Swap refused, another version or no item: the version seen is gone, and as versions are random it never comes back; so no
//     attempt of ours can be applied any more. Whether one was, and was replaced since, does not matter: the record is not ours.
//   - a Create refused, another version: some item has the key. A late attempt could be applied only once that item is gone. Items
//     go by TTL alone, after their Expires; if that happens within the minutes that a signed request lives, it leaves a pending
//     record for which nothing ran and nothing will, and which becomes indeterminate: a false alarm, never a second effect.
func (s *Store) run(ctx context.Context, call string, p patience, send func(context.Context, func(*dynamodb.Options)) error) *callError {
	e := &callError{call: call, class: answerUnsent}
	for {
		if err := ctx.Err(); err != nil {
			e.done = err
			return e
		}
		if e.attempts > 0 && p.again != nil {
			if err := p.again(ctx); err != nil {
				e.err, e.class = err, answerBarred
				return e
			}
		}
		e.attempts++
		e.class, e.err = s.attempt(ctx, s.timeout+p.wire, send)
		switch e.class.effect {
		case applied:
			return nil
		case refused:
			return e
		case unclear:
			e.ambiguous = true
		}
		if err := ctx.Err(); err != nil {
			e.done = err
			return e
		}
		if e.class.pace == never || e.attempts == p.attempts {
			return e
		}
		if err := sleep(ctx, p.pause(e.attempts, e.class.pace)); err != nil {
			e.done = err
			return e
		}
	}
}

// attempt sends the request once.
func (s *Store) attempt(ctx context.Context, timeout time.Duration, send func(context.Context, func(*dynamodb.Options)) error) (class, error) {
	var w watch
	one, cancel := context.WithTimeout(w.trace(ctx), timeout)
	defer cancel()
	client := s.conns.use(s.now())
	err := send(one, func(o *dynamodb.Options) { w.install(o, client) })
	s.conns.used(s.now())
	if err != nil && one.Err() != nil && ctx.Err() == nil && isContext(err) {
		err = errAttemptTimeout
	}
	return classify(err, w.unsent()), err
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// lastPause is too little time for another attempt.
const lastPause = 2 * time.Millisecond

// sleep takes at most half of the time that is left, so that the last attempt is not given away to waiting for it.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left < lastPause {
			return context.DeadlineExceeded
		}
		d = min(d, left/2)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
