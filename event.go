package idem

import (
	"context"
	"strings"
	"time"
)

// Event is one decision. It never has a key, a tenant, a payload or a result in it.
//
// Kind is one of: Claimed (the function is about to run), Completed, Failed (recorded), Replayed, InProgress, Mismatch,
// Indeterminate (a doubt arose, or refused a request), Reconciled (a doubt was settled), Released, Lost (a finished
// attempt found the key taken over), Conflict (a finished attempt found another outcome recorded), NotRecorded, Refused (a
// bad request), StoreErrors and KeyErrors (the store or the sealer failed).
type Event struct {
	Kind      string
	Operation string
	Digest    string        // 12 hex digits of the ID's digest; empty for a bad request
	Fence     uint64        // of the record, zero if there is none
	Reason    Reason        // of an indeterminate record
	Elapsed   time.Duration // since the request came; for outcomes, since the function ended
	Bytes     int           // Completed: size of the result
	Err       error         // the store's or the sealer's own, never the function's
	_         struct{}
}

func (e *engine) emit(ctx context.Context, label string, since time.Time, ev Event) {
	if e.Observe == nil {
		return
	}
	ev.Operation = e.name
	_, ev.Digest, _ = strings.Cut(label, "/")
	ev.Elapsed = time.Since(since)
	e.Observe(ctx, ev)
}
