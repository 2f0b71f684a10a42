package lambdawrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/idem-go/idem"
)

// Wrap guards a typed handler with an operation that records its results. Give what it returns to lambda.Start.
//
// Id tells which request an event is; it runs before anything is claimed, and its error is returned with nothing written. Where
// it leaves Payload nil, the payload is the event as it was sent: canonical JSON, and an event with duplicate members is
// refused. Id should refuse a key that is not of the form that its source gives: a home-made redrive that wraps the payload once
// more would else make a new key of an old one. The event is decoded as aws-lambda-go does it.
//
// json.RawMessage as In or Out wraps a raw handler, [idem.None] one without input or output. A handler that streams its result
// has no recordable one: [idem.New] refuses its type. A lambda.Handler is not wrapped: what lambda.NewHandler returns hands out
// buffers that are used again. Wrap panics where an argument is nil.
//
// These are refused with an [idem.RequestError] and nothing is written: an event that does not decode; one of another source than
// In is made for, where In is a type of aws-lambda-go; a batch of a tumbling window, since its answer has to carry the
// window's state; a destination record, unless In is [Destination]. A bare array, as EventBridge Pipes sends it, needs a slice or
// json.RawMessage as In. The test event of a new S3 notification is answered with null where In is events.S3Event, and runs
// nothing.
func Wrap[In, Out any](op *idem.Operation[Out], id func(context.Context, In) (idem.Request, error), h func(context.Context, In) (Out, error)) lambda.Handler {
	if op == nil || id == nil || h == nil {
		panic("lambdawrap: Wrap needs an operation, an id function and a handler")
	}
	want := sourceFor(reflect.TypeFor[In]())
	return handler(func(ctx context.Context, event []byte) ([]byte, error) {
		event = bytes.Clone(event) // the runtime's buffer is not ours to keep
		var in In
		from := sourceOf(event)
		if from == s3Test && want == s3 {
			return []byte("null"), nil
		}
		if problem := unfit(from, want); problem != "" {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: problem}
		}
		if err := unmarshal(event, &in); err != nil {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: explained(from, err)}
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

// unfit says why an event is not for a handler of events of the source want, where it is known. It is empty if the event is.
func unfit(from, want source) string {
	switch {
	case from == window:
		return fmt.Sprintf("the event is %s, whose answer has to carry the window's state: set the mapping's TumblingWindowInSeconds to 0, or guard the effect inside the handler with Operation.Do", from)
	case from == destination && want != destination:
		return fmt.Sprintf("the event is %s: invoke the function with its requestPayload, or wrap a handler of lambdawrap.Destination", from)
	case want != "" && from != want:
		return fmt.Sprintf("want %s, the event is %s", want, from)
	}
	return ""
}

func explained(from source, err error) string {
	if from == array {
		return fmt.Sprintf("%v: it is %s; wrap a handler of a slice, or of json.RawMessage", err, from)
	}
	return err.Error()
}

// unmarshal never quotes the event. A decoder that panics, as those of aws-lambda-go do on some DynamoDB attribute values, refuses it.
func unmarshal[In any](event []byte, in *In) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the event does not decode as %T: the decoder panicked", *in)
		}
	}()
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
