// Package lambdawrap makes existing Lambda handlers idempotent.
//
// [Wrap] decorates a typed handler. The handler stays as it is; what identifies a request is told by a function beside it.
// The fingerprint is of the event as it was sent, and a replay answers with the bytes that were answered first.
//
// # What Lambda sees
//
// A refusal is one of the error types of package idem, and their names are the errorType that Step Functions' Retry and Catch
// match: InProgressError, MismatchError, IndeterminateError, UnavailableError, and so on. A handler's own error is returned as
// it is. A final failure has the type name of the first error on every delivery.
package lambdawrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/idem-go/idem"
)

// Wrap guards a typed handler with an operation that records its results. Give what it returns to lambda.Start.
//
// Id tells which request an event is; it runs before anything is claimed, and its error is returned with nothing written. Where
// it leaves Payload nil, the payload is the event as it was sent: canonical JSON, and an event with duplicate members is
// refused. The event is decoded as aws-lambda-go does it.
//
// json.RawMessage as In or Out wraps a raw handler, [idem.None] one without input or output. A handler that streams its result
// has no recordable one: [idem.New] refuses its type. A lambda.Handler is not wrapped: what lambda.NewHandler returns hands out
// buffers that are used again. Wrap panics where an argument is nil.
func Wrap[In, Out any](op *idem.Operation[Out], id func(context.Context, In) (idem.Request, error), h func(context.Context, In) (Out, error)) lambda.Handler {
	if op == nil || id == nil || h == nil {
		panic("lambdawrap: Wrap needs an operation, an id function and a handler")
	}
	return handler(func(ctx context.Context, event []byte) ([]byte, error) {
		event = bytes.Clone(event) // the runtime's buffer is not ours to keep
		var in In
		if err := unmarshal(event, &in); err != nil {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: err.Error()}
		}
		r, err := id(ctx, in)
		if err != nil {
			return nil, err
		}
		if r.Payload == nil {
			r.Payload = json.RawMessage(event)
		}
		res, err := op.Do(ctx, r, func(ctx context.Context) (Out, error) { return h(ctx, in) })
		if err != nil {
			return nil, outward(err)
		}
		if len(res.Raw) == 0 { // a raw handler's empty answer
			return []byte("null"), nil
		}
		return res.Raw, nil
	})
}

type handler func(context.Context, []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, event []byte) ([]byte, error) { return h(ctx, event) }

// unmarshal never quotes the event.
func unmarshal[In any](event []byte, in *In) error {
	switch p := any(in).(type) {
	case *json.RawMessage:
		*p = event
		return nil
	case *idem.None:
		return nil
	}
	if err := json.Unmarshal(event, in); err != nil {
		return fmt.Errorf("the event does not decode as %T", *in)
	}
	return nil
}

// outward is an error as it leaves to the runtime, which reports the outermost type's name. A replayed failure has the name of
// the first one only as messages.InvokeResponse_Error, by value.
func outward(err error) error {
	if f, ok := err.(*idem.FailedError); ok {
		return messages.InvokeResponse_Error{Type: f.Type, Message: f.Message}
	}
	return err
}
