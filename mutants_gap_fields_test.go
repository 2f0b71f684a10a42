package idem

import (
	"testing"
	"time"
)

// stepTo is a step that must not be refused.
func stepTo(t *testing.T, r Record, w want, at terms, m move) Record {
	t.Helper()
	n, got, why := step(r, w, at)
	if why != fine || got != m {
		t.Fatalf("got move %v, refusal %d, want %v", moveNames[got], why, moveNames[m])
	}
	return n
}

// column is a record of the grid by its name.
func column(name string, changes ...change) (Record, terms) {
	for _, c := range columns {
		if c.name == name {
			r, at := gridRecord(c.r), gridTerms()
			for _, f := range changes {
				f(&r, &at)
			}
			return r, at
		}
	}
	panic(name)
}

func TestUnknownStateAndUnknownWantRunNothing(t *testing.T) {
	r, at := column("pending")
	r.State = Released + 1
	for w := claim; w <= leave; w++ {
		if _, _, why := step(r, own(w), at); why != foreign {
			t.Errorf("want %d of an unknown state: refusal %d", w, why)
		}
	}
}

func TestClaimOfAnAbsentKey(t *testing.T) {
	r, at := column("absent")
	at.durable = true
	n := stepTo(t, r, own(claim), at, t1)
	if n.ID != gridID || n.Begun || !n.Lease.Equal(at.lease) || !n.Started.Equal(noon) || n.Attempts != 1 || n.Settle != at.settle || n.Retain != at.retain || !n.Note.empty() {
		t.Errorf("%+v", n)
	}
	at.durable = false
	if !stepTo(t, r, own(claim), at, t1).Begun {
		t.Error("not begun, though no begin will be written")
	}
}

// The lease of a life is the latest of all its owners, its settle the longest: both count for every run that may have begun.
func TestLeaseAndSettleOfALifeOnlyGrow(t *testing.T) {
	r, at := column("released")
	if n := stepTo(t, r, own(claim), at, t7); !n.Lease.Equal(late) || n.Settle != 10*time.Minute || n.Attempts != 3 || n.Retain != at.retain {
		t.Errorf("lease %v, settle %v, %d attempts, retain %v", n.Lease, n.Settle, n.Attempts, n.Retain)
	}
	at.lease, at.settle = late.Add(time.Hour), time.Hour
	if n := stepTo(t, r, own(claim), at, t7); !n.Lease.Equal(at.lease) || n.Settle != time.Hour {
		t.Errorf("lease %v, settle %v", n.Lease, n.Settle)
	}
	r.Expires = noon.Add(-time.Hour)
	at.settle, at.recovery = time.Minute, rerun // which keeps a note, but not another life's
	if n := stepTo(t, r, own(claim), at, t7); n.Settle != time.Minute || n.Attempts != 1 || !n.Started.Equal(noon) || !n.Note.empty() {
		t.Errorf("a new life has settle %v, %d attempts, started %v, note %q", n.Settle, n.Attempts, n.Started, n.Note.Bytes)
	}
}

// A later deployment may have a longer settle than the record.
func TestLongerSettleOfTheTwoCounts(t *testing.T) {
	r, at := column("doubtful")
	at.settle = time.Hour
	w := with(own(sayNothing), settled)
	if _, _, why := step(r, w, at); why != inDoubt {
		t.Errorf("refusal %d, want in doubt", why)
	}
	w.asked = r.Lease.Add(time.Hour + time.Second)
	stepTo(t, r, w, at, t6)
}

func TestNewOwnerIsInNoDoubtAndKeepsTheNoteOnlyUnderRerun(t *testing.T) {
	r, at := column("doubtful", reconciles)
	r.AskAfter, r.Asks = late, 3
	for _, k := range []recovery{reconcile, rerun} {
		at.recovery = k
		n := stepTo(t, r, with(own(sayNothing), goesOn), at, t7)
		if n.Reason != 0 || !n.Since.IsZero() || !n.AskAfter.IsZero() || n.Asks != 0 || n.Note.empty() != (k == reconcile) {
			t.Errorf("%+v", n)
		}
	}
}

// Whatever the record had begun: a claim that marks its begin has not.
func TestTakeOverHasBegunByItsOwnSettings(t *testing.T) {
	r, at := column("released", marksBegin)
	if stepTo(t, r, own(claim), at, t7).Begun {
		t.Error("begun")
	}
	r, at = column("pending", lapsed, reruns, marksBegin)
	if !stepTo(t, r, own(claim), at, t7).Begun {
		t.Error("run again, and not begun: the run before may have happened")
	}
	r, at = column("released", marksBegin, commits)
	if !stepTo(t, r, own(claim), at, tx).Begun {
		t.Error("committed, and not begun")
	}
	r, at = column("released")
	r.Begun = false
	if !stepTo(t, r, with(own(leave), happened), at, te).Begun {
		t.Error("contradicted, and not begun")
	}
	r, at = column("unbegun")
	if !stepTo(t, r, with(own(doubt), said), at, t3).Begun {
		t.Error("in doubt, and not begun")
	}
}

func TestDoubtSaysWhyAndSinceWhen(t *testing.T) {
	r, at := column("pending")
	r.AskAfter, r.Asks = late, 3
	n := stepTo(t, r, own(doubt), at, t3)
	if n.Reason != Panicked || !n.Since.Equal(noon) || !n.AskAfter.IsZero() || n.Asks != 0 {
		t.Errorf("%v since %v, asked after %v", n.Reason, n.Since, n.AskAfter)
	}
	r.At = time.Time{}
	if n := stepTo(t, r, own(doubt), at, t3); !n.Since.Equal(at.now) {
		t.Errorf("since %v where the store told no time", n.Since)
	}
	r, at = column("pending", lapsed)
	if n := stepTo(t, r, own(claim), at, t3); n.Reason != Lapsed {
		t.Errorf("%v", n.Reason)
	}
	r, at = column("released")
	if n := stepTo(t, r, with(own(leave), happened), at, te); n.Reason != Contradicted || !n.Since.Equal(noon) {
		t.Errorf("%v since %v", n.Reason, n.Since)
	}
}

// A note stays until another replaces it, and comes with the begin if there is one.
func TestNotes(t *testing.T) {
	for _, w := range []want{own(begin), own(note)} {
		r, at := column("unbegun")
		if n := stepTo(t, r, w, at, t8); string(n.Note.Bytes) != "new" || n.Begun != (w.what == begin) {
			t.Errorf("note %q, begun %v", n.Note.Bytes, n.Begun)
		}
		if n := stepTo(t, r, with(w, bareOf), at, t8); string(n.Note.Bytes) != "note" {
			t.Errorf("note %q", n.Note.Bytes)
		}
	}
}

// What an outcome leaves behind: its receipt, how long it is kept, and nothing of the doubt.
func TestOutcomeOfARecord(t *testing.T) {
	r, at := column("doubtful")
	r.AskAfter, r.Asks = late, 3
	n := stepTo(t, r, own(complete), at, t2)
	if n.State != Completed || string(n.Receipt.Bytes) != "new" || n.Retain != at.retain || !n.AskAfter.IsZero() || n.Asks != 0 {
		t.Errorf("%+v", n)
	}
	if n := stepTo(t, r, own(fail), at, t2); n.State != Failed || string(n.Receipt.Bytes) != "new" {
		t.Errorf("%v, receipt %q", n.State, n.Receipt.Bytes)
	}
}

// Expires is never early: not by the slower of the two clocks, and not before the lease of any owner is over.
func TestExpiryIsNeverEarly(t *testing.T) {
	r, at := column("pending")
	expires := func() time.Time { return stepTo(t, r, own(complete), at, t2).Expires }
	if got := expires(); !got.Equal(noon.Add(at.retain)) {
		t.Errorf("the caller's clock is behind: expires %v", got)
	}
	at.now = noon.Add(time.Hour)
	if got := expires(); !got.Equal(noon.Add(at.retain + time.Hour)) {
		t.Errorf("the caller's clock is ahead: expires %v", got)
	}
	r.At = time.Time{}
	if got := expires(); !got.Equal(noon.Add(at.retain + time.Hour)) {
		t.Errorf("the store told no time: expires %v", got)
	}
	r.Lease = noon.Add(24 * time.Hour)
	if got := expires(); !got.Equal(r.Lease) {
		t.Errorf("expires %v, its lease ends %v", got, r.Lease)
	}
}

func TestPausesBetweenQuestionsGrowToAnEnd(t *testing.T) {
	r, at := column("doubtful", reconciles)
	var last time.Duration
	for k := range 100 {
		n := stepTo(t, r, own(claim), at, t4)
		pause := n.AskAfter.Sub(r.At)
		if pause < last || pause < firstAskPause || pause > lastAskPause || n.Asks != uint32(k+1) || k == 0 && pause != firstAskPause || k == 1 && pause == firstAskPause {
			t.Fatalf("question %d: pause %v after %v", k+1, pause, last)
		}
		last = pause
		n.At = n.AskAfter.Add(time.Second)
		r = n
	}
	if last != lastAskPause {
		t.Errorf("the last pause is %v", last)
	}
}

// Who decided, when and why stays with the record, also when the key runs again.
func TestVerdictIsKept(t *testing.T) {
	r, at := column("doubtful")
	v := Resolution{By: "op", Why: "ledger", At: noon}
	w := with(own(sayNothing), goesOn)
	w.verdict = v
	if n := stepTo(t, r, w, at, t7); n.Resolved != v {
		t.Errorf("%+v", n.Resolved)
	}
	w.run = false
	if n := stepTo(t, r, w, at, t6); n.Resolved != v || n.State != Released {
		t.Errorf("%+v, %v", n.Resolved, n.State)
	}
	r, at = column("released", expiredLongAgo)
	r.Resolved, r.Evidence = v, Sealed{Fence: 6, Bytes: []byte("evidence")}
	if n := stepTo(t, r, own(claim), at, t7); n.Resolved != (Resolution{}) || !n.Evidence.empty() {
		t.Errorf("a new life has a verdict %+v and evidence %q", n.Resolved, n.Evidence.Bytes)
	}
}

func TestEvidenceIsSaved(t *testing.T) {
	for _, name := range []string{"pending", "doubtful", "released"} {
		r, at := column(name)
		n := stepTo(t, r, own(leave), at, te)
		if string(n.Evidence.Bytes) != "new" || n.State != r.State || n.Version != r.Version || !n.Lease.Equal(r.Lease) {
			t.Errorf("%s: %v, evidence %q", name, n.State, n.Evidence.Bytes)
		}
	}
	r, at := column("absent")
	n := stepTo(t, r, own(leave), at, t9)
	if string(n.Evidence.Bytes) != "new" || n.State != Indeterminate || !n.Lease.Equal(at.lease) || !n.Begun || n.Fence < at.seed() {
		t.Errorf("a vanished record: %+v", n)
	}
}

// What a restore may have forgotten: settle counts from the end of the lost window's leases, and nobody knows what ran.
func TestQuarantine(t *testing.T) {
	r, at := column("unbegun", restoredTable, lapsed, marksBegin)
	r.Lease = noon.Add(-time.Hour)
	n := stepTo(t, r, own(claim), at, t9)
	if n.Reason != Restored || !n.Begun || !n.Lease.Equal(at.generation.Quiet) || n.Attempts != 2 || string(n.Note.Bytes) != "note" || !n.Since.Equal(noon) || n.Life != r.Life {
		t.Errorf("%+v", n)
	}
	r.Lease = late
	if n := stepTo(t, r, own(claim), at, t9); !n.Lease.Equal(late) {
		t.Errorf("lease %v", n.Lease)
	}
	for _, name := range []string{"absent", "completed"} {
		r, at := column(name, restoredTable, expiredLongAgo)
		if name == "absent" {
			r = Record{At: noon}
		} else {
			r.Lease = noon.Add(-time.Hour)
		}
		n := stepTo(t, r, own(claim), at, t9)
		if n.Life != n.Fence || !n.Started.IsZero() || n.Attempts != 0 || !n.Note.empty() || !n.Lease.Equal(at.generation.Quiet) || n.Fingerprint != gridFor {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// A fence rises above everything seen, and above everything forgotten: the seed rises with generation and lease.
func TestSeed(t *testing.T) {
	r, at := column("released")
	r.Fence = at.seed() + 100
	if n := stepTo(t, r, own(claim), at, t7); n.Fence != r.Fence+1 {
		t.Errorf("fence %d after %d", n.Fence, r.Fence)
	}
	before := at.seed()
	at.lease = at.lease.Add(time.Millisecond)
	if at.seed() != before+1 {
		t.Error("a later lease has no higher seed")
	}
	at.generation.Number, at.lease = 1, noon.Add(-1000*time.Hour)
	if at.seed() <= before {
		t.Error("a later generation has no higher seed")
	}
}
