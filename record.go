package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// ID is a record's address: one key of one tenant for one operation. Tenant and operation stay readable, so that IAM
// conditions and operators can use them; of the idempotency key only the SHA-256 is kept.
type ID struct {
	Tenant    string   // empty only where the operation is SingleTenant
	Operation string   // name of the operation
	Key       [32]byte // SHA-256 of the idempotency key
}

// Digest is the SHA-256 over tenant, operation and key, each with its length in front, so that two IDs have the same digest
// only if all three parts are equal. It names a record in logs and tools without naming its key.
func (id ID) Digest() [32]byte {
	return digest("idem id v1", []byte(id.Tenant), []byte(id.Operation), id.Key[:])
}

// String is the operation and the first 12 hex digits of the digest: what messages and events show. Never the tenant or key.
func (id ID) String() string {
	d := id.Digest()
	return id.Operation + "/" + hex.EncodeToString(d[:6])
}

// digest hashes parts so that no two lists of parts collide: each has its length in front, the label comes first.
func digest(label string, parts ...[]byte) [32]byte {
	h := sha256.New()
	var n [8]byte
	put := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	put([]byte(label))
	for _, p := range parts {
		put(p)
	}
	return [32]byte(h.Sum(nil))
}

// Version is random and new with every write. A record is the caller's own iff it carries the version the caller wrote.
type Version [16]byte

// State of a record. The zero State says that there is no record.
type State uint8

const (
	Pending       State = iota + 1 // an attempt owns the key
	Completed                      // the effect happened, its result is recorded
	Failed                         // a final failure is recorded: nothing happened, nothing will
	Indeterminate                  // nobody knows whether the effect happened
	Released                       // known to have done nothing: the next request may run
)

var stateNames = [...]string{"absent", "pending", "completed", "failed", "indeterminate", "released"}

// String names the state; a value from a newer version shows as its number.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// terminal says that the record answers every later request until it expires.
func (s State) terminal() bool { return s == Completed || s == Failed }

// open says that an attempt's outcome is still welcome.
func (s State) open() bool { return s == Pending || s == Indeterminate }

// Reason says why an outcome is unknown.
type Reason uint8

const (
	Lapsed       Reason = iota + 1 // the lease ended and the attempt recorded nothing: crash, kill, timeout, or still running
	Deadline                       // the function ran into its deadline
	Errored                        // the function returned an error that does not say what happened
	Panicked                       // the function panicked or ended its goroutine
	Restored                       // the table was restored and may have forgotten the key's outcome
	Contradicted                   // released as "nothing happened", then an attempt reported that it did
)

var reasonNames = [...]string{"none", "lapsed", "deadline", "error", "panic", "restored", "contradicted"}

// String names the reason; a value from a newer version shows as its number.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Record is the one item of a key. The whole protocol is a pure function from Record to Record; stores only keep them.
// Times have millisecond resolution, durations whole seconds.
type Record struct {
	ID          ID
	Version     Version
	State       State
	Begun       bool          // an effect may have happened; read from here, never from an operation's settings
	Fence       uint64        // of the current owner; rises with every owner over the key's whole life
	Life        uint64        // fence of the first owner of this life of the key
	Generation  uint32        // of the table, when this was written
	Fingerprint [32]byte      // of the request that opened this life
	Lease       time.Time     // end: the latest of all owners of this life
	Started     time.Time     // not later than the first claim of this life, by the store's clock; zero if unknown
	Attempts    uint32        // owners in this life
	Reason      Reason        // of the latest doubt
	Since       time.Time     // when the latest doubt arose
	AskAfter    time.Time     // indeterminate: nobody asks the reconciler before
	Asks        uint32        // how often it was asked about this doubt
	Settle      time.Duration // how long after Lease a "not applied" is not believed yet
	Retain      time.Duration // how long a terminal record is kept
	Receipt     Sealed        // Completed: the result, empty if it was not kept. Failed: the failure
	Note        Sealed        // what the function saved for the reconciler
	Evidence    Sealed        // what an attempt reported after somebody took the key over
	Resolved    Resolution    // the latest verdict of an operator or a reconciler
	Expires     time.Time     // zero unless terminal or released
	At          time.Time     // the store's clock when it answered; not stored; zero if the answer carried none
	_           struct{}
}

// Sealed is an encrypted blob with the fence it was sealed under, so that a later owner can open it. What it is (result,
// failure, note, evidence) is told by where it stands, and is part of what it is bound to.
type Sealed struct {
	Fence uint64
	Bytes []byte
	Ref   string // the store's own: where it keeps the bytes, if not in the record; see [Store]
}

func (s Sealed) empty() bool { return len(s.Bytes) == 0 && s.Ref == "" }

// Resolution is who settled a record, when and why. It stays when the key runs again.
type Resolution struct {
	By, Why string // at most 256 bytes each
	At      time.Time
}

// expiryGrace is how long an expired record is still honoured: longer than a stale signed request can be replayed by the
// network (SigV4 allows 15 minutes at most), so nothing that such a request could re-create has been forgotten before.
const expiryGrace = 15 * time.Minute

// expired says, by the store's clock, that the key may start a new life. An answer without a time decides nothing.
func (r Record) expired() bool {
	return !r.Expires.IsZero() && (r.State.terminal() || r.State == Released) && r.At.After(r.Expires.Add(expiryGrace))
}

// lapsed says, by the store's clock, that the lease is over. It never says that the owner is dead.
func (r Record) lapsed() bool { return r.At.After(r.Lease) }
