package idem

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Verdict is what somebody established about a record whose outcome is unknown.
type Verdict struct {
	State   State           // Completed, Failed or Released
	Never   bool            // Failed, Released: it can no longer happen, so settle need not be waited for
	Result  json.RawMessage // Completed
	Type    string          // Failed: name of the error's type
	Message string          // Failed
	By, Why string          // required, at most 256 bytes each
	_       struct{}
}

// minResolved is how long a record that somebody decided about is kept at least.
const minResolved = 90 * 24 * time.Hour

// Resolve settles a record without knowing its operation's result type. It decides about what was seen: the record as the store
// returned it, whose At is when the question was asked. A [VerdictError] says that nothing was decided: the record changed since
// it was seen, is not in doubt, or the verdict comes too early (Failed and Released are refused before the record's settle
// time is over, unless it says Never). An [UnavailableError] that wraps [ErrAmbiguous] leaves open whether it was.
func Resolve(ctx context.Context, store Store, sealer Sealer, seen Record, v Verdict) (Record, error) {
	id := seen.ID.String()
	problem := v.problem()
	if problem == "" && seen.State != Indeterminate {
		problem = fmt.Sprintf("the record is %v, not indeterminate", seen.State)
	}
	if problem != "" {
		return seen, &VerdictError{ID: id, Problem: problem}
	}
	w := want{fence: seen.Fence, asked: seen.At, never: v.Never, verdict: Resolution{By: v.By, Why: v.Why, At: seen.At}}
	k, text := kindResult, []byte(v.Result)
	switch v.State {
	case Completed:
		w.what = sayDone
	case Failed:
		w.what, k = sayFailed, kindFailure
		text, _ = json.Marshal(failure{v.Type, v.Message}) // two strings always marshal
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
			return seen, &UnavailableError{ID: id, Err: err}
		}
	}
	holder, why, err := act(ctx, store, seen, w, max(seen.Retain, minResolved))
	switch {
	case err != nil:
		return seen, err
	case why == inDoubt:
		until := seen.Lease.Add(seen.Settle)
		return seen, &VerdictError{ID: id, Until: until, Problem: fmt.Sprintf("a run may still act until %s, and the question was asked before: ask again later, or say Never if it cannot", until.UTC().Format(time.RFC3339))}
	case why != fine:
		return holder, &VerdictError{ID: id, Problem: "the record has changed since it was seen, or is of an older generation"}
	}
	return holder, nil
}

func (v Verdict) problem() string {
	text := func(s string) bool { return s != "" && len(s) <= 256 && utf8.ValidString(s) }
	switch {
	case v.State != Completed && v.State != Failed && v.State != Released:
		return fmt.Sprintf("Verdict.State is %v: want completed, failed or released", v.State)
	case !text(v.By) || !text(v.Why):
		return "Verdict.By and Verdict.Why are required, at most 256 bytes of UTF-8 each"
	case v.State == Completed && (len(v.Result) > maxResult || !json.Valid(v.Result)):
		return fmt.Sprintf("Verdict.Result is not JSON of at most %d bytes", maxResult)
	case v.State == Failed && (v.Type == "" || len(v.Type)+len(v.Message) > maxMessage):
		return fmt.Sprintf("Verdict.Type is required; with Verdict.Message it has at most %d bytes", maxMessage)
	}
	return ""
}

// Lapse moves a record on that nobody works on any more, without running anything: a lapsed one that may have begun becomes
// indeterminate, one that has not is released, one of an older generation is quarantined. Anything else is returned as it is.
func Lapse(ctx context.Context, store Store, seen Record) (Record, error) {
	holder, _, err := act(ctx, store, seen, want{what: sweep}, max(seen.Retain, defaultRetain))
	return holder, err
}

// act writes what is wanted of exactly the record that was seen. The refusal is lost where somebody else was first.
func act(ctx context.Context, store Store, seen Record, w want, retain time.Duration) (Record, refusal, error) {
	unavailable := func(err error) (Record, refusal, error) {
		return seen, 0, &UnavailableError{ID: seen.ID.String(), Err: err}
	}
	g, err := store.Generation(ctx)
	if err != nil {
		return unavailable(err)
	}
	next, _, why := step(seen, w, terms{id: seen.ID, generation: g, retain: retain, now: time.Now()})
	switch why {
	case fine:
	case foreign:
		return unavailable(errForeign)
	default:
		return seen, why, nil
	}
	next.Version = newVersion()
	e := engine{store: store}
	holder, err := e.write(ctx, seen, next, e.propose)
	switch {
	case err != nil:
		return unavailable(err)
	case holder.Version != next.Version:
		return holder, lost, nil
	}
	return holder, fine, nil
}
