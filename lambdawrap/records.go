package lambdawrap

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// entry is one item of a batch, as the reader of its source found it.
type entry[R any] struct {
	record  R
	id      string // equal for what is the same item to the source
	name    any    // the answer's itemIdentifier for it
	group   string // whose items keep their order; empty for none
	payload any    // what is compared where the id function says nothing
	problem string // why it cannot be handled; empty if it can
}

// batchOptions are the options of an adapter for batches, whatever its source.
type batchOptions[R any] struct {
	workers      int
	reserve      time.Duration
	allOrNothing bool
	park         func(context.Context, R, error) error
	failed       func(context.Context, R, error)
}

// guardBatch guards the handler of a batch's items. What read says of an event as a whole is a RequestError, and nothing runs.
func guardBatch[R, T any](op *idem.Operation[T], id func(context.Context, R) (idem.Request, error), h func(context.Context, R) (T, error), read func(event []byte) ([]entry[R], string), o batchOptions[R]) lambda.Handler {
	return handler(func(ctx context.Context, event []byte) ([]byte, error) {
		entries, problem := read(event)
		if problem != "" {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: problem}
		}
		b := batch{ctx: ctx, items: make([]item, len(entries)), reserve: o.reserve, adapt: o.reserve == 0}
		if deadline, ok := ctx.Deadline(); ok && b.adapt {
			b.reserve = max(300*time.Millisecond, min(2*time.Second, time.Until(deadline)/10))
		}
		for k, e := range entries {
			b.items[k] = itemOf(ctx, op, id, h, o, e)
		}
		b.run(o.workers)
		if o.failed != nil {
			for k, it := range b.items {
				if it.err != nil {
					o.failed(ctx, entries[k].record, it.err)
				}
			}
		}
		failures := b.failures()
		if o.allOrNothing && len(failures) > 0 {
			return nil, &BatchError{Operation: op.Name(), Failed: len(failures), Total: len(entries)}
		}
		names := make([]any, len(failures))
		for k, f := range failures {
			names[k] = entries[f].name
		}
		return batchAnswer(names), nil
	})
}

// itemOf is the item of an entry. It has an error if it is known already that it cannot run.
func itemOf[R, T any](ctx context.Context, op *idem.Operation[T], id func(context.Context, R) (idem.Request, error), h func(context.Context, R) (T, error), o batchOptions[R], e entry[R]) item {
	it := item{id: e.id, group: e.group}
	if e.problem != "" {
		err := &idem.RequestError{Operation: op.Name(), Problem: e.problem}
		if o.park == nil {
			it.err = err
		} else {
			it.run = func() error { return o.park(ctx, e.record, err) } // in its turn, and if there is time
		}
		return it
	}
	r, err := id(ctx, e.record)
	if err != nil {
		it.err = err
		return it
	}
	if r.Payload == nil {
		r.Payload = e.payload
	}
	it.shared = []string{"key " + r.Tenant + "\x00" + r.Key}
	it.run = func() error {
		ran := false
		_, err := op.Do(ctx, r, func(ctx context.Context) (T, error) {
			ran = true
			return h(ctx, e.record)
		})
		if o.park != nil && !ran && parkable(err) {
			err = o.park(ctx, e.record, err)
		}
		return err
	}
	return it
}

// parkable says of a refusal that the same record will get it again until somebody does something about its key. A RequestError is not
// among them: what is wrong with the settings would park every record.
func parkable(err error) bool {
	switch err.(type) {
	case *idem.IndeterminateError, *idem.MismatchError, *idem.FailedError, *idem.UnreadableError:
		return true
	}
	return false
}

// batchAnswer tells which items failed.
func batchAnswer(names []any) []byte {
	type failure struct {
		ItemIdentifier any `json:"itemIdentifier"`
	}
	list := make([]failure, len(names))
	for k, name := range names {
		list[k].ItemIdentifier = name
	}
	return encode(struct {
		BatchItemFailures []failure `json:"batchItemFailures"`
	}{list})
}

// recordsIn is the list of an event's records as they were sent, or what is wrong with the event.
func recordsIn(event []byte, want source) ([]json.RawMessage, string) {
	if problem := unfit(sourceOf(event), want); problem != "" {
		return nil, problem
	}
	var e struct{ Records []json.RawMessage }
	if json.Unmarshal(event, &e) != nil {
		return nil, "the event does not decode as a list of records"
	}
	return e.Records, ""
}

// member is one of a JSON object, as it was sent.
type member struct {
	name  string
	value json.RawMessage
}

// jsonOf is a JSON object of what was sent. What was not is null.
func jsonOf(members ...member) json.RawMessage {
	text := []byte{'{'}
	for k, m := range members {
		if k > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), m.name...), `":`...)
		if len(m.value) == 0 {
			m.value = json.RawMessage("null")
		}
		text = append(text, m.value...)
	}
	return append(text, '}')
}
