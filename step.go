package idem

import "time"

// what somebody wants of a record.
type what uint8

const (
	claim      what = iota + 1 // run the function, or learn why not
	sweep                      // move the record on without running anything
	begin                      // the owner: effects may happen from here on
	note                       // the owner: save a note
	complete                   // the owner: it happened
	fail                       // the owner: a final failure, nothing happened
	release                    // the owner: nothing happened
	doubt                      // the owner: nobody knows
	sayDone                    // who asked: it happened
	sayFailed                  // who asked: a final failure, nothing happened
	sayNothing                 // who asked: nothing happened
	leave                      // an owner that was replaced: its outcome, as evidence
)

// want is what somebody wants of a record, with what only they know.
type want struct {
	what        what
	fingerprint [32]byte   // claim: of the request
	fence       uint64     // the owner's own; of the record that was asked about
	life        uint64     // the owner's own
	sealed      Sealed     // receipt, note or evidence
	reason      Reason     // doubt
	asked       time.Time  // verdicts: the store's clock when the question was asked
	never       bool       // verdicts: it can no longer happen
	run         bool       // sayNothing: go on to run as the new owner
	happened    bool       // leave: the evidence is of an effect
	said        bool       // doubt: the function said so itself, whether or not it marked its begin
	verdict     Resolution // verdicts: by whom and why
}

// terms are the same for everything that one caller wants.
type terms struct {
	id         ID
	generation Generation
	recovery   recovery
	durable    bool          // the operation marks its begin in the record
	tx         bool          // the effect is committed together with the receipt
	settle     time.Duration // of the operation
	within     time.Duration // Rerun: how long the downstream remembers keys
	retain     time.Duration
	lease      time.Time // end, if this caller becomes the owner
	issued     time.Time // of the key, zero if unknown
	now        time.Time // the caller's own clock: never decides, only makes Expires later
}

// move names a transition; DESIGN: "The protocol". The zero move is a refusal.
type move uint8

const (
	_  move = iota
	t1      // absent -> Pending
	t2      // Pending, Indeterminate -> Completed, Failed, by the owner
	t3      // Pending -> Indeterminate
	t4      // Indeterminate: being asked about
	t5      // Pending, Indeterminate -> Released, by the owner
	t6      // Indeterminate -> Completed, Failed, Released, by a verdict
	t7      // -> Pending, new owner
	t8      // begun, note saved
	t9      // -> Indeterminate: what a restored table may have forgotten
	te      // evidence saved
	tx      // -> Completed, together with the effect
)

// refusal says why nothing is to be written; fine is none.
type refusal uint8

const (
	fine       refusal = iota
	known              // terminal: answer with it
	inProgress         // somebody owns it
	inDoubt            // nobody knows
	lost               // not yours any more
	already            // nothing left to write
	mismatch           // another request under the same key
	stale              // the caller's generation is not the record's
	foreign            // a state that this version does not know
)

// Bounds of asking and of running again.
const (
	firstAskPause = 30 * time.Second
	lastAskPause  = 30 * time.Minute
	maxReruns     = 5 // attempts in one life under Rerun
)

// step is the whole protocol: from a record as the store returned it, to the record that is to replace it, or a refusal. It is
// pure; the version of what it returns is the caller's to choose. The exploration in explore_test.go runs this function.
//
// No time decides a write: it only chooses which one is proposed, and the store applies it only over the version seen. The
// time is r.At, the store's. Where that is zero nothing has lapsed, settled or expired.
func step(r Record, w want, t terms) (Record, move, refusal) {
	if r.State > Released {
		return r, 0, foreign
	}
	if r.State != 0 && r.Generation > t.generation.Number {
		return r, 0, stale
	}
	var (
		old     = r.State != 0 && r.Generation < t.generation.Number
		expired = r.expired()
		final   = r.State.terminal() && !expired
		mine    = r.Fence == w.fence
	)
	switch w.what {
	case claim, sweep:
		if w.what == claim && r.State != 0 && !expired && r.Fingerprint != w.fingerprint {
			return r, 0, mismatch // in every state, before anything else is told
		}
		return stepClaim(r, w, t, old, final)

	case begin:
		switch {
		case !mine || r.State != Pending: // not from Indeterminate: somebody may be asking whether anything happened
			return r, 0, lost
		case r.Begun && w.sealed.empty():
			return r, 0, already
		}
		r.Begun = true
		return saved(r, w), t8, fine

	case note:
		if mine && r.State.open() {
			return saved(r, w), t8, fine
		}
		return r, 0, lost

	case complete, fail:
		switch {
		case final && r.Life == w.life:
			return r, 0, known
		case mine && r.State.open() && r.Life == w.life: // a late owner's truth is welcome until somebody took over
			return closed(r, outcome(w), w, t), t2, fine
		}
		return r, 0, lost

	case release:
		if mine && r.State.open() {
			return closed(r, Released, w, t), t5, fine
		}
		return r, 0, lost

	case doubt:
		switch {
		case mine && r.State == Pending && (r.Begun || w.said):
			r.Begun = true
			return doubted(r, w.reason, t), t3, fine
		case mine && r.State == Pending:
			return closed(r, Released, w, t), t5, fine
		}
		return r, 0, already

	case sayDone, sayFailed, sayNothing:
		settled := !w.asked.IsZero() && w.asked.After(r.Lease.Add(max(r.Settle, t.settle)))
		switch {
		case final:
			return r, 0, known
		case r.State != Indeterminate || !mine || old: // an older generation's record is quarantined first
			return r, 0, lost
		case w.what != sayDone && !w.never && !settled:
			return r, 0, inDoubt
		}
		r.Resolved = w.verdict
		if w.what == sayNothing && w.run {
			return owned(r, w, t), t7, fine
		}
		return closed(r, outcome(w), w, t), t6, fine

	case leave:
		switch {
		case r.State == 0: // only a deletion by hand makes a record vanish within its life
			n := quarantined(r, w, t)
			n.Lease, n.Evidence = latest(n.Lease, t.lease), w.sealed
			return n, t9, fine
		case r.Life == w.life && (w.happened || r.Evidence.empty()) && (r.State.open() || r.State == Released):
			if r.State == Released && w.happened {
				r = doubted(r, Contradicted, t)
				r.Begun = true
			}
			r.Evidence = w.sealed // of an effect, it tells more than any other
			return r, te, fine
		}
		return r, 0, already
	}
	return r, 0, foreign
}

// stepClaim is what a claimant or a sweeper does with a record.
func stepClaim(r Record, w want, t terms, old, final bool) (Record, move, refusal) {
	var (
		runs   = w.what == claim
		free   = r.State == 0 || r.State == Released || r.State.terminal() && !final
		reruns = t.recovery == rerun && runs && !t.tx && r.rerunnable(t.within)
	)
	switch {
	case final:
		return r, 0, known
	case free && !runs:
		return r, 0, already
	case old && r.State.open(), free && (r.State == 0 || old) && t.doubtful(r.At):
		return quarantined(r, w, t), t9, fine
	case free && t.tx:
		n := owned(r, w, t)
		n.Begun = true
		return closed(n, Completed, w, t), tx, fine
	case free && r.State == 0:
		return owned(r, w, t), t1, fine
	case free:
		return owned(r, w, t), t7, fine
	case r.State == Pending && !r.lapsed():
		return r, 0, inProgress
	case r.State == Pending && !r.Begun && runs && !t.tx: // known to have done nothing: its begin will be refused
		return owned(r, w, t), t7, fine
	case r.State == Pending && !r.Begun:
		return closed(r, Released, w, t), t6, fine
	case reruns:
		n := owned(r, w, t)
		n.Begun = true // whatever this attempt does: the one before it may have happened
		return n, t7, fine
	case r.State == Pending:
		return doubted(r, Lapsed, t), t3, fine
	case t.recovery == reconcile && !t.tx && r.due():
		r.AskAfter = r.time(t).Add(min(firstAskPause<<min(r.Asks, 10), lastAskPause))
		r.Asks++
		return r, t4, fine // owner and fence stay: asking is not taking over
	}
	return r, 0, inDoubt
}

// outcome is the state that a want leads to.
func outcome(w want) State {
	switch w.what {
	case complete, sayDone:
		return Completed
	case fail, sayFailed:
		return Failed
	}
	return Released
}

// saved keeps a note, if there is one.
func saved(r Record, w want) Record {
	if !w.sealed.empty() {
		r.Note = w.sealed
	}
	return r
}

// closed ends the doubt. The record may be forgotten after its retention, but not before the lease of any owner it had has
// ended: the next owner's seed must be above all of them.
func closed(r Record, s State, w want, t terms) Record {
	r.State, r.Receipt = s, Sealed{}
	if s.terminal() {
		r.Receipt = w.sealed
	}
	r.AskAfter, r.Asks = time.Time{}, 0
	r.Retain = t.retain
	r.Expires = latest(latest(r.At, t.now).Add(t.retain), r.Lease)
	return r
}

// doubted opens a doubt; owner, fence and note stay.
func doubted(r Record, why Reason, t terms) Record {
	r.State, r.Reason, r.Since = Indeterminate, why, r.time(t)
	r.AskAfter, r.Asks = time.Time{}, 0
	r.Expires = time.Time{}
	return r
}

// owned gives the key to a new owner. The fence rises above everything that was ever seen, and, because the seed is, also
// above everything that was forgotten. The lease kept is the latest of the life: settle covers all its runs.
func owned(r Record, w want, t terms) Record {
	fresh := r.State == 0 || r.expired()
	n := r
	n.ID, n.State, n.Begun = t.id, Pending, !t.durable
	n.Fence = max(r.Fence+1, t.seed())
	n.Generation = t.generation.Number
	n.Lease = latest(r.Lease, t.lease)
	n.Reason, n.Since, n.AskAfter, n.Asks = 0, time.Time{}, time.Time{}, 0
	n.Retain, n.Settle = t.retain, max(r.Settle, t.settle)
	n.Receipt, n.Expires = Sealed{}, time.Time{}
	n.Attempts++
	if t.recovery != rerun {
		n.Note = Sealed{} // of a run that is known to have done nothing
	}
	if fresh {
		n.Life, n.Fingerprint = n.Fence, w.fingerprint
		n.Started, n.Attempts, n.Settle = t.generation.At, 1, t.settle
		n.Note, n.Evidence, n.Resolved = Sealed{}, Sealed{}, Resolution{}
	}
	return n
}

// quarantined makes of what a restore may have forgotten a doubt of this generation. The fence rises above every run of the
// lost window, and settle counts from the end of all of them.
func quarantined(r Record, w want, t terms) Record {
	n := owned(r, w, t)
	n.Attempts = r.Attempts
	n.Note = r.Note
	if n.Life == n.Fence { // when the lost attempt began nobody knows: it is never rerun
		n.Started, n.Attempts, n.Note = time.Time{}, 0, Sealed{}
	}
	n.Lease = latest(r.Lease, t.generation.Quiet)
	n.At = r.At
	n = doubted(n, Restored, t)
	n.Begun = true
	return n
}

// seed rises with every generation and every lease: a later owner's is above that of every forgotten one.
func (t terms) seed() uint64 {
	return uint64(t.generation.Number)<<44 | uint64(max(t.lease.UnixMilli(), 0))&(1<<44-1)
}

// doubtful says that a key without a live record may be one whose record a restore lost.
func (t terms) doubtful(at time.Time) bool {
	g := t.generation
	at = latest(at, g.At)
	switch {
	case g.Number == 0:
		return false
	case at.IsZero():
		return true
	case at.After(g.Until):
		return false
	}
	plausible := !t.issued.After(at.Add(5 * time.Minute))
	return !plausible || !t.issued.After(g.Watermark)
}

// time is the store's, or the caller's where the store told none: for what is only shown or saves questions.
func (r Record) time(t terms) time.Time {
	if r.At.IsZero() {
		return t.now
	}
	return r.At
}

// due says that the reconciler may be asked now.
func (r Record) due() bool { return r.AskAfter.IsZero() || r.At.After(r.AskAfter) }

// rerunnable says that the downstream still remembers the first attempt.
func (r Record) rerunnable(within time.Duration) bool {
	return !r.At.IsZero() && !r.Started.IsZero() && r.At.Before(r.Started.Add(within)) && r.Attempts < maxReruns
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
