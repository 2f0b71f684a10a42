package idem

import (
	"context"
	"encoding/hex"
	"encoding/json"
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

	mu    sync.Mutex
	rec   Record // as last seen
	begun bool   // Begin was called
	over  bool   // the function has returned
	late  bool   // after its context's deadline
}

type attemptKey struct{}

// AttemptFrom returns the handle of the innermost guarded call that ctx belongs to, or nil.
func AttemptFrom(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

const maxNote = 1 << 10 // bytes of JSON

var (
	errTaken = errors.New("somebody took the key over")
	errOver  = errors.New("the attempt is over")
)

// Begin says: from here on the effect may happen. If it returns an error the effect must not be begun; the function should
// return that error. It is refused when the attempt's time is over or somebody took the key over, and under [Durable] when the
// begin is not known to be stored. A note that is not nil is saved as by Note, in the same write under Durable.
func (a *Attempt) Begin(ctx context.Context, note any) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.begin(ctx, note); err != nil {
		return fmt.Errorf("idem: %s: begin refused, the effect must not happen: %w", a.call.label, err)
	}
	a.begun = true
	return nil
}

func (a *Attempt) begin(ctx context.Context, v any) error {
	w := want{what: begin, fence: a.fence}
	switch {
	case a.over:
		return errOver
	case ctx.Err() != nil:
		return ctx.Err()
	case time.Now().Round(0).After(a.call.runEnd.Round(0)): // the wall clock: a freeze stops the other one
		return context.DeadlineExceeded
	}
	if v != nil {
		var err error
		if w.sealed, err = a.sealNote(v); err != nil {
			return err
		}
		if a.call.Options.Begin != Durable || a.begun {
			w.what = note
		}
	} else if a.call.Options.Begin != Durable || a.begun {
		return nil
	}
	return a.save(ctx, w)
}

// Note saves, sealed, what a reconciler will need, such as an identifier that the provider gave. It is at most 1 KiB of JSON,
// replaces an earlier note, and is accepted as long as nobody took the key over. It costs one write.
func (a *Attempt) Note(ctx context.Context, v any) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return fmt.Errorf("idem: %s: note: %w", a.call.label, errOver)
	}
	s, err := a.sealNote(v)
	if err == nil {
		err = a.save(ctx, want{what: note, fence: a.fence, sealed: s})
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
	why, err := a.conclude(w, func(seen, next Record) (Record, error) { return a.call.writeShort(ctx, seen, next, a.call.propose) })
	switch {
	case err != nil:
		return err
	case why == fine || why == already && w.sealed.empty():
		return nil
	case why == already: // begun by a write of our own whose answer was lost; the note may not be in it
		return a.save(ctx, want{what: note, fence: w.fence, sealed: w.sealed})
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
func (a *Attempt) run(ctx context.Context, fn func(context.Context) (json.RawMessage, error)) (raw json.RawMessage, err error) {
	running, cancel := context.WithDeadline(context.WithValue(ctx, attemptKey{}, a), a.call.runEnd)
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
	raw, err = fn(running)
	returned = true
	return raw, err
}
