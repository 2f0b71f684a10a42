package lambdawrap

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// DynamoDBStream guards the handler of a table's stream. It is [Kinesis] for DynamoDB: the same order, checkpoint and refusals.
//
// Id tells which request a record is: [DynamoDBStreamID], or a key out of the item. Where it leaves Payload nil, the payload is the
// record's eventName, userIdentity, Keys, NewImage and OldImage as they were sent. A deletion by Time to Live is a REMOVE with a
// userIdentity whose PrincipalID is dynamodb.amazonaws.com.
//
// A record with an attribute value that is not one of DynamoDB's types, or has no keys, fails alone. What reaches id and handler
// has values only that can be read, with the accessor of their DataType, and marshalled.
func DynamoDBStream[T any](op *idem.Operation[T], id func(context.Context, events.DynamoDBEventRecord) (idem.Request, error), h func(context.Context, events.DynamoDBEventRecord) (T, error), opts *StreamOptions[events.DynamoDBEventRecord]) lambda.Handler {
	refuseNil("DynamoDBStream", op, id, h)
	return guardBatch(op, id, h, readDynamoDB, opts.batch())
}

// DynamoDBStreamID identifies a change by its stream and eventID. Two changes of an item have two ids, a deletion by a user and one
// by Time to Live among them. A table that was made again under its name has another stream, as has one whose stream was
// switched off and on.
func DynamoDBStreamID(_ context.Context, r events.DynamoDBEventRecord) (idem.Request, error) {
	if r.EventSourceArn == "" || r.EventID == "" {
		return idem.Request{}, errors.New("lambdawrap: the DynamoDB record has no eventSourceARN or no eventID")
	}
	return idem.Request{Key: naturalKey("dynamodb", r.EventSourceArn, r.EventID)}, nil
}

// readDynamoDB keeps nothing of the event's buffer, and never quotes it. A batch is of one shard, which its records do not tell.
func readDynamoDB(event []byte) ([]entry[events.DynamoDBEventRecord], string) {
	records, problem := recordsIn(event, dynamoStream)
	if problem != "" {
		return nil, problem
	}
	list := make([]entry[events.DynamoDBEventRecord], len(records))
	for k, raw := range records {
		var sent struct {
			EventID text            `json:"eventID"`
			Name    json.RawMessage `json:"eventName"`
			Stream  text            `json:"eventSourceARN"`
			User    json.RawMessage `json:"userIdentity"`
			Change  struct {
				Number   text `json:"SequenceNumber"`
				Keys     json.RawMessage
				NewImage json.RawMessage
				OldImage json.RawMessage
			} `json:"dynamodb"`
		}
		if json.Unmarshal(raw, &sent) != nil || sent.Change.Number == "" {
			return nil, "a record has no sequence number: whether it failed could not be told, and nothing was run"
		}
		number, e, c := string(sent.Change.Number), &list[k], sent.Change
		e.group = "shard of " + string(sent.Stream)
		e.id, e.name = e.group+" "+number, number
		if !present(c.Keys) || !attributesIn(c.Keys) || !attributesIn(c.NewImage) || !attributesIn(c.OldImage) || json.Unmarshal(raw, &e.record) != nil {
			e.record = events.DynamoDBEventRecord{EventID: string(sent.EventID), EventSourceArn: string(sent.Stream), Change: events.DynamoDBStreamRecord{SequenceNumber: number}}
			e.problem = "the record does not decode, has no keys, or has an attribute value that is not one of DynamoDB's types"
			continue
		}
		e.payload = jsonOf(member{"eventName", sent.Name}, member{"userIdentity", sent.User}, member{"Keys", c.Keys}, member{"NewImage", c.NewImage}, member{"OldImage", c.OldImage})
	}
	return list, ""
}

// attributesIn says that an image, if there is one, has attribute values only as DynamoDB writes them. On others the types of aws-lambda-go
// panic, while they decode, when they are read or when they are marshalled.
func attributesIn(image json.RawMessage) bool {
	if !present(image) {
		return true
	}
	var v any
	return json.Unmarshal(image, &v) == nil && attributes(v, 0)
}

const maxAttributeDepth = 32 // DynamoDB's own limit

func attributes(v any, depth int) bool {
	m, ok := v.(map[string]any)
	for _, v := range m {
		ok = ok && attribute(v, depth)
	}
	return ok
}

func attribute(v any, depth int) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 || depth > maxAttributeDepth {
		return false
	}
	for kind, v := range m {
		switch kind {
		case "S", "N", "B":
			return isString(v)
		case "BOOL":
			_, ok := v.(bool)
			return ok
		case "NULL":
			return v == true
		case "SS", "NS", "BS":
			return every(v, isString)
		case "L":
			return every(v, func(v any) bool { return attribute(v, depth+1) })
		case "M":
			return attributes(v, depth+1)
		}
	}
	return false
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func every(v any, is func(any) bool) bool {
	list, ok := v.([]any)
	for _, v := range list {
		ok = ok && is(v)
	}
	return ok
}
