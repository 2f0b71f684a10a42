package idem

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Attempt is the running function's handle. A nil Attempt, as a handler gets that is called unguarded in a unit test, is valid
// and does nothing. Its methods may be called concurrently.
type Attempt struct {
	call        *call
	fence, life uint64

	mu      sync.Mutex
	rec     Record // as last seen
	started bool   // the function was called
	begun   bool   // Begin was called
	over    bool   // the function has returned
	late    bool   // after its context's deadline
}

// guard is what a context of a guarded function carries: its attempt, or none where a reconciler or a Commit runs.
type guard struct{ attempt *Attempt }

type guardKey struct{}

func guarded(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, guardKey{}, guard{a})
}

// nested says that a guarded call is around this one.
func nested(ctx context.Context) bool { return ctx.Value(guardKey{}) != nil }

// AttemptFrom returns the handle of the innermost guarded call that ctx belongs to, or nil. It is nil, too, in a reconciler.
func AttemptFrom(ctx context.Context) *Attempt {
	g, _ := ctx.Value(guardKey{}).(guard)
	return g.attempt
}

const maxNote = 1 << 10 // bytes of JSON

var (
	errTaken = errors.New("somebody took the key over, or it is in doubt")
	errOver  = errors.New("the attempt is over")
)

// Begin says: from here on the effect may happen. If it returns an error the effect must not be begun; the function should
// return that error. It is refused when the attempt's time is over. Where it makes a write, under [Durable] or with a
// note that is not nil, it is refused as well when somebody took the key over, when its outcome is in doubt already, and
// when the write is not known to be stored. A note is saved as by Note, under Durable in the same write.
func (a *Attempt) Begin(ctx context.Context, note any) error {
	if a == nil {
		return nil
	}
	if err := a.begin(ctx, note); err != nil {
		return fmt.Errorf("idem: %s: begin refused, the effect must not happen: %w", a.call.label, err)
	}
	return nil
}

func (a *Attempt) begin(ctx context.Context, note any) error {
	w := want{what: begin, fence: a.fence}
	if note != nil {
		var err error
		if w.sealed, err = a.sealNote(note); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
		return errOver
	case ctx.Err() != nil:
		return ctx.Err()
	case left(a.call.runEnd) <= 0:
		return context.DeadlineExceeded
	}
	if note != nil || a.call.Begin == Durable && !a.begun {
		if err := a.save(ctx, w); err != nil {
			return err
		}
	}
	a.begun = true
	return nil
}

// Note saves, sealed, what a reconciler will need, such as an identifier that the provider gave. It is at most 1 KiB of JSON,
// replaces an earlier note, and is accepted as long as nobody took the key over. It costs one write.
func (a *Attempt) Note(ctx context.Context, v any) error {
	if a == nil {
		return nil
	}
	s, err := a.sealNote(v)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err = errOver; !a.over {
			err = a.save(ctx, want{what: note, fence: a.fence, sealed: s})
		}
	}
	if err != nil {
		return fmt.Errorf("idem: %s: note: %w", a.call.label, err)
	}
	return nil
}

func (a *Attempt) sealNote(v any) (Sealed, error) {
	b, err := encode(v)
	switch {
	case err != nil:
		return Sealed{}, fmt.Errorf("a note of type %T has no JSON form", v)
	case len(b) > maxNote:
		return Sealed{}, fmt.Errorf("the note has %d bytes: at most %d", len(b), maxNote)
	}
	return a.call.sealed(kindNote, a.fence, b)
}

// save writes what the running function wants. An answer that stays lost is an error: whether it is stored, nobody knows.
func (a *Attempt) save(ctx context.Context, w want) error {
	why, err := a.conclude(w, func(seen, next Record) (Record, error) {
		return a.call.writeBy(ctx, a.call.runEnd, seen, next, a.call.propose)
	})
	switch {
	case err != nil:
		return err
	case why == fine, why == already: // already: begun by a write of our own whose answer was lost
		return nil
	}
	return errTaken
}

// conclude proposes a want until the record has it, or refuses it for good.
func (a *Attempt) conclude(w want, write func(seen, next Record) (Record, error)) (refusal, error) {
	for range maxTurns {
		a.call.terms.now = time.Now()
		next, _, why := step(a.rec, w, a.call.terms)
		if why != fine {
			return why, nil
		}
		next.Version = newVersion()
		holder, err := write(a.rec, next)
		if err != nil {
			return fine, err
		}
		a.rec = holder
		if holder.Version == next.Version {
			return fine, nil
		}
	}
	return fine, errBusy
}

// ID is the operation and a digest of the key, as messages and events show them: for the function's own logs. It is empty for a nil
// Attempt.
func (a *Attempt) ID() string {
	if a == nil {
		return ""
	}
	return a.call.label
}

// DownstreamKey is a stable token for the provider's own idempotency key, 45 letters, digits and a dash. It is the same for every
// attempt and for every life of the key: a provider that remembers longer than Retain answers with the old effect. It is
// empty for a nil Attempt.
func (a *Attempt) DownstreamKey() string {
	if a == nil {
		return ""
	}
	return a.call.id.downstreamKey()
}

func (id ID) downstreamKey() string {
	d := id.Digest()
	k := digest("idem downstream key v1", d[:])
	return "idem-" + hex.EncodeToString(k[:20])
}

// Fence is a number that rises with every owner of the key over its whole life, also across expiry and restore: a system that
// refuses what comes with a lower fence than it has seen is safe from an attempt that goes on after its deadline.
func (a *Attempt) Fence() uint64 {
	if a == nil {
		return 0
	}
	return a.fence
}

// run calls the function. A panic is recorded and goes on; so does runtime.Goexit.
func (a *Attempt) run(ctx context.Context, fn func(context.Context) (product, error)) (p product, err error) {
	running, cancel := context.WithDeadline(guarded(ctx, a), a.call.runEnd)
	defer cancel()
	returned := false
	defer func() {
		a.mu.Lock()
		a.over, a.late = true, running.Err() == context.DeadlineExceeded
		a.mu.Unlock()
		if !returned {
			a.undecided(ctx, time.Now(), Panicked)
		}
	}()
	a.call.emit(ctx, a.call.label, a.call.start, Event{Kind: "Claimed", Fence: a.fence})
	a.started = true
	p, err = fn(running)
	returned = true
	return p, err
}
