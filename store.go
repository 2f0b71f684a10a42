package idem

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Store is a compare-and-swap register per [ID]. It knows nothing of leases, owners or recovery: the protocol is above it.
// The suite in package idemtest checks every sentence here.
//
// Create stores r iff no record holds r.ID. Swap stores r iff the record that holds r.ID carries the version seen, and not
// if there is none. Both return the record that holds the ID afterwards: it is the caller's own iff its Version is
// r.Version, whether or not the write was refused on the way. A refusal is not an error. Where no record holds the ID, the
// one returned has the zero State.
//
// Load returns the record that holds the ID, or one with the zero State.
//
// All calls on one ID are linearizable, also across processes; a write that was answered is durable. Every record returned,
// an absent one included, has in At the store's own clock at the time of the answer, never the caller's; it is zero if the
// store told none.
//
// Every field comes back as it was written: bytes exactly, times to the millisecond, durations to the second, except that
// Expires may be rounded up to the second; nil and empty bytes are the same. Two IDs are the same only if tenant, operation
// and key all are. Swap keeps what a newer version of this library added to a record; a record in a format or a state that is
// not known is an error.
//
// A large receipt may be kept beside its record: Receipt then has a Ref, and need not have its Bytes. Fetch returns the record
// with them, and one that has no Ref as it is. A write keeps what the Ref that it passes on stands for; Bytes count more than a
// Ref. An error of Fetch that is not retryable says that the bytes are lost, or are not those that were written.
//
// An error that wraps [ErrAmbiguous] says that the write may have been applied, or may yet be. Any other error says that it
// was not and never will be. The store repeats what fails for a passing reason: few times and shortly for a Pending record,
// as long as ctx allows for every other. A caller whose context is done gets an answer promptly. An error with a method
// Retryable() bool that returns false says that sending the same again is no use.
//
// A store removes a record only after its Expires, and never one without. It refuses a write whose Generation is not the
// table's, with an error.
//
// A store neither changes nor keeps the bytes it is given. All methods may be called concurrently.
type Store interface {
	// Generation returns the table's incarnation, as known to this process a short time ago, usually without a request.
	Generation(ctx context.Context) (Generation, error)
	Create(ctx context.Context, r Record) (Record, error)
	Swap(ctx context.Context, seen Version, r Record) (Record, error)
	Load(ctx context.Context, id ID) (Record, error)
	Fetch(ctx context.Context, r Record) (Record, error)
}

// Lister is what sweeps and operators need of a store on top.
type Lister interface {
	// List gives the records of an operation ("" for all) that are in one of the states (none given: all). It is not a
	// snapshot: a record is to be loaded again before it is acted upon. A record that cannot be read is an error that comes with its
	// ID, as far as that can be read, and the iteration goes on; it ends with any other error.
	List(ctx context.Context, operation string, states ...State) iter.Seq2[Record, error]
}

// Generation is a table's incarnation. The zero value is a table that was never restored.
type Generation struct {
	Number    uint32    // raised by every adoption of a restored table; below 2^20
	Watermark time.Time // end of the lost window: a key that was issued later has no record in it
	Quiet     time.Time // no attempt from before the adoption can still act: its lease is over and the old table refuses writes
	Until     time.Time // until then an unknown key may be one whose record was lost
	At        time.Time // the store's clock as this process knows it, never ahead of it; zero if it told none
	_         struct{}
}

// ErrAmbiguous is wrapped by the error of a [Store] whose write may have been applied or may yet be.
var ErrAmbiguous = errors.New("write may have been applied")
