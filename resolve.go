package idem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Verdict is what somebody established about a record whose outcome is unknown.
type Verdict struct {
	State   State           // Completed, Failed or Released
	Never   bool            // Failed, Released: it can no longer happen, so settle need not be waited for
	Result  json.RawMessage // Completed
	Failure [2]string       // Failed: type name and message of the error
	By, Why string          // required, at most 256 bytes each
	_       struct{}
}

// minResolved is how long a record that somebody decided about is kept at least.
const minResolved = 90 * 24 * time.Hour

// Resolve settles a record without knowing its operation's result type. It decides about what was seen: the record as the store
// returned it, whose At is when the question was asked. A record that changed since is left alone, with a [LostError]. Failed
// and Released are refused before the record's settle time is over, unless the verdict says Never.
func Resolve(ctx context.Context, store Store, sealer Sealer, seen Record, v Verdict) (Record, error) {
	if err := v.validate(); err != nil {
		return seen, &RequestError{seen.ID.Operation, err.Error()}
	}
	w := want{fence: seen.Fence, asked: seen.At, never: v.Never, verdict: Resolution{By: v.By, Why: v.Why, At: seen.At}}
	k, text := kindResult, []byte(v.Result)
	switch v.State {
	case Completed:
		w.what = sayDone
	case Failed:
		w.what, k = sayFailed, kindFailure
		text, _ = json.Marshal(failure{v.Failure[0], v.Failure[1]})
	case Released:
		w.what = sayNothing
	}
	if v.State != Released {
		seal, err := sealer.Prepare(ctx, scope(seen.ID))
		if err == nil {
			w.sealed.Fence = seen.Fence
			w.sealed.Bytes, err = seal(nil, bindingV1(seen.ID, seen.Fingerprint, k, seen.Fence), text)
		}
		if err != nil {
			return seen, &UnavailableError{ID: seen.ID.String(), Err: err}
		}
	}
	return act(ctx, store, seen, w)
}

func (v Verdict) validate() error {
	switch {
	case v.State != Completed && v.State != Failed && v.State != Released:
		return fmt.Errorf("Verdict.State is %v: want completed, failed or released", v.State)
	case v.By == "" || len(v.By) > 256 || v.Why == "" || len(v.Why) > 256:
		return errors.New("Verdict.By and Verdict.Why are required, at most 256 bytes each")
	case v.State == Completed && (len(v.Result) > maxResult || !json.Valid(v.Result)):
		return fmt.Errorf("Verdict.Result is not JSON of at most %d bytes", maxResult)
	case v.State == Failed && (v.Failure[0] == "" || len(v.Failure[0])+len(v.Failure[1]) > maxMessage):
		return fmt.Errorf("Verdict.Failure needs a type name, and at most %d bytes", maxMessage)
	}
	return nil
}

// Lapse moves a record on that nobody works on any more, without running anything: a lapsed one that may have begun becomes
// indeterminate, one that has not is released, one of an older generation is quarantined. Anything else is returned as it is.
func Lapse(ctx context.Context, store Store, seen Record) (Record, error) {
	return act(ctx, store, seen, want{what: sweep})
}

// act writes what is wanted of exactly the record that was seen.
func act(ctx context.Context, store Store, seen Record, w want) (Record, error) {
	id := seen.ID.String()
	g, err := store.Generation(ctx)
	if err != nil {
		return seen, &UnavailableError{ID: id, Err: err}
	}
	t := terms{id: seen.ID, generation: g, retain: max(seen.Retain, defaultRetain), now: time.Now()}
	if w.what != sweep {
		t.retain = max(seen.Retain, minResolved)
	}
	next, _, why := step(seen, w, t)
	switch why {
	case fine:
	case inDoubt:
		return seen, &RequestError{seen.ID.Operation, fmt.Sprintf("a run that nobody knows of may still act until %s: say Never, if it cannot, or wait", seen.Lease.Add(seen.Settle).UTC().Format(time.RFC3339))}
	case lost, known, stale:
		if w.what == sweep {
			return seen, nil
		}
		return seen, &LostError{ID: id, Fence: seen.Fence, State: seen.State}
	case foreign:
		return seen, &UnavailableError{ID: id, Err: errForeign}
	default:
		return seen, nil
	}
	next.Version = newVersion()
	e := engine{store: store}
	holder, err := e.write(ctx, seen, next, e.propose)
	switch {
	case err != nil:
		return seen, &UnavailableError{ID: id, Err: err}
	case holder.Version != next.Version && w.what != sweep:
		return holder, &LostError{ID: id, Fence: holder.Fence, State: holder.State}
	}
	return holder, nil
}
