package lambdawrap_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

const (
	kinesisStream = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
	tableStream   = "arn:aws:dynamodb:us-east-1:123456789012:table/T/stream/2026-12-01T00:00:00.000"
	cluster       = "arn:aws:kafka:us-east-1:123456789012:cluster/c/e9f754c6-4"
)

// A record is called by its label, such as A1: its shard or partition, and its place in it.

func place(label string) string { return label[1:] }

func kinesisEvent(labels ...string) string {
	return listed(labels, func(l string) string {
		return fmt.Sprintf(`{"eventID":"shardId-%c:%s","eventName":"aws:kinesis:record","eventSource":"aws:kinesis","eventSourceARN":"%s","invokeIdentityArn":"%s","kinesis":{"partitionKey":"p","sequenceNumber":"%s","data":"%s","approximateArrivalTimestamp":1480641523.477}}`,
			l[0], place(l), kinesisStream, rand(), place(l), base64.StdEncoding.EncodeToString([]byte(l)))
	})
}

func dynamoEvent(labels ...string) string {
	return listed(labels, func(l string) string {
		return fmt.Sprintf(`{"eventID":"id-%s","eventName":"INSERT","eventSource":"aws:dynamodb","eventSourceARN":"%s","dynamodb":{"Keys":{"id":{"S":"%s"}},"NewImage":{"id":{"S":"%s"}},"SequenceNumber":"%s","StreamViewType":"NEW_IMAGE"}}`,
			l, tableStream, l, l, place(l))
	})
}

func listed(labels []string, record func(string) string) string {
	list := make([]string, len(labels))
	for k, l := range labels {
		list[k] = record(l)
	}
	return `{"Records":[` + strings.Join(list, ",") + `]}`
}

func kafkaRecord(l, value string) string {
	return fmt.Sprintf(`{"topic":"pay","partition":%d,"offset":%s,"timestamp":1595035749700,"timestampType":"CREATE_TIME","key":"aw==","value":%s,"headers":[{"h":[118,-36]}]}`, l[0]-'A', place(l), value)
}

func kafkaEvent(labels ...string) string {
	var partitions []string
	byPartition := make(map[string][]string)
	for _, l := range labels {
		p := fmt.Sprint("pay-", l[0]-'A')
		if byPartition[p] == nil {
			partitions = append(partitions, p)
		}
		byPartition[p] = append(byPartition[p], kafkaRecord(l, `"`+base64.StdEncoding.EncodeToString([]byte(l))+`"`))
	}
	for k, p := range partitions {
		partitions[k] = fmt.Sprintf(`"%s":[%s]`, p, strings.Join(byPartition[p], ","))
	}
	return kafkaBatch(strings.Join(partitions, ","))
}

func kafkaBatch(partitions string) string {
	return `{"eventSource":"aws:kafka","eventSourceArn":"` + cluster + `","bootstrapServers":"` + rand() + `","records":{` + partitions + `}}`
}

// tally is what handlers of streams did.
type tally struct {
	mu     sync.Mutex
	runs   []string
	fail   map[string]error
	failed map[string]error
	parked map[string]error
	park   func(label string, err error) error
	sleep  time.Duration
}

func (y *tally) handle(label string) error {
	time.Sleep(y.sleep)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs = append(y.runs, label)
	return y.fail[label]
}

// stream is a source of ordered records, to be varied.
type stream struct {
	name   string
	event  func(labels ...string) string
	answer func(labels ...string) string
	open   func(t testing.TB, store idem.Store, y *tally, workers int) lambda.Handler
}

// numbered is the answer of Kinesis and DynamoDB.
func numbered(labels ...string) string {
	names := make([]string, len(labels))
	for k, l := range labels {
		names[k] = `{"itemIdentifier":"` + place(l) + `"}`
	}
	return `{"batchItemFailures":[` + strings.Join(names, ",") + `]}`
}

func offsets(labels ...string) string {
	names := make([]string, len(labels))
	for k, l := range labels {
		names[k] = fmt.Sprintf(`{"itemIdentifier":{"partition":"pay-%d","offset":%s}}`, l[0]-'A', place(l))
	}
	return `{"batchItemFailures":[` + strings.Join(names, ",") + `]}`
}

func openedStream[R any](wrap func(*idem.Operation[idem.None], func(context.Context, R) (idem.Request, error), func(context.Context, R) (idem.None, error), *lambdawrap.StreamOptions[R]) lambda.Handler, id func(context.Context, R) (idem.Request, error), label func(R) string) func(testing.TB, idem.Store, *tally, int) lambda.Handler {
	return func(t testing.TB, store idem.Store, y *tally, workers int) lambda.Handler {
		y.failed, y.parked = make(map[string]error), make(map[string]error)
		o := &lambdawrap.StreamOptions[R]{Concurrency: workers, Failed: func(_ context.Context, r R, err error) { y.failed[label(r)] = err }}
		if y.park != nil {
			o.Park = func(_ context.Context, r R, err error) error {
				y.mu.Lock()
				defer y.mu.Unlock()
				y.parked[label(r)] = err
				return y.park(label(r), err)
			}
		}
		return wrap(operation[idem.None](t, store, &idem.Options{SingleTenant: true}), id, func(_ context.Context, r R) (idem.None, error) {
			return idem.None{}, y.handle(label(r))
		}, o)
	}
}

func kafkaLabel(r lambdawrap.KafkaRecord) string {
	b, _ := base64.StdEncoding.DecodeString(r.Value)
	return string(b)
}

var streams = []stream{
	{"Kinesis", kinesisEvent, numbered, openedStream(lambdawrap.Kinesis[idem.None], lambdawrap.KinesisID, func(r events.KinesisEventRecord) string { return string(r.Kinesis.Data) })},
	{"DynamoDB", dynamoEvent, numbered, openedStream(lambdawrap.DynamoDBStream[idem.None], lambdawrap.DynamoDBStreamID, func(r events.DynamoDBEventRecord) string { return r.Change.Keys["id"].String() })},
	{"Kafka", kafkaEvent, offsets, openedStream(lambdawrap.Kafka[idem.None], lambdawrap.KafkaID, kafkaLabel)},
}

func forStreams(t *testing.T, test func(t *testing.T, s stream)) {
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

func gives(t testing.TB, h lambda.Handler, event, want string) {
	t.Helper()
	out, err := h.Invoke(invoked(t), []byte(event))
	if err != nil || string(out) != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
}

func TestRecordRunsOnce(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		y := &tally{}
		h := s.open(t, idemtest.NewMemory(t), y, 4)
		for range 3 {
			gives(t, h, s.event("A1", "A2", "A3"), s.answer())
		}
		expect(t, "runs", y.runs, []string{"A1", "A2", "A3"})
	})
}

// The first failure is the checkpoint: Lambda goes on at the lowest number reported, so nothing after it may have been skipped, and
// nothing that is not done may be left out.
func TestFirstFailureIsTheCheckpoint(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		y := &tally{fail: map[string]error{"A2": idem.NotApplied(errors.New("not now"))}}
		h := s.open(t, idemtest.NewMemory(t), y, 1)
		gives(t, h, s.event("A1", "A2", "A3", "A4"), s.answer("A2", "A3", "A4"))
		expect(t, "runs", y.runs, []string{"A1", "A2"})
		if err := y.failed["A3"]; err == nil || !strings.Contains(err.Error(), "shard or partition") {
			t.Errorf("A3: %v", err)
		}
		y.fail = nil
		gives(t, h, s.event("A2", "A3", "A4"), s.answer())
		expect(t, "runs", y.runs, []string{"A1", "A2", "A2", "A3", "A4"})
	})
}

// Whatever is not known to be done stops its shard, as long as it is so.
func TestRecordsThatAreNotKnownToBeDoneStopTheirShard(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		for name, fail := range map[string]error{"unknown": errors.New("who knows"), "final": idem.Final(&CardDeclined{})} {
			y := &tally{fail: map[string]error{"A1": fail}}
			h := s.open(t, idemtest.NewMemory(t), y, 1)
			for range 3 {
				gives(t, h, s.event("A1", "A2"), s.answer("A1", "A2"))
			}
			expect(t, name, y.runs, []string{"A1"})
		}
		y := &tally{}
		store := idemtest.NewMemory(t)
		h := s.open(t, store, y, 1)
		store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
		gives(t, h, s.event("A1", "A2"), s.answer("A1", "A2"))
		expect(t, "store down", y.runs, nil)
		if _, ok := y.failed["A1"].(*idem.UnavailableError); !ok {
			t.Errorf("%T", y.failed["A1"])
		}
	})
}

func TestRecordInProgressStopsItsShard(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		synctest.Test(t, func(t *testing.T) {
			y := &tally{sleep: time.Second, park: func(string, error) error { return nil }}
			h := s.open(t, idemtest.NewMemory(t), y, 1)
			ctx := invoked(t)
			first := make(chan string)
			go func() {
				out, _ := h.Invoke(ctx, []byte(s.event("A1", "A2")))
				first <- string(out)
			}()
			time.Sleep(time.Millisecond)
			gives(t, h, s.event("A1", "A2"), s.answer("A1", "A2"))
			if got := <-first; got != s.answer() {
				t.Error(got)
			}
			expect(t, "runs", y.runs, []string{"A1", "A2"})
			if len(y.parked) != 0 {
				t.Errorf("parked %v", y.parked)
			}
		})
	})
}

// Parking is chosen, never the default: it acknowledges a record whose outcome is unknown. The first delivery fails all the same: the
// handler's error says nothing of the record's state, and the second asks the reconciler.
func TestParkedRecordDoesNotStopItsShard(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		store := idemtest.NewMemory(t)
		y := &tally{fail: map[string]error{"A1": errors.New("who knows")}, park: func(string, error) error { return nil }}
		h := s.open(t, store, y, 1)
		gives(t, h, s.event("A1", "A2"), s.answer("A1", "A2"))
		if len(y.parked) != 0 {
			t.Errorf("parked at once: %v", y.parked)
		}
		gives(t, h, s.event("A1", "A2"), s.answer())
		expect(t, "runs", y.runs, []string{"A1", "A2"})
		if _, ok := y.parked["A1"].(*idem.IndeterminateError); !ok || len(y.parked) != 1 {
			t.Errorf("parked %v", y.parked)
		}
		kept := 0
		for _, r := range store.Records() {
			if r.State == idem.Indeterminate {
				kept++
			}
		}
		if kept != 1 {
			t.Errorf("%d records are indeterminate", kept)
		}
	})
}

func TestRecordThatCannotBeParkedFails(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		queueDown := errors.New("queue is down")
		y := &tally{fail: map[string]error{"A1": errors.New("who knows")}, park: func(string, error) error { return queueDown }}
		h := s.open(t, idemtest.NewMemory(t), y, 1)
		for range 2 {
			gives(t, h, s.event("A1", "A2"), s.answer("A1", "A2"))
		}
		if y.failed["A1"] != queueDown || len(y.runs) != 1 {
			t.Errorf("%v, runs %q", y.failed["A1"], y.runs)
		}
	})
}

// What a retry can help, and what the function returned itself, is not parked.
func TestOnlyWhatStaysIsParked(t *testing.T) {
	y := &tally{park: func(string, error) error { return nil }}
	y.fail = map[string]error{"A1": idem.NotApplied(&idem.MismatchError{ID: "an inner call's"}), "B1": errors.New("who knows")}
	store := idemtest.NewMemory(t)
	h := streams[2].open(t, store, y, 1)
	for range 2 {
		gives(t, h, kafkaEvent("A1"), offsets("A1"))
	}
	store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
	gives(t, h, kafkaEvent("C1"), offsets("C1"))
	store.Fail(nil)
	// Wrong settings would park every record: this operation wants a tenant, and KafkaID gives none.
	park := func(context.Context, lambdawrap.KafkaRecord, error) error { y.parked["D1"] = nil; return nil }
	handle := func(context.Context, lambdawrap.KafkaRecord) (idem.None, error) { return idem.None{}, nil }
	gives(t, lambdawrap.Kafka(operation[idem.None](t, store, nil), lambdawrap.KafkaID, handle, &lambdawrap.StreamOptions[lambdawrap.KafkaRecord]{Park: park}), kafkaEvent("D1"), offsets("D1"))
	if len(y.parked) != 0 {
		t.Errorf("parked %v", y.parked)
	}
}

func TestFailureStopsItsPartitionOnly(t *testing.T) {
	for _, workers := range []int{1, 8} {
		for _, s := range []stream{streams[0], streams[2]} { // DynamoDB's records do not tell their shard
			y := &tally{fail: map[string]error{"B1": idem.NotApplied(errors.New("not now"))}}
			h := s.open(t, idemtest.NewMemory(t), y, workers)
			gives(t, h, s.event("A1", "A2", "B1", "B2", "C1"), s.answer("B1", "B2"))
			slices.Sort(y.runs)
			expect(t, s.name, y.runs, []string{"A1", "A2", "B1", "C1"})
		}
	}
}

// After a batch is split, or goes on at a checkpoint, much of it was done already: one request to the store each, and no run.
func TestReplaysAfterASplitAreCheap(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		store, y := idemtest.NewMemory(t), &tally{}
		h := s.open(t, store, y, 1)
		gives(t, h, s.event("A1", "A2", "A3", "A4"), s.answer())
		before := store.Calls()
		gives(t, h, s.event("A1", "A2"), s.answer())
		gives(t, h, s.event("A3", "A4"), s.answer())
		for call, n := range store.Calls() {
			if d := n - before[call]; call == "Create" && d != 4 || call != "Create" && call != "Generation" && d != 0 {
				t.Errorf("%d calls of %s for 4 replays", d, call)
			}
		}
		if len(y.runs) != 4 {
			t.Errorf("runs %q", y.runs)
		}
	})
}

func TestNoRecordIsStartedInTheReserve(t *testing.T) {
	forStreams(t, func(t *testing.T, s stream) {
		synctest.Test(t, func(t *testing.T) {
			y := &tally{sleep: 15 * time.Second}
			h := s.open(t, idemtest.NewMemory(t), y, 1)
			gives(t, h, s.event("A1", "A2", "A3"), s.answer("A2", "A3"))
			expect(t, "runs", y.runs, []string{"A1"})
		})
	})
}

func TestStreamMappingWithoutPartialFailures(t *testing.T) {
	fail := true
	h := lambdawrap.Kinesis(operation[idem.None](t, idemtest.NewMemory(t), &idem.Options{SingleTenant: true}), lambdawrap.KinesisID, func(context.Context, events.KinesisEventRecord) (idem.None, error) {
		if fail {
			return idem.None{}, idem.NotApplied(errors.New("not now"))
		}
		return idem.None{}, nil
	}, &lambdawrap.StreamOptions[events.KinesisEventRecord]{AllOrNothing: true})
	_, err := h.Invoke(invoked(t), []byte(kinesisEvent("A1", "A2")))
	if e, ok := err.(*lambdawrap.BatchError); !ok || e.Failed != 2 || e.Total != 2 {
		t.Errorf("%T: %v", err, err)
	}
	fail = false
	gives(t, h, kinesisEvent("A1", "A2"), numbered())
}

func TestStreamsRefuseNil(t *testing.T) {
	op := newOperation[idem.None](idemtest.NewMemory(t), true)
	for name, open := range map[string]func(){
		"Kinesis":        func() { lambdawrap.Kinesis(op, lambdawrap.KinesisID, nil, nil) },
		"DynamoDBStream": func() { lambdawrap.DynamoDBStream[idem.None](op, nil, nil, nil) },
		"Kafka":          func() { lambdawrap.Kafka[idem.None](nil, lambdawrap.KafkaID, nil, nil) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, name) {
					t.Errorf("%s: %s", name, text)
				}
			}()
			open()
		}()
	}
}
