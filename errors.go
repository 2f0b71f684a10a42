package idem

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Each outcome that is not a result is a type of its own, found by errors.AsType. The type's name is what Lambda reports as
// errorType. Messages name the operation and a digest of the key, never a key, a payload or a result.

// RequestError: the request or the setting is wrong. Nothing was written, nothing ran; sending the same again is no use.
type RequestError struct {
	Operation string
	Problem   string // names the field, never quotes it
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("idem: %s: request refused, nothing ran: %s", e.Operation, e.Problem)
}

// InProgressError: another attempt owns the key and its lease is not over. Nothing ran for this request.
type InProgressError struct {
	ID    string        // operation and digest
	Until time.Time     // end of the lease
	After time.Duration // how long the lease goes on by the store's clock
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("idem: %s: another attempt is in progress until %s; nothing ran, retry later", e.ID, e.Until.UTC().Format(time.RFC3339))
}

// MismatchError: the key was used before, with another payload. Nothing ran; sending the same again is no use.
type MismatchError struct {
	ID string // operation and digest
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("idem: %s: the key was used with another payload; nothing ran", e.ID)
}

// IndeterminateError: an earlier attempt may have had its effect, and nobody knows. Nothing ran for this request. Where the
// operation has a reconciler a retry asks it again; else an operator has to resolve the record.
type IndeterminateError struct {
	ID    string // operation and digest
	Doubt Doubt
	After time.Duration // when a retry may ask again; zero if only an operator can help
	Err   error         // why the reconciler did not know, if it was asked
}

func (e *IndeterminateError) Error() string {
	s := fmt.Sprintf("idem: %s: outcome unknown since %s (%s), not run again", e.ID, e.Doubt.Since.UTC().Format(time.RFC3339), e.Doubt.Reason)
	if e.After == 0 {
		return s + "; to be resolved by an operator"
	}
	return s + "; a retry asks the reconciler"
}

func (e *IndeterminateError) Unwrap() error { return e.Err }

// UnavailableError: the store or the key service did not answer, refused, or there is too little time left. Nothing ran for this
// request. [RetryAfter] says whether a retry helps.
type UnavailableError struct {
	ID  string // operation and digest
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("idem: %s: nothing ran: %v", e.ID, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// NotRecordedError: the function ran and succeeded, but its receipt is not known to be stored. The effect happened. A later
// request gets the result if it was stored after all, else finds the key indeterminate. From [Operation.Commit] it says that
// effect and receipt may both be stored, or neither; the same request again tells.
type NotRecordedError struct {
	ID   string          // operation and digest
	Raw  json.RawMessage // what the function returned
	Err  error
	both bool // of Commit
}

func (e *NotRecordedError) Error() string {
	if e.both {
		return fmt.Sprintf("idem: %s: effect and receipt may both be stored, or neither: %v", e.ID, e.Err)
	}
	return fmt.Sprintf("idem: %s: the effect happened, its receipt may not be stored: %v", e.ID, e.Err)
}

func (e *NotRecordedError) Unwrap() error { return e.Err }

// LostError: the function ran and succeeded, but meanwhile somebody took the key over, or settled it otherwise. The effect
// happened; it was left as evidence.
type LostError struct {
	ID    string          // operation and digest
	Fence uint64          // of the attempt that holds the key now
	State State           // of the record
	Raw   json.RawMessage // what the function returned
	Err   error           // why the evidence could not be left, if it could not
}

func (e *LostError) Error() string {
	return fmt.Sprintf("idem: %s: the effect happened, but the key was taken over meanwhile (record %s, fence %d)", e.ID, e.State, e.Fence)
}

func (e *LostError) Unwrap() error { return e.Err }

// UnreadableError: the effect is known to have happened, but its result cannot be given: it was not kept, cannot be opened, or
// does not decode. The function is not run again, and a retry does not help.
type UnreadableError struct {
	ID  string          // operation and digest
	Raw json.RawMessage // the result, where only its decoding failed
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("idem: %s: the effect happened, its result cannot be read: %v", e.ID, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// FailedError is a recorded final failure, replayed: nothing happened, and it is the answer for good.
type FailedError struct {
	ID      string // operation and digest
	Type    string // type name of the first error, as the Lambda runtime reports it
	Message string // of the first error, at most 1 KiB
}

// Error is the first error's own message.
func (e *FailedError) Error() string { return e.Message }

// NotFoundError: [Operation.Look] found no outcome for the key: it was never used, was forgotten, or is known to have done nothing.
type NotFoundError struct {
	ID string // operation and digest
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("idem: %s: nothing is recorded", e.ID) }

var (
	errNotKept = errors.New("it was not kept: too large, or it could not be encoded or sealed")
	errNoTime  = errors.New("too little time is left before the deadline")
	errBusy    = errors.New("the record keeps changing")
)

// foreignError: retrying with this version is no use.
type foreignError struct{}

var errForeign foreignError

func (foreignError) Error() string   { return "the record is in a state that this version does not know" }
func (foreignError) Retryable() bool { return false }

// VerdictError: [Resolve] refused a verdict. Nothing was decided.
type VerdictError struct {
	ID      string    // operation and digest
	Problem string    // what is wrong with it
	Until   time.Time // when "not found" will be believed, if that is what is wrong
}

func (e *VerdictError) Error() string {
	return fmt.Sprintf("idem: %s: nothing was decided: %s", e.ID, e.Problem)
}

// RetryAfter says whether sending the same request again is useful, and when at the earliest. It looks for the outermost error of
// this package; of the function's own errors it knows nothing and says no.
func RetryAfter(err error) (time.Duration, bool) {
	const soon = time.Second
	switch e := err.(type) {
	case *InProgressError:
		return max(e.After, soon), true
	case *IndeterminateError:
		return e.After, e.After > 0
	case *UnavailableError:
		return soon, retryable(e.Err, true)
	case *NotRecordedError:
		return soon, true
	case *RequestError, *MismatchError, *LostError, *UnreadableError, *FailedError, *NotFoundError, *VerdictError:
		return 0, false
	case interface{ Unwrap() error }:
		return RetryAfter(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if after, ok := RetryAfter(inner); ok {
				return after, ok
			}
		}
	}
	return 0, false
}

// retryable is what the chain says of itself, else otherwise.
func retryable(err error, otherwise bool) bool {
	if r, says := errors.AsType[interface {
		error
		Retryable() bool
	}](err); says {
		return r.Retryable()
	}
	return otherwise
}
