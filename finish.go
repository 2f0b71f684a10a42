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
func (a *Attempt) finish(ctx context.Context, p product, err error) (answer, error) {
	ended := time.Now()
	if err == nil {
		return a.completed(ctx, ended, p)
	}
	own := bare(err)
	if nested(ctx) {
		own = hidden(err)
	}
	switch classOf(err) {
	case final:
		return a.failed(ctx, ended, own)
	case notApplied, neverApplied:
		a.nothingHappened(ctx, ended, Errored)
	case unknown:
		a.settle(ctx, ended, want{what: doubt, fence: a.fence, reason: Errored, said: true})
	default:
		reason := Errored
		if a.late && isDeadline(err) {
			reason = Deadline
		}
		a.undecided(ctx, ended, reason)
	}
	return answer{}, own
}

// isDeadline is false for an error whose methods panic.
func isDeadline(err error) (is bool) {
	defer func() { recover() }()
	return errors.Is(err, context.DeadlineExceeded)
}

// undecided records what ended without a word: nothing happened where the function was not called, or where the operation marks
// its begin and this attempt has not begun; else nobody knows.
func (a *Attempt) undecided(ctx context.Context, ended time.Time, reason Reason) {
	if !a.started || a.call.Begin != Ignored && !a.begun {
		a.nothingHappened(ctx, ended, reason)
		return
	}
	a.settle(ctx, ended, want{what: doubt, fence: a.fence, reason: reason})
}

// nothingHappened releases the key. An attempt that runs again what may have happened (Rerun) knows that only of itself.
func (a *Attempt) nothingHappened(ctx context.Context, ended time.Time, reason Reason) {
	w := want{what: release, fence: a.fence}
	if a.call.again {
		w = want{what: doubt, fence: a.fence, reason: reason, said: true}
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
	case why == fine, a.rec.State == Indeterminate && a.rec.Fence == a.fence: // somebody found it lapsed before
		e.Kind = "Indeterminate"
	case a.rec.State.terminal():
		e.Kind = "Conflict"
	default:
		e.Kind = "Lost"
	}
	a.call.emit(ctx, a.call.label, ended, e)
}

// completed records a success.
func (a *Attempt) completed(ctx context.Context, ended time.Time, p product) (answer, error) {
	c, unkept := a.call, p.unkept
	w := want{what: complete, fence: a.fence, life: a.life}
	if unkept == nil && len(p.raw) <= c.MaxResult {
		w.sealed, unkept = c.sealed(kindResult, a.fence, p.raw)
	}
	why, err := a.record(ctx, w)
	switch {
	case err != nil:
		c.emit(ctx, c.label, ended, Event{Kind: "NotRecorded", Fence: a.fence, Err: err})
		return answer{}, &NotRecordedError{ID: c.label, Raw: p.raw, Err: err}
	case why == known && !a.recorded(ctx, w.sealed):
		return a.conflict(ctx, ended, p.raw, nil)
	case why == fine || why == known: // known: it was applied, then rewritten by a tool before its answer came
		c.emit(ctx, c.label, ended, Event{Kind: "Completed", Fence: a.fence, Bytes: len(p.raw)})
		if unkept != nil {
			return answer{}, &UnreadableError{ID: c.label, Raw: p.raw, Err: unkept}
		}
		return answer{p.raw, Executed}, nil
	}
	held := a.rec
	raw := p.raw
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	err = a.leave(ctx, evidence{Result: &raw}, true)
	c.emit(ctx, c.label, ended, Event{Kind: "Lost", Fence: held.Fence, Err: err})
	return answer{}, &LostError{ID: c.label, Fence: held.Fence, State: held.State, Raw: p.raw, Err: err}
}

// failed records a final failure. The caller gets the function's own error, unless the key has another outcome.
func (a *Attempt) failed(ctx context.Context, ended time.Time, own error) (answer, error) {
	c := a.call
	s, err := c.sealFailure(a.fence, own)
	why := fine
	if err == nil {
		why, err = a.record(ctx, want{what: fail, fence: a.fence, life: a.life, sealed: s})
	}
	switch {
	case err != nil:
		c.emit(ctx, c.label, ended, Event{Kind: "NotRecorded", Fence: a.fence, Err: err})
	case why == known && !a.recorded(ctx, s):
		return a.conflict(ctx, ended, nil, own)
	case why == fine || why == known:
		c.emit(ctx, c.label, ended, Event{Kind: "Failed", Fence: a.fence})
	default:
		f := failureOf(own)
		err = a.leave(ctx, evidence{Failure: &f}, false)
		c.emit(ctx, c.label, ended, Event{Kind: "Lost", Fence: a.rec.Fence, Err: err})
	}
	return answer{}, own
}

// recorded says that s is the record's receipt.
func (a *Attempt) recorded(ctx context.Context, s Sealed) bool {
	r, err := a.call.fetched(ctx, a.rec)
	a.rec = r
	return err == nil && bytes.Equal(r.Receipt.Bytes, s.Bytes)
}

// conflict answers with the outcome that somebody else recorded for this life of the key. raw is the attempt's own result, or own
// its own final failure: what the caller gets as long as the other cannot be read.
func (a *Attempt) conflict(ctx context.Context, ended time.Time, raw json.RawMessage, own error) (answer, error) {
	c := a.call
	var ans answer
	r, err := c.fetched(ctx, a.rec)
	if err == nil {
		ans, err = c.replay(ctx, r, Replayed)
	}
	if u, ok := err.(*UnavailableError); ok { // which says that nothing ran
		err = own
		if own == nil {
			err = &NotRecordedError{ID: c.label, Raw: raw, Err: u.Err}
		}
	}
	kind := "Conflict"
	if err == nil && own == nil && bytes.Equal(ans.raw, raw) {
		kind = "Completed" // a reconciler said the same
	}
	c.emit(ctx, c.label, ended, Event{Kind: kind, Fence: a.rec.Fence, Bytes: len(ans.raw)})
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
	why, err := a.record(ctx, want{what: leave, fence: a.fence, life: a.life, fingerprint: a.call.fingerprint, sealed: s, happened: happened})
	if err == nil && why != fine {
		err = errNotLeft
	}
	return err
}

const maxEvidence = 4 << 10 // bytes

var errNotLeft = errors.New("no evidence could be left: the key is settled or has a new life")

func (c *call) sealFailure(fence uint64, err error) (Sealed, error) {
	text, _ := json.Marshal(failureOf(err)) // two strings always marshal
	return c.sealed(kindFailure, fence, text)
}

// record writes an outcome. It goes on although the caller has left, until the invocation's end, or, for an attempt that goes
// on after that, for as long as the reserve was. What is left after that is for the read after a lost answer.
func (a *Attempt) record(ctx context.Context, w want) (refusal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.call
	until := latest(c.end, time.Now().Add(c.reserve)).Add(-min(c.reserve/4, loadTimeout))
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	return a.conclude(w, func(seen, next Record) (Record, error) { return c.write(ctx, seen, next, c.propose) })
}
