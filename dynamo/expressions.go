package dynamo

import "github.com/idem-go/idem"

// The expressions are constants, and the only ones this package sends: nothing a caller gives becomes part of one. Every write
// sets or removes every attribute of a record and touches no other, so what a newer version added stays.
const (
	setRecord = "SET fo = :fo, ve = :ve, st = :st, be = :be, fe = :fe, li = :li, ge = :ge, fp = :fp, le = :le, sa = :sa, na = :na, " +
		"re = :re, si = :si, aa = :aa, ac = :ac, se = :se, rt = :rt, rb = :rb, rf = :rf, nb = :nb, nf = :nf, eb = :eb, ef = :ef, " +
		"wb = :wb, ww = :ww, wa = :wa"

	// Open, and whatever is kept for ever: no TTL, not in the index.
	updateKept = setRecord + " REMOVE ex, iq, ia"

	// Completed, failed or released, until a time.
	updateExpiring = setRecord + ", ex = :ex REMOVE iq, ia"

	// Indeterminate: in the index of what somebody has to look at.
	updateDoubtful = setRecord + ", iq = :iq, ia = :ia REMOVE ex"

	// No item has the key. UpdateItem makes one then.
	conditionAbsent = "attribute_not_exists(pk)"

	// The item is the one that was seen. An absent item has no version, so UpdateItem makes none.
	conditionSeen = "ve = :sn"

	placeSeen = ":sn" // of the version seen
)

// update is the expression for what [encode] gives.
func update(r idem.Record) string {
	switch {
	case r.State == idem.Indeterminate:
		return updateDoubtful
	case !r.Expires.IsZero():
		return updateExpiring
	}
	return updateKept
}
