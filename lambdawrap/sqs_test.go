package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

const (
	standardQueue = "arn:aws:sqs:us-east-1:123456789012:orders"
	fifoQueue     = standardQueue + ".fifo"
)

// message of a queue. Its body is its key.
func message(queue, id, group, body string) events.SQSMessage {
	m := events.SQSMessage{MessageId: id, Body: body, EventSource: "aws:sqs", EventSourceARN: queue, Attributes: map[string]string{"ApproximateReceiveCount": rand()}}
	if group != "" {
		m.Attributes["MessageGroupId"] = group
	}
	return m
}

func standard(bodies ...string) (m []events.SQSMessage) {
	for _, b := range bodies {
		m = append(m, message(standardQueue, "m-"+b, "", b))
	}
	return m
}

// fifo is messages whose group is the first letter of their body.
func fifo(bodies ...string) (m []events.SQSMessage) {
	for _, b := range bodies {
		m = append(m, message(fifoQueue, "m-"+b, b[:1], b))
	}
	return m
}

func byBody(_ context.Context, m events.SQSMessage) (idem.Request, error) {
	if m.Body == "{" {
		return idem.Request{}, errors.New("no order")
	}
	return idem.Request{Tenant: "acme", Key: m.Body}, nil
}

// ledger is what handlers did.
type ledger struct {
	mu      sync.Mutex
	runs    []string
	fail    map[string]error
	failure map[string]error // as reported by SQSOptions.Failed
}

func (l *ledger) handle(_ context.Context, m events.SQSMessage) (idem.None, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, m.Body)
	return idem.None{}, l.fail[m.Body]
}

func (l *ledger) failed(_ context.Context, m events.SQSMessage, err error) {
	if l.failure == nil {
		l.failure = make(map[string]error)
	}
	l.failure[m.MessageId] = err
}

// handled invokes with a batch, and returns the ids of what failed.
func handled(t testing.TB, h interface {
	Invoke(context.Context, []byte) ([]byte, error)
}, ctx context.Context, batch []events.SQSMessage) []string {
	t.Helper()
	event, err := json.Marshal(events.SQSEvent{Records: batch})
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Invoke(ctx, event)
	if err != nil {
		t.Fatalf("%T: %v", err, err)
	}
	if !strings.HasPrefix(string(out), `{"batchItemFailures":[`) {
		t.Errorf("answer %s", out)
	}
	var answer events.SQSEventResponse
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range answer.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return ids
}

func expect(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestMessageRunsOnce(t *testing.T) {
	for _, workers := range []int{0, 4} {
		l := &ledger{}
		h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, l.handle, &lambdawrap.SQSOptions{Concurrency: workers})
		for range 3 {
			expect(t, "failures", handled(t, h, invoked(t), standard("1", "2", "3")), nil)
		}
		slices.Sort(l.runs)
		expect(t, "runs", l.runs, []string{"1", "2", "3"})
		// Redriven: another id of the message's own, the same key.
		expect(t, "failures", handled(t, h, invoked(t), []events.SQSMessage{message(standardQueue, "other", "", "1")}), nil)
		if len(l.runs) != 3 {
			t.Errorf("runs %q", l.runs)
		}
	}
}

func TestMessagesThatAreNotKnownToBeDoneFail(t *testing.T) {
	store, l := idemtest.NewMemory(t), &ledger{}
	l.fail = map[string]error{"unknown": errors.New("who knows"), "released": idem.NotApplied(errors.New("not now")), "final": idem.Final(&CardDeclined{})}
	h := lambdawrap.SQS(operation[idem.None](t, store, nil), byBody, l.handle, &lambdawrap.SQSOptions{Failed: l.failed})
	batch := standard("ok", "unknown", "released", "final")
	failed := []string{"m-unknown", "m-released", "m-final"}
	expect(t, "first", handled(t, h, invoked(t), batch), failed)
	expect(t, "again", handled(t, h, invoked(t), batch), failed)
	expect(t, "runs", l.runs, []string{"ok", "unknown", "released", "final", "released"})
	if _, ok := l.failure["m-unknown"].(*idem.IndeterminateError); !ok {
		t.Errorf("unknown: %T", l.failure["m-unknown"])
	}
	if e, ok := l.failure["m-final"].(*idem.FailedError); !ok || e.Type != "CardDeclined" {
		t.Errorf("final: %T", l.failure["m-final"])
	}
	other := standard("ok")
	other[0].MessageAttributes = map[string]events.SQSMessageAttribute{"a": {DataType: "Binary", BinaryValue: []byte("x")}}
	expect(t, "other attributes", handled(t, h, invoked(t), other), []string{"m-ok"})
	if _, ok := l.failure["m-ok"].(*idem.MismatchError); !ok {
		t.Errorf("mismatch: %T", l.failure["m-ok"])
	}
	store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
	expect(t, "store down", handled(t, h, invoked(t), standard("new")), []string{"m-new"})
	store.Fail(func(call string, _ idem.ID) (bool, error) {
		if call == "Create" || call == "Generation" {
			return false, nil
		}
		return true, idem.ErrAmbiguous
	})
	expect(t, "receipt lost", handled(t, h, invoked(t), standard("late")), []string{"m-late"})
	store.Fail(nil)
	expect(t, "receipt found", handled(t, h, invoked(t), standard("late")), nil)
	if n := len(l.runs); n != 6 || l.runs[5] != "late" {
		t.Errorf("runs %q", l.runs)
	}
}

func TestMessageInProgressFails(t *testing.T) {
	running, end := make(chan bool), make(chan bool)
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(context.Context, events.SQSMessage) (idem.None, error) {
		running <- true
		<-end
		return idem.None{}, nil
	}, nil)
	ctx := invoked(t)
	first := make(chan []string)
	go func() { first <- handled(t, h, ctx, standard("1")) }()
	<-running
	expect(t, "duplicate", handled(t, h, invoked(t), standard("1")), []string{"m-1"})
	end <- true
	expect(t, "first", <-first, nil)
}

// A batch may hold several groups: a failed message stops its own only, and only in this invocation, also where one wrapper serves
// several. powertools-lambda-python#2981, powertools-lambda-java#1140, powertools-lambda-typescript#3673.
func TestFailedMessageStopsItsGroupInThisInvocationOnly(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			l := &ledger{fail: map[string]error{"B1": idem.NotApplied(errors.New("not now"))}}
			h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, l.handle, &lambdawrap.SQSOptions{Concurrency: workers, Failed: l.failed})
			expect(t, "failures", handled(t, h, invoked(t), fifo("A1", "B1", "A2", "B2", "C1")), []string{"m-B1", "m-B2"})
			expect(t, "group A", slices.DeleteFunc(slices.Clone(l.runs), func(b string) bool { return b[0] != 'A' }), []string{"A1", "A2"})
			if slices.Contains(l.runs, "B2") || !slices.Contains(l.runs, "C1") {
				t.Errorf("runs %q", l.runs)
			}
			if l.failure["m-B2"] == nil || !strings.Contains(l.failure["m-B2"].Error(), "earlier message of its group") {
				t.Errorf("B2: %v", l.failure["m-B2"])
			}
			l.runs, l.fail = nil, nil
			expect(t, "failures", handled(t, h, invoked(t), fifo("B1", "B2")), nil)
			expect(t, "runs", l.runs, []string{"B1", "B2"})
		})
	}
}

func TestGroupsOfTwoInvocationsAreApart(t *testing.T) {
	first, second := make(chan bool), make(chan bool)
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(_ context.Context, m events.SQSMessage) (idem.None, error) {
		switch m.Body {
		case "B1":
			return idem.None{}, idem.NotApplied(errors.New("not now"))
		case "A1": // after B1 has failed, while the other invocation handles B3
			first <- true
			<-second
		}
		return idem.None{}, nil
	}, nil)
	ctx := invoked(t)
	done := make(chan []string)
	go func() { done <- handled(t, h, ctx, fifo("B1", "A1", "B2")) }()
	<-first
	expect(t, "second invocation", handled(t, h, invoked(t), fifo("B3")), nil)
	second <- true
	expect(t, "first invocation", <-done, []string{"m-B1", "m-B2"})
}

// Messages of standard queues have groups, too, for fairness.
func TestGroupsOfAStandardQueueAreNoOrder(t *testing.T) {
	l := &ledger{fail: map[string]error{"1": errors.New("who knows")}}
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, l.handle, nil)
	batch := []events.SQSMessage{message(standardQueue, "m-1", "g", "1"), message(standardQueue, "m-2", "g", "2")}
	expect(t, "failures", handled(t, h, invoked(t), batch), []string{"m-1"})
	expect(t, "runs", l.runs, []string{"1", "2"})
}

// One message that cannot be read failed the batch, and a batch that failed whole gave an empty list, which is success; so was an
// event without messages. powertools-lambda-python#2091, #2394, powertools-lambda-typescript#5624.
func TestUnreadableMessagesAndBatches(t *testing.T) {
	store, l := idemtest.NewMemory(t), &ledger{}
	h := lambdawrap.SQS(operation[idem.None](t, store, nil), byBody, l.handle, nil)
	bad := standard("1", "2", "3")
	bad[1].Body = "{"
	expect(t, "one bad body", handled(t, h, invoked(t), bad), []string{"m-2"})

	l.fail = map[string]error{"4": errors.New("a"), "5": errors.New("b"), "6": errors.New("c")}
	expect(t, "all fail", handled(t, h, invoked(t), standard("4", "5", "6")), []string{"m-4", "m-5", "m-6"})

	out, err := h.Invoke(invoked(t), []byte(`{"Records":[{"messageId":"a","body":"a","eventSource":"aws:sqs"},{"messageId":"b","body":1,"eventSource":"aws:sqs"},{"messageId":"c","eventSource":"aws:sqs","body":"c","attributes":[]},{"messageId":"d","eventSource":"aws:sqs"},{"messageId":"e","eventSource":"aws:sqs","body":"e","messageAttributes":{"a":1}}]}`))
	if err != nil || string(out) != `{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"c"},{"itemIdentifier":"d"},{"itemIdentifier":"e"}]}` {
		t.Errorf("bad records: %s, %v", out, err)
	}

	constant := lambdawrap.SQS(operation[idem.None](t, store, nil), func(context.Context, events.SQSMessage) (idem.Request, error) {
		return idem.Request{Tenant: "acme", Key: "constant"}, nil
	}, l.handle, nil)
	out, err = constant.Invoke(invoked(t), []byte(`{"Records":[{"messageId":"a","eventSource":"aws:sqs"},{"messageId":"b","body":null,"eventSource":"aws:sqs"}]}`))
	if err != nil || string(out) != `{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"}]}` {
		t.Errorf("no body: %s, %v", out, err)
	}

	before := len(l.runs)
	for _, event := range []string{``, `{`, `{}`, `null`, `{"Records":null}`, `{"Records":[]}`, `{"Records":{}}`, `{"Records":[null]}`,
		`{"Records":[{"EventSource":"aws:sns","Sns":{"MessageId":"x","Message":"y"}}]}`,
		`{"Records":[{"messageId":"a","body":"new","eventSource":"aws:sqs"},{"messageId":"b","body":"new","eventSource":"aws:kinesis"}]}`,
		`{"Records":[{"messageId":"a","body":"new","eventSource":"aws:sqs"},{"body":"new","eventSource":"aws:sqs"}]}`,
		`{"Records":[{"messageId":"a","body":"new","eventSource":"aws:sqs"},{"messageId":"","body":"new","eventSource":"aws:sqs"}]}`,
		`{"Records":[{"messageId":"a","body":"new","eventSource":"aws:sqs"},{"messageId":null,"body":"new","eventSource":"aws:sqs"}]}`,
	} {
		out, err := h.Invoke(invoked(t), []byte(event))
		if _, ok := err.(*idem.RequestError); !ok {
			t.Errorf("%s: %s, %v", event, out, err)
		}
	}
	if len(l.runs) != before {
		t.Errorf("runs %q", l.runs[before:])
	}
}

// Without ReportBatchItemFailures an answer that lists failures is a success, and the messages are deleted. aws-lambda-go#430,
// storacha/indexing-service PR#159, elastic-ipfs/infrastructure#154.
func TestMappingWithoutPartialFailures(t *testing.T) {
	l := &ledger{fail: map[string]error{"2": idem.NotApplied(errors.New("not now"))}}
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, l.handle, &lambdawrap.SQSOptions{AllOrNothing: true})
	event, _ := json.Marshal(events.SQSEvent{Records: standard("1", "2", "3")})
	_, err := h.Invoke(invoked(t), event)
	if e, ok := err.(*lambdawrap.BatchError); !ok || e.Failed != 1 || e.Total != 3 || e.Error() != "idem: charge: 1 of 3 items failed; what was done is recorded" {
		t.Errorf("%T: %v", err, err)
	}
	l.fail = nil
	out, err := h.Invoke(invoked(t), event)
	if err != nil || string(out) != `{"batchItemFailures":[]}` {
		t.Errorf("%s, %v", out, err)
	}
	expect(t, "runs", l.runs, []string{"1", "2", "3", "2"})
}

// notification is a message that an SNS topic sent to the queue.
func notification(id, sns, text string) events.SQSMessage {
	body, _ := json.Marshal(map[string]string{"Type": "Notification", "MessageId": sns, "TopicArn": "arn:aws:sns:us-east-1:1:t", "Message": text, "Signature": rand(), "SigningCertURL": "https://" + rand()})
	return message(standardQueue, id, "", string(body))
}

// A delivery that SNS repeats is another SQS message. powertools-lambda-python PR#2169, divviup/prio-server#328,
// kalaspuff/tomodachi PR#1769.
func TestNotificationInAMessage(t *testing.T) {
	l := &ledger{}
	id := func(ctx context.Context, m events.SQSMessage) (idem.Request, error) {
		r, err := lambdawrap.SNSInSQSID(ctx, m)
		r.Tenant = "acme"
		return r, err
	}
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), id, l.handle, &lambdawrap.SQSOptions{Failed: l.failed})
	expect(t, "first", handled(t, h, invoked(t), []events.SQSMessage{notification("m-1", "sns-1", "text"), notification("m-2", "sns-1", "text")}), nil)
	expect(t, "again", handled(t, h, invoked(t), []events.SQSMessage{notification("m-3", "sns-1", "text")}), nil)
	if len(l.runs) != 1 {
		t.Errorf("%d runs", len(l.runs))
	}
	expect(t, "another text", handled(t, h, invoked(t), []events.SQSMessage{notification("m-4", "sns-1", "other")}), []string{"m-4"})
	// With raw delivery there is no id of SNS's, and nothing is guessed.
	expect(t, "raw", handled(t, h, invoked(t), standard("text")), []string{"m-text"})
	if !strings.Contains(l.failure["m-text"].Error(), "raw message delivery") {
		t.Error(l.failure["m-text"])
	}
	// A body that looks like an envelope is not unwrapped where nobody says so.
	l.runs = nil
	plain := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), func(_ context.Context, m events.SQSMessage) (idem.Request, error) {
		return idem.Request{Tenant: "acme", Key: m.MessageId}, nil
	}, l.handle, nil)
	expect(t, "plain", handled(t, plain, invoked(t), []events.SQSMessage{notification("m-1", "sns-1", "text"), notification("m-2", "sns-1", "text")}), nil)
	if len(l.runs) != 2 {
		t.Errorf("%d runs", len(l.runs))
	}
}
