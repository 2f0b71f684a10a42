package dynamo

import (
	"errors"
	"fmt"
	"net"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idem-go/idem"
)

// Every error of a [Store] has a method Retryable() bool. Messages name the call, DynamoDB's error code, the HTTP status and the
// request id; never DynamoDB's own text, which may quote values, and so never a key, a tenant or a payload.
var (
	// ErrNotAdopted says that the table was restored or copied and that no operator adopted it, or that another table took its
	// place: a key whose receipt was lost must not be taken for new. Nothing ran, and no retry helps before "idem adopt".
	ErrNotAdopted = errors.New("table is not adopted")

	// ErrHotKey says that DynamoDB throttles a range of keys, not the table: one key gets more requests than a partition serves
	// (1,000 writes a second). More capacity does not help.
	ErrHotKey = errors.New("too many requests for one key")
)

// refusedError is a call that this package did not send, because it can never succeed.
type refusedError struct{ problem string }

func refusef(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

func (e *refusedError) Error() string { return e.problem + "; nothing was written" }

// Retryable says that sending the same again is no use.
func (*refusedError) Retryable() bool { return false }

// staleError is a write for another generation of the table.
type staleError struct{ record, table uint32 }

func (e *staleError) Error() string {
	return fmt.Sprintf("record is of generation %d, the table of %d", e.record, e.table)
}

// Retryable says that sending the same again is no use.
func (*staleError) Retryable() bool { return false }

// unreadableError is an item that this version cannot read.
type unreadableError struct{ problem string }

func (e *unreadableError) Error() string { return e.problem }

// Retryable says that reading it again is no use.
func (*unreadableError) Retryable() bool { return false }

// doubtError is a write that may have been applied, for another reason than the call itself.
type doubtError struct{ err error }

func (e *doubtError) Error() string   { return idem.ErrAmbiguous.Error() + ": " + e.err.Error() }
func (e *doubtError) Unwrap() []error { return []error{idem.ErrAmbiguous, e.err} }
func (e *doubtError) Retryable() bool { return retryable(e.err) }

// retryable is what an error says of itself; one that says nothing may be gone next time.
func retryable(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Retryable() bool
	}](err)
	return !ok || r.Retryable()
}

// callError is a call that did not end well, after all its attempts.
type callError struct {
	call      string // UpdateItem, say
	attempts  int
	class     class // of the last answer
	ambiguous bool  // a write of which any attempt may have been applied
	done      error // the caller's context, if that ended it
	err       error // of the last attempt; nil if there was none
}

func (e *callError) Error() string {
	var b strings.Builder
	b.WriteString(e.call)
	if e.err != nil {
		fmt.Fprintf(&b, ": %s%s", e.class.what, detail(e.err))
		if e.class == answerBarred { // an error of our own
			fmt.Fprintf(&b, ": %v", e.err)
		}
	}
	if e.attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.attempts)
	}
	if e.done != nil {
		fmt.Fprintf(&b, ": %v", e.done)
	}
	switch {
	case e.ambiguous:
		b.WriteString("; it may have been applied")
	case e.call == "UpdateItem", e.call == "TransactWriteItems":
		b.WriteString("; nothing was written")
	}
	return b.String()
}

// Unwrap gives what callers may ask for, and the SDK's own error last.
func (e *callError) Unwrap() []error {
	errs := make([]error, 0, 4)
	if e.ambiguous {
		errs = append(errs, idem.ErrAmbiguous)
	}
	if isHotKey(e.err) {
		errs = append(errs, ErrHotKey)
	}
	if e.done != nil {
		errs = append(errs, e.done)
	}
	if e.err != nil {
		errs = append(errs, e.err)
	}
	return errs
}

// Retryable says whether sending the same again may help.
func (e *callError) Retryable() bool {
	if e.class == answerBarred {
		return retryable(e.err)
	}
	return e.class.pace != never
}

// detail tells an error without its free text.
func detail(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		s := " (" + api.ErrorCode()
		if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
			s += fmt.Sprintf(", status %d", r.HTTPStatusCode())
		}
		if r, ok := errors.AsType[*awshttp.ResponseError](err); ok && r.RequestID != "" {
			s += ", request " + r.RequestID
		}
		return s + ")"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf(" (%s: %s)", dns.Name, dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Sprintf(" (%v)", op)
	}
	return ""
}
