package lambdawrap

import (
	"context"
	"time"

	"github.com/idem-go/idem"
)

// StreamOptions of [Kinesis], [DynamoDBStream] and [Kafka]. A zero field means its default.
type StreamOptions[R any] struct {
	// Concurrency is how many partitions may run at the same time. Records of one partition never do, nor those with the same
	// key. A batch of Kinesis or DynamoDB is of one shard, and runs in its order. Default: 1, and the handler runs on the
	// invocation's own goroutine.
	Concurrency int

	// Reserve is the time that must be left for another record to be started. Default: what an operation keeps to record an
	// outcome, and on top as long as the slowest record of this invocation took.
	Reserve time.Duration

	// AllOrNothing is for event source mappings without ReportBatchItemFailures, where an answer with failures in it counts as
	// success and the failed records are lost: any failure makes the invocation fail with a [BatchError].
	AllOrNothing bool

	// Park is asked about a record that would hold up its shard or partition: one whose outcome is unknown, whose key was used
	// with another payload, that failed for good, whose result cannot be read, or that does not decode. The error says which; it
	// is a type of package idem. The handler has not run for the record in this invocation.
	//
	// If it returns nil, the record counts as handled and the ones after it run: it acknowledges a record whose outcome is unknown,
	// and gives up the order. What idem stores of the record stays, for an operator or a sweep to settle. Park should leave
	// the record where somebody finds it, such as in a queue, and its own error is the record's. Where the operation has a
	// reconciler, [idem.RetryAfter] says whether a retry may still get an answer: return the error then. Park is called in the
	// record's turn, with Concurrency on several goroutines. Default: none, and the record stops its shard or partition.
	Park func(context.Context, R, error) error

	// Failed is called for every record that is reported as failed, after the others have ended, on the invocation's goroutine.
	// Nobody else is told of the error.
	Failed func(context.Context, R, error)

	_ struct{}
}

func (o *StreamOptions[R]) batch() batchOptions[R] {
	if o == nil {
		return batchOptions[R]{}
	}
	return batchOptions[R]{workers: o.Concurrency, reserve: o.Reserve, allOrNothing: o.AllOrNothing, park: o.Park, failed: o.Failed}
}

// refuseNil panics where an argument that an adapter needs is nil.
func refuseNil[R, T any](name string, op *idem.Operation[T], id func(context.Context, R) (idem.Request, error), h func(context.Context, R) (T, error)) {
	if op == nil || id == nil || h == nil {
		panic("lambdawrap: " + name + " needs an operation, an id function and a handler")
	}
}
