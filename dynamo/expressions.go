package dynamo

import "github.com/idem-go/idem"

// The expressions are constants, and the only ones this package sends: nothing a caller gives becomes part of one. Every write
// sets or removes every attribute of a record and touches no other, so what a newer version added stays.
const (
	setRecord = "SET fo = :fo, ve = :ve, st = :st, be = :be, fe = :fe, li = :li, ge = :ge, fp = :fp, le = :le, sa = :sa, na = :na, " +
		"re = :re, si = :si, aa = :aa, ac = :ac, se = :se, rt = :rt, rb = :rb, rf = :rf, nb = :nb, nf = :nf, eb = :eb, ef = :ef, " +
		"wb = :wb, ww = :ww, wa = :wa"

	// Where the receipt is, if it is not in the item.
	setBodies    = ", bv = :bv, bd = :bd, bn = :bn"
	removeBodies = ", bv, bd, bn"

	// Open, and whatever is kept for ever: no TTL, not in the index.
	updateKept       = setRecord + " REMOVE ex, iq, ia" + removeBodies
	updateKeptBodies = setRecord + setBodies + " REMOVE ex, iq, ia"

	// Completed, failed or released, until a time.
	updateExpiring       = setRecord + ", ex = :ex REMOVE iq, ia" + removeBodies
	updateExpiringBodies = setRecord + setBodies + ", ex = :ex REMOVE iq, ia"

	// Indeterminate: in the index of what somebody has to look at.
	updateDoubtful       = setRecord + ", iq = :iq, ia = :ia REMOVE ex" + removeBodies
	updateDoubtfulBodies = setRecord + setBodies + ", iq = :iq, ia = :ia REMOVE ex"

	// A body.
	updateBody     = "SET bb = :bb, ex = :ex"
	updateBodyKept = "SET bb = :bb"

	// No item has the key. UpdateItem makes one then.
	conditionAbsent = "attribute_not_exists(pk)"

	// The item is the one that was seen. An absent item has no version, so UpdateItem makes none.
	conditionSeen = "ve = :sn"

	placeSeen = ":sn" // of the version seen
)

// update is the expression for what [encode] gives.
func update(r idem.Record) string {
	alone, withBodies := updateKept, updateKeptBodies
	switch {
	case r.State == idem.Indeterminate:
		alone, withBodies = updateDoubtful, updateDoubtfulBodies
	case !r.Expires.IsZero():
		alone, withBodies = updateExpiring, updateExpiringBodies
	}
	if _, ok := beside(r); ok {
		return withBodies
	}
	return alone
}
