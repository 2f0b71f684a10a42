package lambdawrap

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// SQSOptions of [SQS]. A zero field means its default.
type SQSOptions struct {
	// Concurrency is how many messages may run at the same time. Messages of one FIFO group, and those with the same key, never do.
	// Default: 1, and the handler runs on the invocation's own goroutine.
	Concurrency int

	// Reserve is the time that must be left for another message to be started. Default: what an operation keeps to record an
	// outcome, and on top as long as the slowest message of this invocation took.
	Reserve time.Duration

	// AllOrNothing is for event source mappings without ReportBatchItemFailures, where an answer with failures in it counts as
	// success and the failed messages are lost: any failure makes the invocation fail with a [BatchError].
	AllOrNothing bool

	// Failed is called for every message that is reported as failed, after the others have ended, on the invocation's goroutine.
	// Nobody else is told of the error.
	Failed func(context.Context, events.SQSMessage, error)

	_ struct{}
}

// SQS guards the handler of a queue's messages, standard or FIFO. Give what it returns to lambda.Start.
//
// The event source mapping must have ReportBatchItemFailures in its FunctionResponseTypes; if it has not, set
// SQSOptions.AllOrNothing. Whatever is not known to be done is reported as a failed item: a message whose key is held by
// another attempt, was used with another body or has an unknown outcome, and one that was not started.
//
// Id tells which request a message is. There is no default: a message gets a new messageId when its producer repeats it and when it
// is redriven from a dead letter queue, and a FIFO queue's dead letter queue replaces the deduplication id. Take the key from
// the business: an order's number, a payment's id; or use [SNSInSQSID] for messages that come from an SNS topic. Where it leaves
// Payload nil, the payload is the body, byte for byte, and the message attributes; where a producer adds attributes that
// change, as tracing does, set it to []byte(m.Body). Id is called for all messages before any is run.
//
// A message whose outcome is unknown fails until its record is settled, or the queue moves it to its dead letter queue.
//
// In a FIFO queue a message that fails, or is not started, stops the later ones of its group, in this invocation and no longer. Other
// groups go on. The same message twice in one batch, or two with one key, run one after the other.
//
// With Concurrency above 1 messages run on goroutines, which all have ended when the invocation ends; a panic of one goes on after
// that, with its value. A message without messageId, no messages at all, or an event of another source is an [idem.RequestError] for
// the whole batch, and nothing runs: an answer would make SQS delete what nobody handled. SQS panics where an argument but opts
// is nil.
func SQS[T any](op *idem.Operation[T], id func(context.Context, events.SQSMessage) (idem.Request, error), h func(context.Context, events.SQSMessage) (T, error), opts *SQSOptions) lambda.Handler {
	refuseNil("SQS", op, id, h)
	var o SQSOptions
	if opts != nil {
		o = *opts
	}
	return guardBatch(op, id, h, readSQS, batchOptions[events.SQSMessage]{
		workers: o.Concurrency, reserve: o.Reserve, allOrNothing: o.AllOrNothing, failed: o.Failed,
	})
}

// readSQS keeps nothing of the event's buffer, and never quotes it. A message that has an id and does not decode is its own failure alone.
func readSQS(event []byte) ([]entry[events.SQSMessage], string) {
	records, problem := recordsIn(event, sqs)
	if problem != "" {
		return nil, problem
	}
	messages := make([]entry[events.SQSMessage], len(records))
	for k, raw := range records {
		m := &messages[k]
		var sent struct {
			ID         text            `json:"messageId"`
			Body       json.RawMessage `json:"body"`
			Attributes json.RawMessage `json:"messageAttributes"`
		}
		if json.Unmarshal(raw, &sent) != nil || sent.ID == "" {
			return nil, "a message has no messageId: whether it failed could not be told, and nothing was run"
		}
		m.id, m.name = string(sent.ID), string(sent.ID)
		bad := json.Unmarshal(raw, &m.record) != nil || !present(sent.Body)
		m.group = groupOf(m.record)
		if bad {
			m.record.MessageId, m.problem = m.id, "the message does not decode"
			continue
		}
		if !present(sent.Attributes) {
			sent.Attributes = json.RawMessage("{}")
		}
		m.payload = jsonOf(member{"body", sent.Body}, member{"messageAttributes", sent.Attributes})
	}
	return messages, ""
}

// groupOf is what keeps a message in order with others. Messages of standard queues may have a group, too, for fairness: that is no
// order.
func groupOf(m events.SQSMessage) string {
	group := m.Attributes["MessageGroupId"]
	if strings.HasSuffix(m.EventSourceARN, ".fifo") || m.EventSourceARN == "" && group != "" {
		return m.EventSourceARN + " " + group
	}
	return ""
}
