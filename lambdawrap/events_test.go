package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// once guards a handler of In, and counts its runs.
func once[In any](t testing.TB, store idem.Store, o *idem.Options, id func(context.Context, In) (idem.Request, error), runs *int) lambda.Handler {
	if o == nil {
		o = &idem.Options{}
	}
	o.SingleTenant = true
	return lambdawrap.Wrap(operation[string](t, store, o), id, func(context.Context, In) (string, error) {
		*runs++
		return rand(), nil
	})
}

// refused invokes and expects a RequestError that says something.
func refused(t *testing.T, h lambda.Handler, event string, says ...string) {
	t.Helper()
	out, err := h.Invoke(invoked(t), []byte(event))
	e, ok := err.(*idem.RequestError)
	if !ok {
		t.Errorf("%s: %s, %T %v", event, out, err, err)
		return
	}
	for _, s := range says {
		if !strings.Contains(e.Error(), s) {
			t.Errorf("%q does not say %q", e, s)
		}
	}
}

// source is an event of one source, to be varied.
type source struct {
	name         string
	open         func(testing.TB, idem.Store, *idem.Options, func() (string, error)) lambda.Handler
	event, other string // other: the same identity, another content; empty if the identity is all there is
	next         string // another identity
}

func eventSource[In any](name string, id func(context.Context, In) (idem.Request, error), event, other, next string) source {
	return source{name, func(t testing.TB, store idem.Store, o *idem.Options, h func() (string, error)) lambda.Handler {
		o.SingleTenant = true
		return lambdawrap.Wrap(operation[string](t, store, o), id, func(context.Context, In) (string, error) { return h() })
	}, event, other, next}
}

const (
	snsEvent    = `{"Records":[{"EventSource":"aws:sns","EventSubscriptionArn":"s","Sns":{"TopicArn":"arn:t","MessageId":"m-1","Message":"text","Signature":"x"}}]}`
	s3Event     = `{"Records":[{"eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"a+b","eTag":"e","sequencer":"0A"}}}]}`
	bridgeEvent = `{"version":"0","id":"e-1","detail-type":"Paid","source":"shop","account":"1","time":"2026-12-01T00:00:00Z","region":"r","resources":[],"detail":{"a":12345678901234567890}}`
	task        = `{"execution":"arn:aws:states:r:1:execution:m:x","state":"Pay","input":{"a":1}}`
)

// taskID: Step Functions says nothing of itself, so the state machine passes $$.Execution.Id and the state's name.
func taskID(_ context.Context, e struct{ Execution, State string }) (idem.Request, error) {
	if e.Execution == "" || e.State == "" {
		return idem.Request{}, errors.New("the task does not pass $$.Execution.Id and its state")
	}
	return idem.Request{Key: e.Execution + " " + e.State}, nil
}

var sources = []source{
	eventSource("SNS", lambdawrap.SNSID, snsEvent, strings.Replace(snsEvent, "text", "other", 1), strings.Replace(snsEvent, "m-1", "m-2", 1)),
	eventSource("S3", lambdawrap.S3ID, s3Event, "", strings.Replace(s3Event, "0A", "0B", 1)),
	eventSource("EventBridge", lambdawrap.EventBridgeID, bridgeEvent, strings.Replace(bridgeEvent, "890}", "891}", 1), strings.Replace(bridgeEvent, "e-1", "e-2", 1)),
	eventSource("Step Functions", taskID, task, strings.Replace(task, `"a":1`, `"a":2`, 1), strings.Replace(task, "Pay", "Refund", 1)),
	eventSource("direct", func(_ context.Context, o order) (idem.Request, error) { return idem.Request{Key: o.ID}, nil }, event, strings.Replace(event, "890}", "891}", 1), strings.Replace(event, "o-1", "o-2", 1)),
}

func TestEventSources(t *testing.T) {
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			store, runs := idemtest.NewMemory(t), 0
			var fail error
			h := s.open(t, store, &idem.Options{}, func() (string, error) { runs++; return fmt.Sprint("run ", runs), fail })
			call := func(event, want string) error {
				t.Helper()
				out, err := h.Invoke(invoked(t), []byte(event))
				if string(out) != want {
					t.Errorf("got %s, %v; want %s", out, err, want)
				}
				return err
			}
			store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
			if err, ok := call(s.event, "").(*idem.UnavailableError); !ok {
				t.Errorf("store down: %v", err)
			}
			store.Fail(nil)
			call(s.event, `"run 1"`)
			call(s.event, `"run 1"`)
			if s.other != "" {
				if err, ok := call(s.other, "").(*idem.MismatchError); !ok {
					t.Errorf("other content: %v", err)
				}
			}
			fail = errors.New("who knows")
			if err := call(s.next, ""); err != fail {
				t.Errorf("failed: %v", err)
			}
			if err, ok := call(s.next, "").(*idem.IndeterminateError); !ok {
				t.Errorf("indeterminate: %v", err)
			}
			if runs != 2 {
				t.Errorf("%d runs", runs)
			}
		})
		t.Run(s.name+"/receipt lost", func(t *testing.T) {
			store := idemtest.NewMemory(t)
			h := s.open(t, store, &idem.Options{}, func() (string, error) { return "done", nil })
			store.Fail(func(call string, _ idem.ID) (bool, error) {
				if call == "Swap" || call == "Load" {
					return false, idem.ErrAmbiguous
				}
				return false, nil
			})
			_, err := h.Invoke(invoked(t), []byte(s.event))
			if _, ok := err.(*idem.NotRecordedError); !ok {
				t.Errorf("%T %v", err, err)
			}
			store.Fail(nil)
			_, err = h.Invoke(invoked(t), []byte(s.event))
			if _, ok := err.(*idem.InProgressError); !ok {
				t.Errorf("%T %v", err, err)
			}
			store.Advance(time.Minute)
			_, err = h.Invoke(invoked(t), []byte(s.event))
			if _, ok := err.(*idem.IndeterminateError); !ok {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}

func s3Notification(name, object, responseElements string) string {
	return `{"Records":[{"eventSource":"aws:s3","eventName":"` + name + `","responseElements":` + responseElements + `,"s3":{"bucket":{"name":"b"},"object":` + object + `}}]}`
}

// Keys are form-encoded, deletes have neither eTag nor version, events about tags no sequencer, and a new notification begins with a
// test event. aws-lambda-go#82, boto/boto3#1204, open-telemetry/opentelemetry-collector-contrib PR#45364, minio/minio#18272.
func TestIdentityOfS3Events(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	var seen events.S3Event
	h := lambdawrap.Wrap(operation[idem.None](t, store, &idem.Options{SingleTenant: true}), lambdawrap.S3ID, func(_ context.Context, e events.S3Event) (idem.None, error) {
		runs++
		seen = e
		return idem.None{}, nil
	})
	call := func(event string, run bool) {
		t.Helper()
		before := runs
		if out, err := h.Invoke(invoked(t), []byte(event)); err != nil || string(out) != "null" || runs-before != map[bool]int{true: 1}[run] {
			t.Errorf("%s: %s, %v, %d runs", event, out, err, runs-before)
		}
	}
	put := func(key string) string {
		return s3Notification("ObjectCreated:Put", `{"key":"`+key+`","eTag":"e","sequencer":"0A"}`, `{}`)
	}
	call(put("a+b"), true)
	if o := seen.Records[0].S3.Object; o.Key != "a+b" || o.URLDecodedKey != "a b" {
		t.Errorf("handler saw %+v", o)
	}
	call(put("a%20b"), false)
	call(put("a%2Bb"), true)

	for _, sequencer := range []string{"1", "02", "0003"} { // put, delete, put
		call(s3Notification("ObjectRemoved:Delete", `{"key":"d","sequencer":"`+sequencer+`"}`, `{}`), true)
		call(s3Notification("ObjectRemoved:Delete", `{"key":"d","sequencer":"`+sequencer+`"}`, `{}`), false)
	}
	for _, request := range []string{"R1", "R2"} {
		tagged := s3Notification("ObjectTagging:Put", `{"key":"t","versionId":"v","eTag":"e"}`, `{"x-amz-request-id":"`+request+`"}`)
		call(tagged, true)
		call(tagged, false)
	}
	call(`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-12-01T00:00:00.000Z","Bucket":"b","RequestId":"r","HostId":"h"}`, false)
	records := len(store.Records())
	if records != runs {
		t.Errorf("%d records, %d runs", records, runs)
	}

	good := put("good")
	bad := put("a%zz")
	refused(t, h, strings.TrimSuffix(good, "]}")+","+strings.TrimPrefix(bad, `{"Records":[`), "does not decode")
	for _, event := range []string{
		s3Notification("ObjectTagging:Put", `{"key":"t","versionId":"v","eTag":"e"}`, `{}`),
		s3Notification("ObjectTagging:Put", `{"key":"t","versionId":"v","eTag":"e"}`, `null`),
		s3Notification("ObjectCreated:Put", `{"sequencer":"1"}`, `{}`),
		strings.TrimSuffix(good, "]}") + "," + strings.TrimPrefix(put("two"), `{"Records":[`),
	} {
		if out, err := h.Invoke(invoked(t), []byte(event)); err == nil {
			t.Errorf("%s: %s", event, out)
		}
	}
	if len(store.Records()) != records {
		t.Error("a record was made")
	}
}

// Pipes sends a bare array, even of one record, and one emulator sent {"Records":[...]}. floci-io/floci PR#590, PR#1658.
func TestArrayOfPipes(t *testing.T) {
	const pipes = ` [{"messageId":"m1","body":"x","eventSource":"aws:sqs"}]`
	runs := 0
	refused(t, lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, (&ledger{}).handle, nil), pipes, "Pipes")
	refused(t, once(t, idemtest.NewMemory(t), nil, lambdawrap.SNSID, &runs), pipes, "Pipes")
	refused(t, once(t, idemtest.NewMemory(t), nil, anyKey[order], &runs), pipes, "Pipes", "slice")
	first := func(_ context.Context, in json.RawMessage) (idem.Request, error) {
		var records []events.SQSMessage
		if err := json.Unmarshal(in, &records); err != nil || len(records) != 1 {
			return idem.Request{}, errors.New("not one record")
		}
		return idem.Request{Key: records[0].Body}, nil
	}
	raw := once(t, idemtest.NewMemory(t), nil, first, &runs)
	typed := once(t, idemtest.NewMemory(t), nil, func(_ context.Context, in []events.SQSMessage) (idem.Request, error) {
		return idem.Request{Key: in[0].Body}, nil
	}, &runs)
	for range 2 {
		for _, h := range []lambda.Handler{raw, typed} {
			if _, err := h.Invoke(invoked(t), []byte(pipes)); err != nil {
				t.Error(err)
			}
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

// An answer to a windowed batch without its state counts as failed, and Records may be empty in the last one.
// powertools-lambda-typescript#3915.
func TestTumblingWindowsAreRefused(t *testing.T) {
	runs := 0
	for _, event := range []string{
		`{"Records":[{"eventSource":"aws:kinesis"}],"window":{"start":"2026-12-01T00:00:00Z","end":"2026-12-01T00:02:00Z"},"state":{"1":282},"shardId":"s","eventSourceARN":"a","isFinalInvokeForWindow":false,"isWindowTerminatedEarly":false}`,
		`{"Records":[],"window":{"start":"2026-12-01T00:00:00Z","end":"2026-12-01T00:02:00Z"},"state":{},"shardId":"s","eventSourceARN":"a","isFinalInvokeForWindow":true,"isWindowTerminatedEarly":false}`,
	} {
		for _, h := range []lambda.Handler{
			once(t, idemtest.NewMemory(t), nil, anyKey[events.KinesisEvent], &runs),
			once(t, idemtest.NewMemory(t), nil, anyKey[events.KinesisTimeWindowEvent], &runs),
			once(t, idemtest.NewMemory(t), nil, anyKey[events.DynamoDBTimeWindowEvent], &runs),
			once(t, idemtest.NewMemory(t), nil, anyKey[json.RawMessage], &runs),
			lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, (&ledger{}).handle, nil),
			streams[0].open(t, idemtest.NewMemory(t), &tally{}, 1),
			streams[1].open(t, idemtest.NewMemory(t), &tally{}, 1),
		} {
			refused(t, h, event, "TumblingWindowInSeconds")
		}
	}
	if runs != 0 {
		t.Errorf("%d runs", runs)
	}
}

// A producer sets the event's time, and a replay repeats it: on a restored table it proves nothing about the key.
// EventBridge's pages on PutEvents and StartReplay, sivchari/kumo PR#485.
func TestProducersTimeIsNoProofAfterARestore(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	snapshot, now := store.Snapshot(), store.Now()
	store.Restore(snapshot, idem.Generation{Number: 1, Watermark: now, Quiet: now, Until: now.Add(24 * time.Hour)})
	h := once(t, store, nil, lambdawrap.EventBridgeID, &runs)
	for k, at := range []string{`"time":"` + now.Add(time.Hour).UTC().Format(time.RFC3339) + `",`, `"time":"2099-01-01T00:00:00Z",`, ``} {
		event := strings.Replace(bridgeEvent, `"time":"2026-12-01T00:00:00Z",`, at, 1)
		_, err := h.Invoke(invoked(t), []byte(strings.Replace(event, "e-1", fmt.Sprint("e-", k), 1)))
		if e, ok := err.(*idem.IndeterminateError); !ok || e.Doubt.Reason != idem.Restored {
			t.Errorf("time %s: %T %v", at, err, err)
		}
	}
	if runs != 0 {
		t.Errorf("%d runs", runs)
	}
}

const destinationRecord = `{"version":"1.0","timestamp":"2026-12-01T00:00:00.000Z","requestContext":{"requestId":"r-1","functionArn":"f","condition":"RetriesExhausted","approximateInvokeCount":3},"requestPayload":{"id":"p1"},"responseContext":{"statusCode":200},"responsePayload":{"errorMessage":"x"}}`

type payout struct{ ID string }

// identifyPayout refuses an id that is not of the form that payouts have.
func identifyPayout(_ context.Context, p payout) (idem.Request, error) {
	if !strings.HasPrefix(p.ID, "p") {
		return idem.Request{}, errors.New("the id of a payout begins with p")
	}
	return idem.Request{Key: p.ID}, nil
}

// Failed asynchronous events come back inside a destination record, and a home-made redrive wrapped the payload again at each turn.
// cds-snc/forms-terraform PR#278, open-telemetry/opentelemetry-collector-contrib PR#45042.
func TestDestinationRecordIsNoNewRequest(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	h := once(t, store, nil, identifyPayout, &runs)
	first, err := h.Invoke(invoked(t), []byte(`{"id":"p1"}`))
	if err != nil {
		t.Fatal(err)
	}
	refused(t, h, destinationRecord, "requestPayload", "Destination")
	refused(t, once(t, store, nil, anyKey[json.RawMessage], &runs), destinationRecord, "requestPayload")
	if _, err := h.Invoke(invoked(t), []byte(`{"id":"{\"id\":\"p1\"}"}`)); err == nil || len(store.Records()) != 1 {
		t.Errorf("nested: %v, %d records", err, len(store.Records()))
	}
	// A handler of destination records can take the original request up again, under its key.
	redrive := once(t, store, nil, func(ctx context.Context, d lambdawrap.Destination) (idem.Request, error) {
		var p payout
		if err := json.Unmarshal(d.RequestPayload, &p); err != nil {
			return idem.Request{}, err
		}
		r, err := identifyPayout(ctx, p)
		r.Payload = d.RequestPayload
		return r, err
	}, &runs)
	again, err := redrive.Invoke(invoked(t), []byte(destinationRecord))
	if err != nil || string(again) != string(first) || runs != 1 {
		t.Errorf("%s, want %s; %v, %d runs", again, first, err, runs)
	}
	refused(t, redrive, `{"id":"p1"}`, "destination record")
}

// Some sources have no id, and some look like a supported one. aws-amplify/amplify-js#4805, and rabbitmq-event.json of aws-lambda-go.
func TestSourcesWithoutAnIDAndLookalikes(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	broker := once(t, store, nil, func(_ context.Context, e events.RabbitMQEvent) (idem.Request, error) {
		for _, queue := range e.MessagesByQueue {
			if id := queue[0].BasicProperties.MessageID; id != nil {
				return idem.Request{Key: *id}, nil
			}
		}
		return idem.Request{}, nil // what an id function does that forgets to look
	}, &runs)
	refused(t, broker, string(testdata(t)["rabbitmq-event.json"]), "Request.Key is empty")
	trigger := once(t, store, nil, func(context.Context, events.CognitoEventUserPoolsPreSignup) (idem.Request, error) {
		return idem.Request{}, nil
	}, &runs)
	refused(t, trigger, string(testdata(t)["cognito-event-userpools-presignup.json"]), "Request.Key is empty")

	const lattice = `{"version":"2.0","path":"/pay","method":"POST","headers":{"idempotency-key":["k"]},"queryStringParameters":{},"body":"{}","isBase64Encoded":false,"requestContext":{"serviceNetworkArn":"arn:aws:vpc-lattice:r:1:servicenetwork/s","serviceArn":"a","targetGroupArn":"t","identity":{},"region":"r","timeEpoch":"1"}}`
	for _, a := range adapters {
		refused(t, a.open(store, &runs), lattice, "VPC Lattice")
	}
	if len(store.Records()) != 0 || runs != 0 {
		t.Errorf("%d records, %d runs", len(store.Records()), runs)
	}
}

func TestNaturalKeysAreApart(t *testing.T) {
	a, _ := lambdawrap.SNSID(t.Context(), events.SNSEvent{Records: []events.SNSEventRecord{{SNS: events.SNSEntity{TopicArn: "a", MessageID: "bc"}}}})
	b, _ := lambdawrap.SNSID(t.Context(), events.SNSEvent{Records: []events.SNSEventRecord{{SNS: events.SNSEntity{TopicArn: "ab", MessageID: "c"}}}})
	if a.Key == b.Key || a.Key == "" || len(a.Key) > 255 {
		t.Errorf("%q, %q", a.Key, b.Key)
	}
	for _, e := range []events.SNSEvent{{}, {Records: make([]events.SNSEventRecord, 1)}, {Records: make([]events.SNSEventRecord, 2)}} {
		if r, err := lambdawrap.SNSID(t.Context(), e); err == nil {
			t.Errorf("%+v: %+v", e, r)
		}
	}
	if r, err := lambdawrap.EventBridgeID(t.Context(), events.EventBridgeEvent{}); err == nil {
		t.Errorf("%+v", r)
	}
}

func TestAsyncInvocationIsIdentifiedByItsRequestID(t *testing.T) {
	runs := 0
	h := once(t, idemtest.NewMemory(t), nil, lambdawrap.AsyncID[payout], &runs)
	if _, err := h.Invoke(invoked(t), []byte(`{}`)); err == nil {
		t.Error("accepted without a request id")
	}
	for k, id := range []string{"r-1", "r-1", "r-2"} {
		ctx := lambdacontext.NewContext(invoked(t), &lambdacontext.LambdaContext{AwsRequestID: id})
		if _, err := h.Invoke(ctx, []byte(`{"id":"p1"}`)); err != nil {
			t.Error(k, err)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}
