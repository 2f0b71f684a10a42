package lambdawrap

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idem-go/idem"
)

// The functions below, and those beside the adapters of streams, identify events that carry an identity of their own. They leave Tenant empty, as an operation
// wants it that is SingleTenant; for another one, set it in a function around them. None sets Issued: the times in events are set by
// producers, and a redrive or a replay moves them.

// SNSID identifies a notification by its topic and MessageId; the payload is the message. Deliveries that SNS repeats are the
// same request; a producer's second publish is not: a key out of the message is better where there is one.
func SNSID(_ context.Context, e events.SNSEvent) (idem.Request, error) {
	if len(e.Records) != 1 {
		return idem.Request{}, fmt.Errorf("lambdawrap: the event has %d notifications: guard each with Operation.Do", len(e.Records))
	}
	return snsRequest(e.Records[0].SNS.TopicArn, e.Records[0].SNS.MessageID, e.Records[0].SNS.Message)
}

// SNSInSQSID identifies a message that an SNS topic sent to the queue by the notification inside: the topic and SNS's own MessageId. A
// delivery that SNS repeats is another SQS message, and the same request. The payload is the notification's message, not the envelope,
// whose signature changes. With raw message delivery there is no envelope and no such id: it is an error.
func SNSInSQSID(_ context.Context, m events.SQSMessage) (idem.Request, error) {
	var e struct{ Type, TopicArn, MessageId, Message string }
	if json.Unmarshal([]byte(m.Body), &e) != nil || e.Type != "Notification" {
		return idem.Request{}, errors.New("lambdawrap: the body is no SNS notification: with raw message delivery take the key from the message")
	}
	return snsRequest(e.TopicArn, e.MessageId, e.Message)
}

func snsRequest(topic, id, message string) (idem.Request, error) {
	if topic == "" || id == "" {
		return idem.Request{}, errors.New("lambdawrap: the notification has no TopicArn or no MessageId")
	}
	return idem.Request{Key: naturalKey("sns", topic, id), Payload: []byte(message)}, nil
}

// S3ID identifies a notification about an object: bucket, key, version, eTag, event name and sequencer. Keys are compared as they
// are, not as the event encodes them ("a+b" and "a%20b" are one). Events without a sequencer, such as those about tags, are told
// apart by the request that caused them; one that has neither is an error.
func S3ID(_ context.Context, e events.S3Event) (idem.Request, error) {
	if len(e.Records) != 1 {
		return idem.Request{}, fmt.Errorf("lambdawrap: the event has %d records: guard each with Operation.Do", len(e.Records))
	}
	r := e.Records[0]
	o := r.S3.Object
	cause := "sequencer " + o.Sequencer
	if o.Sequencer == "" {
		cause = "request " + r.ResponseElements["x-amz-request-id"]
	}
	switch {
	case r.S3.Bucket.Name == "" || o.URLDecodedKey == "":
		return idem.Request{}, errors.New("lambdawrap: the S3 event has no bucket or no key")
	case cause == "request ":
		return idem.Request{}, errors.New("lambdawrap: the S3 event has neither a sequencer nor the id of the request that caused it: take the key from elsewhere")
	}
	return idem.Request{
		Key:     naturalKey("s3", r.S3.Bucket.Name, o.URLDecodedKey, o.VersionID, o.ETag, r.EventName, cause),
		Payload: idem.AnyPayload{}, // all that counts is in the key
	}, nil
}

// EventBridgeID identifies an event by its id; the payload is source, detail-type and detail. Events replayed from an archive keep
// their id. A producer's second PutEvents makes another one: an id out of the detail is better where there is one. Where several
// rules invoke one function with one event, the function runs once.
func EventBridgeID(_ context.Context, e events.EventBridgeEvent) (idem.Request, error) {
	if e.ID == "" {
		return idem.Request{}, errors.New("lambdawrap: the EventBridge event has no id")
	}
	payload, err := json.Marshal(struct {
		Source     string          `json:"source"`
		DetailType string          `json:"detail-type"`
		Detail     json.RawMessage `json:"detail"`
	}{e.Source, e.DetailType, e.Detail})
	if err != nil {
		return idem.Request{}, errors.New("lambdawrap: the EventBridge event's detail is not valid JSON") // the cause may quote it
	}
	return idem.Request{Key: naturalKey("eventbridge", e.AccountID, e.Region, e.ID), Payload: json.RawMessage(payload)}, nil
}

// AsyncID identifies an asynchronous invocation by its request id, which Lambda's own retries keep. Whoever invokes again gets
// another one, an SDK that retries among them: for synchronous invocations a key in the payload is needed.
func AsyncID[In any](ctx context.Context, _ In) (idem.Request, error) {
	lc, ok := lambdacontext.FromContext(ctx)
	if !ok || lc.AwsRequestID == "" {
		return idem.Request{}, errors.New("lambdawrap: the context has no Lambda request id")
	}
	return idem.Request{Key: naturalKey("async", lc.AwsRequestID)}, nil
}

// naturalKey makes one key of parts of any length and content, so that no two lists of parts have the same.
func naturalKey(kind string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return kind + ":" + hex.EncodeToString(h.Sum(nil))
}
