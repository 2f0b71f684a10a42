package idem

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	claimTimeout = 3 * time.Second // for one write of a claim, repeats by the store included
	maxTurns     = 16              // how often one request goes on with a record that changed under it
	firstPause   = 50 * time.Millisecond
	lastPause    = time.Second
)

// proposal writes next over what was seen, and returns who holds the key then.
type proposal func(ctx context.Context, seen, next Record) (Record, error)

// claim goes on until this request owns the key (Executed), or has a terminal record to answer with, or is refused. commit is
// for Commit alone: it writes the receipt together with the effect, and then Executed means that both are there.
//
// If the process dies after the claim was applied, the record is pending until its lease ends; if the answer was lost and
// stays lost, nothing runs. A request that arrives twice is refused by the record that the first one left.
func (c *call) claim(ctx context.Context, commit proposal) (Record, Outcome, error) {
	var (
		seen    = Record{ID: c.id} // a guess; the store's refusal tells better in the same request
		claims  = want{what: claim, fingerprint: c.fingerprint}
		want    = claims
		waiting = waiting{until: c.start.Add(c.Wait)}
	)
	for turn := 0; turn < maxTurns; turn++ {
		c.terms.now = time.Now()
		next, move, why := step(seen, want, c.terms)
		switch why {
		case fine:
		case known:
			return seen, Replayed, nil
		case lost: // a verdict that came too late: see what the record says now
			want = claims
			continue
		case inProgress:
			if !waiting.next(ctx, c.runEnd) {
				if err := ctx.Err(); err != nil { // the caller's own end, not the owner's
					return seen, 0, c.unavailable(ctx, "Refused", err)
				}
				return seen, 0, c.refused(ctx, seen, why, nil)
			}
			seen, turn = Record{ID: c.id}, 0 // waiters go back through the claim path, nobody inherits a run
			continue
		default:
			return seen, 0, c.refused(ctx, seen, why, nil)
		}
		settles := want.what == sayDone || want.what == sayFailed
		if err := c.tooLate(ctx); err != nil && !settles {
			return seen, 0, c.unavailable(ctx, "Refused", err)
		}
		propose := c.propose
		if move == tx {
			if err := c.compose(ctx, &next); err != nil {
				return seen, 0, err
			}
			propose = commit
		}
		next.Version = newVersion()
		var holder Record
		var err error
		if settles { // what the reconciler knows is worth the reserve, and is recorded though the caller has left
			holder, err = c.writeBy(context.WithoutCancel(ctx), c.end, seen, next, propose)
		} else {
			holder, err = c.writeBy(ctx, c.runEnd, seen, next, propose)
		}
		switch {
		case err != nil && move == tx && classOf(err) == notApplied:
			return seen, 0, hidden(err) // about the caller's own writes
		case err != nil:
			return seen, 0, c.failedWrite(ctx, err)
		}
		again := move == t7 && want.what == claim && seen.State.open() && seen.Begun
		seen = holder
		if holder.Version != next.Version {
			continue
		}
		switch move {
		case tx:
			return seen, Executed, nil
		case t1, t7:
			if want.what == sayNothing {
				c.emit(ctx, c.label, c.start, Event{Kind: "Reconciled", Fence: seen.Fence})
			}
			c.again = again
			return seen, Executed, nil
		case t4:
			if want, err = c.ask(ctx, seen); err != nil {
				return seen, 0, err
			}
		case t6:
			if seen.State.terminal() {
				return seen, Reconciled, nil
			}
			want = claims
		default: // t3, t9
			c.emitDoubt(ctx, seen)
		}
	}
	return seen, 0, c.unavailable(ctx, "StoreErrors", errBusy)
}

// writeBy is write with a bound. A receipt may be large and take what there is.
func (c *call) writeBy(ctx context.Context, end time.Time, seen, next Record, propose proposal) (Record, error) {
	limit := max(left(end), 0)
	if !next.State.terminal() {
		limit = min(limit, claimTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.write(ctx, seen, next, propose)
}

// failedWrite is why a claim was not written. A store that refuses a generation which is no longer the table's says that
// the same record is no use; the same request is, under the new one.
func (c *call) failedWrite(ctx context.Context, err error) error {
	if !retryable(err, true) {
		if g, gerr := c.store.Generation(ctx); gerr == nil && g.Number != c.terms.generation.Number {
			err = errAdopted
		}
	}
	return c.unavailable(ctx, "StoreErrors", err)
}

// refused turns a refusal into the error that says so.
func (c *call) refused(ctx context.Context, r Record, why refusal, cause error) error {
	switch why {
	case inProgress:
		c.emit(ctx, c.label, c.start, Event{Kind: "InProgress", Fence: r.Fence})
		return &InProgressError{ID: c.label, Until: r.Lease, After: r.Lease.Sub(r.time(c.terms))}
	case mismatch:
		c.emit(ctx, c.label, c.start, Event{Kind: "Mismatch", Fence: r.Fence})
		return &MismatchError{c.label}
	case inDoubt:
		c.emitDoubt(ctx, r)
		return c.indeterminate(r, cause)
	case stale:
		return c.unavailable(ctx, "StoreErrors", errAdopted)
	}
	return c.unavailable(ctx, "StoreErrors", errForeign)
}

// emitDoubt is once per request: where a doubt arose, or where it refused the request.
func (c *call) emitDoubt(ctx context.Context, r Record) {
	if !c.doubted {
		c.emit(ctx, c.label, c.start, Event{Kind: "Indeterminate", Fence: r.Fence, Reason: r.Reason})
		c.doubted = true
	}
}

// indeterminate tells what is known without opening anything, and nothing that the caller does not have.
func (c *call) indeterminate(r Record, cause error) error {
	e := &IndeterminateError{ID: c.label, Doubt: Doubt{Reason: r.Reason, Since: r.Since, Fence: r.Fence, DownstreamKey: c.id.downstreamKey()}, Err: cause}
	switch {
	case c.terms.tx:
	case c.Recover.kind == reconcile:
		e.After = max(r.AskAfter.Sub(r.time(c.terms)), time.Second)
	case c.Recover.kind == rerun && (r.At.IsZero() || r.rerunnable(c.Recover.within)): // the answer told no time, or Look asks
		e.After = time.Second
	}
	return e
}

// ask asks the reconciler about a record that this request marked as being asked about. The answer counts as of the store's
// time in the answer to that mark: what happens between question and verdict does not make it any truer.
//
// If the process dies here the record stays indeterminate, and is asked about again after the pause.
func (c *call) ask(ctx context.Context, r Record) (want, error) {
	d, err := c.doubt(ctx, r)
	if err != nil {
		return want{}, c.unavailable(ctx, "KeyErrors", err)
	}
	asking, cancel := context.WithDeadline(guarded(ctx, nil), c.runEnd)
	defer cancel()
	p, err := c.Recover.ask(asking, d)
	w := want{fence: r.Fence, asked: r.At, fingerprint: c.fingerprint, verdict: Resolution{By: "reconciler", At: r.At}}
	switch classOf(err) {
	case final:
		w.what, w.never = sayFailed, true
		w.sealed, err = c.sealFailure(r.Fence, bare(err))
	case neverApplied:
		w.what, w.never, w.run, err = sayNothing, true, true, nil
	case notApplied:
		w.what, w.run, err = sayNothing, true, nil
	default:
		if err != nil {
			return w, c.refused(ctx, r, inDoubt, hidden(err))
		}
		w.what = sayDone
		if p.unkept == nil && len(p.raw) <= c.MaxResult {
			w.sealed, err = c.sealed(kindResult, r.Fence, p.raw)
		}
	}
	if err != nil {
		return w, c.unavailable(ctx, "KeyErrors", err)
	}
	return w, nil
}

// doubt opens what was saved about an indeterminate record. Evidence from before this life proves nothing.
func (c *call) doubt(ctx context.Context, r Record) (d Doubt, err error) {
	d = Doubt{Tenant: c.id.Tenant, Reason: r.Reason, Since: r.Since, Fence: r.Fence, DownstreamKey: c.id.downstreamKey(), Request: &c.request}
	if !r.Note.empty() {
		if d.Note, err = open(ctx, c.sealer, r, kindNote, r.Note); err != nil {
			return d, err
		}
	}
	if !r.Evidence.empty() && r.Evidence.Fence >= r.Life {
		d.Evidence, err = open(ctx, c.sealer, r, kindEvidence, r.Evidence)
	}
	return d, err
}

// waiting is a duplicate's patience.
type waiting struct {
	until time.Time
	pause time.Duration
}

// next waits a little, with jitter so that a crowd of duplicates spreads. It is false when the patience is over.
func (w *waiting) next(ctx context.Context, runEnd time.Time) bool {
	w.pause = min(max(2*w.pause, firstPause), lastPause)
	d := w.pause/2 + rand.N(w.pause/2)
	if wake := time.Now().Add(d); wake.After(w.until) || wake.After(runEnd.Add(-minRun)) {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errAdopted = errors.New("the table was adopted anew meanwhile")
