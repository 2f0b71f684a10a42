package kmstest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Fault is what becomes of calls. Of several faults that match a call, the one that was set last counts.
type Fault struct {
	Operation string                               // GenerateDataKey, Decrypt or ReEncrypt; empty is any
	Key       string                               // id or ARN that the call names; empty is any
	Where     func(context map[string]string) bool // encryption context; nil is any
	Times     int                                  // how many calls; 0 is all until the fault's end

	Delay  time.Duration // passes first, unless the caller's context ends
	Hang   bool          // nothing comes until the caller's context ends
	Err    error         // comes instead of an answer, and nothing is done: see Throttled and its like
	Answer func(*Answer) // changes the answer

	_ struct{}
}

// Answer is what a [Fault] may change: bytes, and ARNs. What the operation does not answer with is empty.
type Answer struct {
	KeyID, SourceKeyID    string
	Plaintext, Ciphertext []byte
}

type fault struct {
	Fault
	left int // -1 is without end
}

// Throttled is the error of too many requests.
func Throttled() error {
	return &smithy.GenericAPIError{Code: "ThrottlingException", Message: "You have exceeded the rate at which you may call KMS.", Fault: smithy.FaultClient}
}

// Internal is a fault of the service, with status 500.
func Internal() error { return &types.KMSInternalException{} }

// Denied is the answer to a role that lacks the right.
func Denied() error {
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "User: arn:aws:sts::111122223333:assumed-role/function is not authorized to perform this operation", Fault: smithy.FaultClient}
}

// CutOff is a connection that ended within the answer.
func CutOff() error { return io.ErrUnexpectedEOF }

// Fail sets a fault, and returns what ends it.
func (k *KMS) Fail(f Fault) (end func()) {
	x := &fault{Fault: f, left: f.Times}
	if f.Times == 0 {
		x.left = -1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, x)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		x.left = 0
	}
}

// strike takes the fault of a call. The lock is held.
func (k *KMS) strike(r request) Fault {
	for i := len(k.faults) - 1; i >= 0; i-- {
		f := k.faults[i]
		if f.left == 0 || f.Operation != "" && f.Operation != r.operation || f.Where != nil && !f.Where(maps.Clone(r.context)) {
			continue
		}
		if f.Key != "" && (k.find(f.Key) == nil || k.find(f.Key) != k.find(r.keyID)) {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		return f.Fault
	}
	return Fault{}
}

// Call is one request that came in.
type Call struct {
	Operation     string
	KeyID         string            // as named; the destination of ReEncrypt
	Context       map[string]string // of the destination of ReEncrypt
	SourceContext map[string]string // of ReEncrypt
	Tries         int               // how often the SDK would send it, by the options of the call; 0 is the client's default
	Err           error             // that it was answered with
}

// Calls are the calls so far in the order of their answers.
func (k *KMS) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Call(nil), k.calls...)
}

// Count is how many calls of an operation came in; of all of them if it is empty.
func (k *KMS) Count(operation string) (n int) {
	for _, c := range k.Calls() {
		if operation == "" || c.Operation == operation {
			n++
		}
	}
	return n
}

// serve answers a call: its fault, then its parameters, then what it does.
func (k *KMS) serve(ctx context.Context, r request, opts []func(*kms.Options), do func() (Answer, smithy.APIError)) (Answer, error) {
	k.mu.Lock()
	f := k.strike(r)
	k.mu.Unlock()
	var a Answer
	err := f.wait(ctx)
	if err == nil && f.Err != nil {
		err = f.Err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		refused := r.check()
		if refused == nil {
			a, refused = do()
		}
		if refused != nil {
			err = refused
		}
	}
	if err == nil && f.Answer != nil {
		f.Answer(&a)
	}
	if err != nil {
		err = asSDK(r.operation, err, len(k.calls))
	}
	k.calls = append(k.calls, Call{r.operation, r.keyID, maps.Clone(r.context), maps.Clone(r.source), tries(opts), err})
	if err != nil {
		return Answer{}, err
	}
	return a.clone(), nil
}

func tries(opts []func(*kms.Options)) int {
	var o kms.Options
	for _, opt := range opts {
		opt(&o)
	}
	if o.Retryer == nil {
		return 0
	}
	return o.Retryer.MaxAttempts()
}

func (f Fault) wait(ctx context.Context) error {
	if f.Hang {
		<-ctx.Done()
	} else if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if err := ctx.Err(); err != nil {
		return &aws.RequestCanceledError{Err: err}
	}
	return nil
}

// asSDK wraps an error as the SDK's client does.
func asSDK(operation string, err error, n int) error {
	if api, ok := err.(smithy.APIError); ok {
		status := http.StatusBadRequest
		if api.ErrorFault() == smithy.FaultServer {
			status = http.StatusInternalServerError
		}
		err = &awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: http.Header{}}}, Err: err},
			RequestID:     fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
		}
	}
	return &smithy.OperationError{ServiceID: "KMS", OperationName: operation, Err: err}
}
