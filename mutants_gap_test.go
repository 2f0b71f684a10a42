package idem

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The times of these tests: a lease that is over lies before noon, one that is not after it.
var (
	noon    = time.Unix(1_800_000_000, 0).UTC()
	early   = noon.Add(-time.Minute)
	late    = noon.Add(time.Minute)
	gridID  = ID{Tenant: "acme", Operation: "charge", Key: [32]byte{1}}
	gridFor = [32]byte{2} // fingerprint
)

// columns are the records that every row of the grid is asked about.
var columns = []struct {
	name string
	r    Record
}{
	{"absent", Record{}},
	{"pending", Record{State: Pending, Begun: true}},
	{"unbegun", Record{State: Pending}},
	{"completed", Record{State: Completed, Begun: true}},
	{"failed", Record{State: Failed, Begun: true}},
	{"doubtful", Record{State: Indeterminate, Begun: true}},
	{"released", Record{State: Released, Begun: true}},
}

// gridRecord fills in what all records of the grid have: fence 7 in a life that began with 5, two attempts, a lease that goes on.
func gridRecord(r Record) Record {
	r.At = noon
	if r.State == 0 {
		return r
	}
	r.ID, r.Version, r.Fence, r.Life, r.Fingerprint = gridID, Version{1}, 7, 5, gridFor
	r.Lease, r.Started, r.Attempts, r.Settle, r.Retain = late, noon.Add(-time.Hour), 2, 10*time.Minute, 2*time.Hour
	r.Note = Sealed{Fence: 7, Bytes: []byte("note")}
	switch r.State {
	case Completed, Failed:
		r.Receipt, r.Expires = Sealed{Fence: 7, Bytes: []byte("receipt")}, noon.Add(time.Hour)
	case Released:
		r.Expires = noon.Add(time.Hour)
	case Indeterminate:
		r.Reason, r.Since = Errored, noon.Add(-30*time.Minute)
	}
	return r
}

func gridTerms() terms {
	return terms{id: gridID, generation: Generation{At: noon}, settle: 5 * time.Minute, within: 2 * time.Hour, retain: 3 * time.Hour, lease: noon.Add(30 * time.Second), now: noon.Add(-time.Hour)}
}

type change func(*Record, *terms)

func lapsed(r *Record, _ *terms)          { r.Lease = early }
func leased(r *Record, _ *terms)          { r.Lease = late }
func untimed(r *Record, t *terms)         { r.At, t.generation.At = time.Time{}, time.Time{} }
func reconciles(_ *Record, t *terms)      { t.recovery = reconcile }
func askedLately(r *Record, _ *terms)     { r.AskAfter = noon }
func askedLongAgo(r *Record, _ *terms)    { r.AskAfter = noon.Add(-time.Second) }
func reruns(_ *Record, t *terms)          { t.recovery = rerun }
func forgotten(_ *Record, t *terms)       { t.within = time.Hour }
func fiveAttempts(r *Record, _ *terms)    { r.Attempts = maxReruns }
func fourAttempts(r *Record, _ *terms)    { r.Attempts = maxReruns - 1 }
func startUnknown(r *Record, _ *terms)    { r.Started = time.Time{} }
func commits(_ *Record, t *terms)         { t.tx = true }
func marksBegin(_ *Record, t *terms)      { t.durable = true }
func hasEvidence(r *Record, _ *terms)     { r.Evidence = Sealed{Fence: 6, Bytes: []byte("evidence")} }
func expiredLongAgo(r *Record, _ *terms)  { r.Expires = noon.Add(-expiryGrace - time.Second) }
func expiredInGrace(r *Record, _ *terms)  { r.Expires = noon.Add(-expiryGrace) }
func ofNewGeneration(r *Record, _ *terms) { r.Generation = 1 }
func keyIssuedNow(_ *Record, t *terms)    { t.issued = noon }
func keyIssuedOnce(_ *Record, t *terms)   { t.issued = noon.Add(-2 * time.Hour) }
func keyIssuedAhead(_ *Record, t *terms)  { t.issued = noon.Add(time.Hour) }
func horizonOver(_ *Record, t *terms)     { t.generation.Until = noon.Add(-time.Second) }
func restoredTable(_ *Record, t *terms) {
	t.generation.Number, t.generation.Watermark, t.generation.Quiet, t.generation.Until = 1, noon.Add(-time.Hour), noon.Add(-time.Minute), noon.Add(time.Hour)
}

// own is what the owner wants; of says which.
func own(of what) want {
	return want{what: of, fence: 7, life: 5, fingerprint: gridFor, sealed: Sealed{Fence: 7, Bytes: []byte("new")}, reason: Panicked}
}

func with(w want, f func(*want)) want { f(&w); return w }

func others(w *want)    { w.fence = 6 }
func higher(w *want)    { w.fence = 8 }
func lifeOf6(w *want)   { w.life = 6 }
func bareOf(w *want)    { w.sealed = Sealed{} }
func said(w *want)      { w.said = true }
func never(w *want)     { w.never = true }
func goesOn(w *want)    { w.run, w.never, w.sealed = true, true, Sealed{} }
func tooEarly(w *want)  { w.asked = late.Add(10 * time.Minute) }
func settled(w *want)   { w.asked = late.Add(10*time.Minute + time.Second) }
func happened(w *want)  { w.happened = true }
func elseBodys(w *want) { w.fingerprint = [32]byte{9} }

// TestStepGrid is the protocol as a table: what each wish does to each record, a transition or why not.
func TestStepGrid(t *testing.T) {
	const all = 7
	same := func(cell string) string { return strings.Repeat(cell+" ", all) }
	for _, row := range []struct {
		name    string
		w       want
		changes []change
		cells   string
	}{
		//                                                                           absent pending unbegun completed failed doubtful released
		{"begin", with(own(begin), bareOf), nil, "lost already T8 lost lost lost lost"},
		{"begin with a note", own(begin), nil, "lost T8 T8 lost lost lost lost"},
		{"begin of another", with(own(begin), others), nil, same("lost")},
		{"begin of a later owner", with(own(begin), higher), nil, same("lost")},
		{"note", own(note), nil, "lost T8 T8 lost lost T8 lost"},
		{"note of another", with(own(note), others), nil, same("lost")},
		{"complete", own(complete), nil, "lost T2 T2 known known T2 lost"},
		{"complete, lease over", own(complete), []change{lapsed}, "lost T2 T2 known known T2 lost"},
		{"complete of another", with(own(complete), others), nil, "lost lost lost known known lost lost"},
		{"complete of another life", with(own(complete), lifeOf6), nil, same("lost")},
		{"complete, expired", own(complete), []change{expiredLongAgo}, "lost T2 T2 lost lost T2 lost"},
		{"fail", own(fail), nil, "lost T2 T2 known known T2 lost"},
		{"fail of another", with(own(fail), others), nil, "lost lost lost known known lost lost"},
		{"release", own(release), nil, "lost T5 T5 lost lost T5 lost"},
		{"release of another", with(own(release), others), nil, same("lost")},
		{"doubt", own(doubt), nil, "already T3 T5 already already already already"},
		{"doubt that was said", with(own(doubt), said), nil, "already T3 T3 already already already already"},
		{"doubt of another", with(with(own(doubt), others), said), nil, same("already")},
		{"doubt of another without a word", with(own(doubt), others), nil, same("already")},

		{"it happened", own(sayDone), nil, "lost lost lost known known T6 lost"},
		{"it happened to another", with(own(sayDone), others), nil, "lost lost lost known known lost lost"},
		{"it failed, asked too early", with(own(sayFailed), tooEarly), nil, "lost lost lost known known inDoubt lost"},
		{"it failed, settled", with(own(sayFailed), settled), nil, "lost lost lost known known T6 lost"},
		{"it failed for good", with(own(sayFailed), never), nil, "lost lost lost known known T6 lost"},
		{"nothing, asked nobody knows when", own(sayNothing), nil, "lost lost lost known known inDoubt lost"},
		{"nothing, asked too early", with(own(sayNothing), tooEarly), nil, "lost lost lost known known inDoubt lost"},
		{"nothing, settled", with(own(sayNothing), settled), nil, "lost lost lost known known T6 lost"},
		{"nothing, of another", with(with(own(sayNothing), settled), others), nil, "lost lost lost known known lost lost"},
		{"never", with(own(sayNothing), never), nil, "lost lost lost known known T6 lost"},
		{"never, and goes on", with(own(sayNothing), goesOn), nil, "lost lost lost known known T7 lost"},
		{"it happened, restored", own(sayDone), []change{restoredTable}, "lost lost lost known known lost lost"},

		{"evidence", own(leave), nil, "T9 TE TE already already TE TE"},
		{"evidence of an effect", with(own(leave), happened), nil, "T9 TE TE already already TE TE>indeterminate"},
		{"evidence of another life", with(own(leave), lifeOf6), nil, "T9 already already already already already already"},
		{"evidence over evidence", own(leave), []change{hasEvidence}, "T9 already already already already already already"},
		{"evidence of an effect over evidence", with(own(leave), happened), []change{hasEvidence}, "T9 TE TE already already TE TE>indeterminate"},

		{"claim", own(claim), nil, "T1 inProgress inProgress known known inDoubt T7"},
		{"claim, lease over", own(claim), []change{lapsed}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, lease over, marks its begin", own(claim), []change{lapsed, marksBegin}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, no time told", own(claim), []change{lapsed, untimed}, "T1 inProgress inProgress known known inDoubt T7"},
		{"claim of another request", with(own(claim), elseBodys), nil, "T1 mismatch mismatch mismatch mismatch mismatch mismatch"},
		{"claim of another request, lease over", with(own(claim), elseBodys), []change{lapsed}, "T1 mismatch mismatch mismatch mismatch mismatch mismatch"},
		{"claim, asks", own(claim), []change{lapsed, reconciles}, "T1 T3 T7 known known T4 T7"},
		{"claim, asked lately", own(claim), []change{lapsed, reconciles, askedLately}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, asked long ago", own(claim), []change{lapsed, reconciles, askedLongAgo}, "T1 T3 T7 known known T4 T7"},
		{"claim, asks, no time told", own(claim), []change{reconciles, untimed}, "T1 inProgress inProgress known known T4 T7"},
		{"claim, reruns", own(claim), []change{lapsed, reruns}, "T1 T7 T7 known known T7 T7"},
		{"claim, reruns, lease goes on", own(claim), []change{leased, reruns}, "T1 inProgress inProgress known known T7 T7"},
		{"claim, reruns the last time", own(claim), []change{lapsed, reruns, fourAttempts}, "T1 T7 T7 known known T7 T7"},
		{"claim, reran often", own(claim), []change{lapsed, reruns, fiveAttempts}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, downstream forgot", own(claim), []change{lapsed, reruns, forgotten}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, reruns, start not known", own(claim), []change{lapsed, reruns, startUnknown}, "T1 T3 T7 known known inDoubt T7"},
		{"claim, reruns, no time told", own(claim), []change{lapsed, reruns, untimed}, "T1 inProgress inProgress known known inDoubt T7"},
		{"claim, expired", own(claim), []change{expiredLongAgo}, "T1 inProgress inProgress T7 T7 inDoubt T7"},
		{"claim of another request, expired", with(own(claim), elseBodys), []change{expiredLongAgo}, "T1 mismatch mismatch T7 T7 mismatch T7"},
		{"claim, expired within the grace", own(claim), []change{expiredInGrace}, "T1 inProgress inProgress known known inDoubt T7"},
		{"claim, expired, no time told", own(claim), []change{expiredLongAgo, untimed}, "T1 inProgress inProgress known known inDoubt T7"},

		{"commit", own(claim), []change{commits}, "Tx inProgress inProgress known known inDoubt Tx"},
		{"commit, expired", own(claim), []change{commits, expiredLongAgo}, "Tx inProgress inProgress Tx Tx inDoubt Tx"},
		{"commit, lease over", own(claim), []change{commits, lapsed}, "Tx T3 T6>released known known inDoubt Tx"},
		{"commit, asks nobody", own(claim), []change{commits, lapsed, reconciles}, "Tx T3 T6>released known known inDoubt Tx"},
		{"commit, reruns nothing", own(claim), []change{commits, lapsed, reruns}, "Tx T3 T6>released known known inDoubt Tx"},

		{"sweep", own(sweep), nil, "already inProgress inProgress known known inDoubt already"},
		{"sweep, lease over", with(own(sweep), elseBodys), []change{lapsed}, "already T3 T6>released known known inDoubt already"},
		{"sweep, asks", own(sweep), []change{lapsed, reconciles}, "already T3 T6>released known known T4 already"},
		{"sweep, reruns nothing", own(sweep), []change{lapsed, reruns}, "already T3 T6>released known known inDoubt already"},
		{"sweep, expired", own(sweep), []change{expiredLongAgo}, "already inProgress inProgress already already inDoubt already"},

		{"restored: claim", own(claim), []change{restoredTable}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim, asks", own(claim), []change{restoredTable, reconciles}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim, reruns", own(claim), []change{restoredTable, reruns}, "T9 T9 T9 known known T9 T9"},
		{"restored: commit", own(claim), []change{restoredTable, commits}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim, expired", own(claim), []change{restoredTable, expiredLongAgo}, "T9 T9 T9 T9 T9 T9 T9"},
		{"restored: claim of a new key", own(claim), []change{restoredTable, keyIssuedNow}, "T1 T9 T9 known known T9 T7"},
		{"restored: claim of an old key", own(claim), []change{restoredTable, keyIssuedOnce}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim of a key from the future", own(claim), []change{restoredTable, keyIssuedAhead}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim, horizon over", own(claim), []change{restoredTable, horizonOver}, "T1 T9 T9 known known T9 T7"},
		{"restored: claim, no time told", own(claim), []change{restoredTable, horizonOver, untimed}, "T9 T9 T9 known known T9 T9"},
		{"restored: claim, written since", own(claim), []change{restoredTable, ofNewGeneration}, "T9 inProgress inProgress known known inDoubt T7"},
		{"restored: claim, written since, expired", own(claim), []change{restoredTable, ofNewGeneration, expiredLongAgo}, "T9 inProgress inProgress T7 T7 inDoubt T7"},
		{"restored: sweep", own(sweep), []change{restoredTable}, "already T9 T9 known known T9 already"},

		{"adopted meanwhile: claim", own(claim), []change{ofNewGeneration}, "T1 stale stale stale stale stale stale"},
		{"adopted meanwhile: complete", own(complete), []change{ofNewGeneration}, "lost stale stale stale stale stale stale"},
		{"adopted meanwhile: it happened", own(sayDone), []change{ofNewGeneration}, "lost stale stale stale stale stale stale"},
	} {
		cells := strings.Fields(row.cells)
		for k, column := range columns {
			r, terms := gridRecord(column.r), gridTerms()
			for _, f := range row.changes {
				if r.State != 0 || column.name == "absent" {
					f(&r, &terms)
				}
			}
			if r.State == 0 {
				r = Record{At: r.At}
			}
			n, m, why := step(r, row.w, terms)
			if got := cell(n, m, why); !strings.HasPrefix(cells[k], got) && got != cells[k] || strings.Contains(cells[k], ">") && cells[k] != got+">"+n.State.String() {
				t.Errorf("%s, %s: got %s, want %s", row.name, column.name, got, cells[k])
			}
			if m == te && !strings.Contains(cells[k], ">") && n.State != r.State {
				t.Errorf("%s, %s: evidence made it %v", row.name, column.name, n.State)
			}
			if why == fine {
				checkStep(t, row.name+", "+column.name, r, n, m, row.w, terms)
			}
		}
	}
}

func cell(n Record, m move, why refusal) string {
	if why == fine {
		return moveNames[m]
	}
	return [...]string{known: "known", inProgress: "inProgress", inDoubt: "inDoubt", lost: "lost", already: "already", mismatch: "mismatch", stale: "stale", foreign: "foreign"}[why]
}

// checkStep is what holds of every step: who owns what afterwards, and what is never lost.
func checkStep(t *testing.T, name string, r, n Record, m move, w want, at terms) {
	t.Helper()
	wrong := func(format string, args ...any) { t.Errorf("%s: "+format, append([]any{name}, args...)...) }
	becomes := map[move]State{t1: Pending, t2: outcome(w), t3: Indeterminate, t4: Indeterminate, t5: Released, t7: Pending, t8: r.State, t9: Indeterminate, tx: Completed}
	if want, ok := becomes[m]; ok && n.State != want {
		wrong("is %v, want %v", n.State, want)
	}
	switch w.what {
	case sayDone, sayFailed, sayNothing:
		if m == t6 && n.State != map[what]State{sayDone: Completed, sayFailed: Failed, sayNothing: Released}[w.what] {
			wrong("is %v", n.State)
		}
	}
	newOwner := m == t1 || m == t7 || m == t9 || m == tx
	switch {
	case newOwner && (n.Fence <= r.Fence || n.Fence < at.seed() || n.Generation != at.generation.Number):
		wrong("fence %d after %d, generation %d", n.Fence, r.Fence, n.Generation)
	case !newOwner && (n.Fence != r.Fence || n.Generation != r.Generation || n.Life != r.Life || n.Attempts != r.Attempts):
		wrong("fence %d after %d, generation %d, life %d, %d attempts", n.Fence, r.Fence, n.Generation, n.Life, n.Attempts)
	}
	fresh := r.State == 0 || r.expired()
	switch {
	case newOwner && fresh && (n.Life != n.Fence || n.Fingerprint != w.fingerprint || !n.Evidence.empty() && m != t9 || n.Resolved != Resolution{}):
		wrong("a new life is not new: %+v", n)
	case !(newOwner && fresh) && (n.Life != r.Life || n.Fingerprint != r.Fingerprint || n.Lease.Before(r.Lease)):
		wrong("a life did not go on: %+v", n)
	}
	if open := n.State.open(); open != n.Expires.IsZero() || open && !n.Receipt.empty() || n.State == Released && !n.Receipt.empty() {
		wrong("%v expires %v, receipt %q", n.State, n.Expires, n.Receipt.Bytes)
	}
	if n.State == Indeterminate && !n.Begun && r.Begun {
		wrong("in doubt, but not begun")
	}
	if !n.State.open() && (n.Expires.Before(n.Lease) || n.Expires.Before(at.now.Add(at.retain)) || n.Expires.Before(n.At.Add(at.retain))) && m != te {
		wrong("expires %v", n.Expires)
	}
	if fmt.Sprint(r.At) != fmt.Sprint(n.At) {
		wrong("the time of the answer is %v, was %v", n.At, r.At)
	}
}
