package lambdawrap

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// Kinesis guards the handler of a stream's records. Give what it returns to lambda.Start.
//
// The event source mapping must have ReportBatchItemFailures in its FunctionResponseTypes; if it has not, set
// StreamOptions.AllOrNothing. It should also bound its retries (MaximumRetryAttempts or MaximumRecordAgeInSeconds; both are without
// bound by default) and have an OnFailure destination: a record that cannot be handled holds up its shard until then.
//
// Records run in their order. The first one that is not known to be done stops its shard, in this invocation and no longer: it and
// what comes after it are reported as failed, and Lambda goes on at the lowest sequence number reported. A record is not known to
// be done if its handler failed, another attempt holds its key, its outcome is unknown, its key was used with other data, it does not
// decode, or it was not started in time. StreamOptions.Park may decide otherwise. What was done and comes again, as it does when
// a batch is split, is answered from its record: one request to the store, and the handler does not run.
//
// Id tells which request a record is: [KinesisID], or a key out of the data, which is better where there is one, since a producer
// that repeats a put makes another record. Where it leaves Payload nil, the payload is the record's data, byte for byte. Id is called
// for all records before any is run.
//
// The Kinesis Producer Library packs several user records into one. A guarded record is then guarded as a whole; to guard the user
// records, unpack them in a plain handler and call Operation.Do for each with [KinesisUserRecordID].
//
// A record without a sequence number, no records at all, a batch of a tumbling window or an event of another source is an
// [idem.RequestError] for the whole batch, and nothing runs. Kinesis panics where an argument but opts is nil.
func Kinesis[T any](op *idem.Operation[T], id func(context.Context, events.KinesisEventRecord) (idem.Request, error), h func(context.Context, events.KinesisEventRecord) (T, error), opts *StreamOptions[events.KinesisEventRecord]) lambda.Handler {
	refuseNil("Kinesis", op, id, h)
	return guardBatch(op, id, h, readKinesis, opts.batch())
}

// KinesisID identifies a record by its stream and eventID, which is its shard and sequence number; the payload is its data. A
// consumer with enhanced fan-out gets the same keys as one without, so moving to it runs nothing again, and a function that is
// mapped to a stream twice handles a record once. Give operations different names where it should not.
func KinesisID(_ context.Context, r events.KinesisEventRecord) (idem.Request, error) {
	if r.EventSourceArn == "" || r.EventID == "" {
		return idem.Request{}, errors.New("lambdawrap: the Kinesis record has no eventSourceARN or no eventID")
	}
	return idem.Request{Key: naturalKey("kinesis", streamOf(r.EventSourceArn), r.EventID), Payload: r.Kinesis.Data}, nil
}

// KinesisUserRecordID identifies one of the user records that the Kinesis Producer Library packed into a record, by the record and
// the index in it; the payload is the user record's data. All of them have the record's eventID: under [KinesisID] the second would
// be taken for a repetition of the first.
func KinesisUserRecordID(ctx context.Context, r events.KinesisEventRecord, index int, data []byte) (idem.Request, error) {
	whole, err := KinesisID(ctx, r)
	if err != nil {
		return idem.Request{}, err
	}
	return idem.Request{Key: naturalKey("kinesis-user-record", whole.Key, strconv.Itoa(index)), Payload: data}, nil
}

// streamOf is the stream of an event source, which a consumer with enhanced fan-out names as …:stream/name/consumer/….
func streamOf(arn string) string {
	if k := strings.LastIndex(arn, "/consumer/"); k >= 0 {
		return arn[:k]
	}
	return arn
}

// readKinesis keeps nothing of the event's buffer, and never quotes it. A record that has a sequence number and does not decode is its
// own failure alone.
func readKinesis(event []byte) ([]entry[events.KinesisEventRecord], string) {
	records, problem := recordsIn(event, kinesis)
	if problem != "" {
		return nil, problem
	}
	list := make([]entry[events.KinesisEventRecord], len(records))
	for k, raw := range records {
		var sent struct {
			EventID text `json:"eventID"`
			Stream  text `json:"eventSourceARN"`
			Kinesis struct {
				Number text            `json:"sequenceNumber"`
				Data   json.RawMessage `json:"data"`
			} `json:"kinesis"`
		}
		if json.Unmarshal(raw, &sent) != nil || sent.Kinesis.Number == "" {
			return nil, "a record has no sequence number: whether it failed could not be told, and nothing was run"
		}
		number, e := string(sent.Kinesis.Number), &list[k]
		shard, _, _ := strings.Cut(string(sent.EventID), ":")
		e.group = streamOf(string(sent.Stream)) + " " + shard
		e.id, e.name = e.group+" "+number, number
		if json.Unmarshal(raw, &e.record) != nil || !present(sent.Kinesis.Data) {
			e.record = events.KinesisEventRecord{EventID: string(sent.EventID), EventSourceArn: string(sent.Stream), Kinesis: events.KinesisRecord{SequenceNumber: number}}
			e.problem = "the record does not decode, or has no data"
			continue
		}
		e.payload = e.record.Kinesis.Data
	}
	return list, ""
}
