package idem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// finish records the one outcome of the attempt, and answers.
//
// If the process dies before the write is applied, the record stays pending and lapses into a doubt; if it dies after that,
// the next request is answered with the record. If the answer is lost, write asks; if somebody took the key over, the outcome
// is left as evidence.
func (a *Attempt) finish(ctx context.Context, raw json.RawMessage, err error) (answer, error) {
	ended := time.Now()
	if _, ok := err.(*encodeError); ok { // only encode gives it: the function itself succeeded
		return a.completed(ctx, ended, nil, err)
	}
	if err == nil {
		return a.completed(ctx, ended, raw, nil)
	}
	switch classOf(err) {
	case final:
		return a.failed(ctx, ended, bare(err))
	case notApplied, neverApplied:
		a.settle(ctx, ended, want{what: release, fence: a.fence})
	case unknown:
		a.settle(ctx, ended, want{what: doubt, fence: a.fence, reason: Errored})
	default:
		reason := Errored
		if a.late && errors.Is(err, context.DeadlineExceeded) {
			reason = Deadline
		}
		a.undecided(ctx, ended, reason)
	}
	return answer{}, bare(err)
}

// undecided records what ended without a word: nothing happened where the operation marks its begin and this attempt has
// not begun, else nobody knows.
func (a *Attempt) undecided(ctx context.Context, ended time.Time, reason Reason) {
	w := want{what: doubt, fence: a.fence, reason: reason}
	if a.call.Options.Begin != Ignored && !a.begun {
		w = want{what: release, fence: a.fence}
	}
	a.settle(ctx, ended, w)
}

// settle records an outcome that has no receipt. If that fails the record lapses into a doubt, which is never wrong.
func (a *Attempt) settle(ctx context.Context, ended time.Time, w want) {
	why, err := a.record(ctx, w)
	e := Event{Fence: a.rec.Fence, Reason: a.rec.Reason, Err: err}
	switch {
	case err != nil:
		e.Kind = "NotRecorded"
	case why == fine && a.rec.State == Released:
		e.Kind = "Released"
	case why == fine:
		e.Kind = "Indeterminate"
	case a.rec.State.terminal():
		e.Kind = "Conflict"
	default:
		e.Kind = "Lost"
	}
	a.call.emit(ctx, a.call.label, ended, e)
}

// completed records a success. encoding is why there is no result to keep, if there is none.
func (a *Attempt) completed(ctx context.Context, ended time.Time, raw json.RawMessage, encoding error) (answer, error) {
	c, err := a.call, encoding
	w := want{what: complete, fence: a.fence, life: a.life}
	if err == nil && len(raw) <= c.MaxResult {
		w.sealed, err = c.sealed(kindResult, a.fence, raw)
	}
	unreadable := err
	why, err := a.record(ctx, w)
	switch {
	case err != nil:
		c.emit(ctx, c.label, ended, Event{Kind: "NotRecorded", Fence: a.fence, Err: err})
		return answer{}, &NotRecordedError{ID: c.label, Raw: raw, Err: err}
	case why == known && !bytes.Equal(a.rec.Receipt.Bytes, w.sealed.Bytes):
		return a.conflict(ctx, ended, raw)
	case why == fine || why == known: // known: it was applied, then rewritten by a tool before its answer came
		c.emit(ctx, c.label, ended, Event{Kind: "Completed", Fence: a.fence, Bytes: len(raw)})
		if unreadable != nil {
			return answer{}, &UnreadableError{ID: c.label, Raw: raw, Err: unreadable}
		}
		return answer{raw, Executed}, nil
	}
	held := a.rec
	err = a.leave(ctx, evidence{Result: raw}, true)
	c.emit(ctx, c.label, ended, Event{Kind: "Lost", Fence: held.Fence, Err: err})
	return answer{}, &LostError{ID: c.label, Fence: held.Fence, State: held.State, Raw: raw, Err: err}
}

// failed records a final failure. The caller gets the function's own error, unless the key has another outcome.
func (a *Attempt) failed(ctx context.Context, ended time.Time, cause error) (answer, error) {
	c := a.call
	s, err := c.sealFailure(a.fence, cause)
	why := fine
	if err == nil {
		why, err = a.record(ctx, want{what: fail, fence: a.fence, life: a.life, sealed: s})
	}
	switch {
	case err != nil:
		c.emit(ctx, c.label, ended, Event{Kind: "NotRecorded", Fence: a.fence, Err: err})
	case why == known && !bytes.Equal(a.rec.Receipt.Bytes, s.Bytes):
		return a.conflict(ctx, ended, nil)
	case why == fine || why == known:
		c.emit(ctx, c.label, ended, Event{Kind: "Failed", Fence: a.fence})
	default:
		f := failureOf(cause)
		err = a.leave(ctx, evidence{Failure: &f}, false)
		c.emit(ctx, c.label, ended, Event{Kind: "Lost", Fence: a.rec.Fence, Err: err})
	}
	return answer{}, cause
}

// conflict answers with the outcome that somebody else recorded for this life of the key. raw is the attempt's own.
func (a *Attempt) conflict(ctx context.Context, ended time.Time, raw json.RawMessage) (answer, error) {
	ans, err := a.call.replay(ctx, a.rec, Replayed)
	kind := "Conflict"
	if err == nil && raw != nil && bytes.Equal(ans.raw, raw) {
		kind = "Completed" // a reconciler said the same
	}
	a.call.emit(ctx, a.call.label, ended, Event{Kind: kind, Fence: a.rec.Fence, Bytes: len(ans.raw)})
	return ans, err
}

// leave saves the outcome of an attempt that was replaced. What is too large for a record is left as the fact alone.
func (a *Attempt) leave(ctx context.Context, e evidence, happened bool) error {
	text, err := json.Marshal(e)
	if err != nil || len(text) > maxEvidence {
		text = []byte(`{"result":null}`)
	}
	s, err := a.call.sealed(kindEvidence, a.fence, text)
	if err != nil {
		return err
	}
	_, err = a.record(ctx, want{what: leave, fence: a.fence, life: a.life, fingerprint: a.call.fingerprint, sealed: s, happened: happened})
	return err
}

const maxEvidence = 4 << 10 // bytes

func (c *call) sealFailure(fence uint64, err error) (Sealed, error) {
	text, _ := json.Marshal(failureOf(err)) // two strings always marshal
	return c.sealed(kindFailure, fence, text)
}

// record writes an outcome. It goes on although the caller has left, until the invocation's end, or, for an attempt that goes
// on after that, for as long as the reserve was; the last quarter is for the read after a lost answer.
func (a *Attempt) record(ctx context.Context, w want) (refusal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.call
	until := latest(c.end, time.Now().Add(c.reserve)).Add(-c.reserve / 4)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	return a.conclude(w, func(seen, next Record) (Record, error) { return c.write(ctx, seen, next, c.propose) })
}
