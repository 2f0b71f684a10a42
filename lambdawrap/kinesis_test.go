package lambdawrap_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// A mapping to a consumer names the consumer, not the stream: moving to it must not run old records again.
// localstack/localstack#10605, serverless/serverless#5510.
func TestConsumerOfAStreamHasTheStreamsKeys(t *testing.T) {
	y := &tally{}
	h := streams[0].open(t, idemtest.NewMemory(t), y, 1)
	event := kinesisEvent("A1")
	on := func(arn string) string { return strings.Replace(event, kinesisStream+`"`, arn+`"`, 1) }
	for _, arn := range []string{kinesisStream, kinesisStream + "/consumer/c:1700000000", kinesisStream + "/consumer/consumer:1700000001"} {
		gives(t, h, on(arn), numbered())
	}
	expect(t, "one stream", y.runs, []string{"A1"})
	for _, arn := range []string{kinesisStream + "2", strings.Replace(kinesisStream, "stream/s", "stream/consumer", 1), strings.Replace(kinesisStream, "stream/s", "stream/consumer/consumer/c:1", 1)} {
		gives(t, h, on(arn), numbered())
	}
	expect(t, "other streams", y.runs, []string{"A1", "A1", "A1"})
}

// aggregated is what the Kinesis Producer Library makes of several user records; what follows the magic number does not matter here.
var aggregated = append([]byte{0xF3, 0x89, 0x9A, 0xC2}, "three user records"...)

// All user records of an aggregated one have its eventID: none but the first ran. aws-powertools/powertools-lambda#55,
// aserrallerios/kcl-akka-stream PR#3, lifion/lifion-kinesis#325, elastic/elastic-serverless-forwarder PR#1057.
func TestUserRecordsOfAnAggregatedRecordAreNotSwallowed(t *testing.T) {
	op := operation[idem.None](t, idemtest.NewMemory(t), &idem.Options{SingleTenant: true})
	var runs []string
	plain := func(ctx context.Context, r events.KinesisEventRecord) error {
		for k, data := range []string{"a", "b", "a"} { // as unpacked
			q, err := lambdawrap.KinesisUserRecordID(ctx, r, k, []byte(data))
			if err != nil {
				return err
			}
			if _, err := op.Do(ctx, q, func(context.Context) (idem.None, error) {
				runs = append(runs, fmt.Sprint(k, data))
				return idem.None{}, nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
	record := events.KinesisEventRecord{EventID: "shardId-0:1", EventSourceArn: kinesisStream, Kinesis: events.KinesisRecord{Data: aggregated}}
	for range 2 {
		if err := plain(invoked(t), record); err != nil {
			t.Error(err)
		}
	}
	expect(t, "runs", runs, []string{"0a", "1b", "2a"})
	whole, _ := lambdawrap.KinesisID(t.Context(), record)
	if first, _ := lambdawrap.KinesisUserRecordID(t.Context(), record, 0, nil); first.Key == whole.Key || whole.Key == "" {
		t.Error("the first user record has the key of the whole")
	}
	if _, err := lambdawrap.KinesisUserRecordID(t.Context(), events.KinesisEventRecord{}, 0, nil); err == nil {
		t.Error("accepted without an eventID")
	}
}

func TestAggregatedRecordIsGuardedAsAWhole(t *testing.T) {
	y := &tally{}
	h := streams[0].open(t, idemtest.NewMemory(t), y, 1)
	event := strings.Replace(kinesisEvent("A1"), base64.StdEncoding.EncodeToString([]byte("A1")), base64.StdEncoding.EncodeToString(aggregated), 1)
	for range 2 {
		gives(t, h, event, numbered())
	}
	if len(y.runs) != 1 || !bytes.Equal([]byte(y.runs[0]), aggregated) {
		t.Errorf("runs %q", y.runs)
	}
}

// Data is compared byte for byte: it need not be JSON, and two that are equal as JSON are not the same data.
func TestDataOfARecordIsBytes(t *testing.T) {
	y := &tally{}
	h := lambdawrap.Kinesis(operation[idem.None](t, idemtest.NewMemory(t), nil), func(_ context.Context, r events.KinesisEventRecord) (idem.Request, error) {
		return idem.Request{Tenant: "acme", Key: "k"}, nil
	}, func(_ context.Context, r events.KinesisEventRecord) (idem.None, error) {
		return idem.None{}, y.handle(string(r.Kinesis.Data))
	}, nil)
	event := func(place, data string) string {
		return strings.Replace(kinesisEvent("A"+place), base64.StdEncoding.EncodeToString([]byte("A"+place)), base64.StdEncoding.EncodeToString([]byte(data)), 1)
	}
	gives(t, h, event("1", "{}"), numbered())
	gives(t, h, event("2", "{}"), numbered()) // a producer's second put of the same
	gives(t, h, event("3", "{ }"), numbered("A3"))
	expect(t, "runs", y.runs, []string{"{}"})
}

func TestUnreadableKinesisEvents(t *testing.T) {
	store, y := idemtest.NewMemory(t), &tally{}
	h := streams[0].open(t, store, y, 1)
	number := `"sequenceNumber":"2"`
	for _, event := range []string{
		``, `{`, `{}`, `{"Records":[]}`, `{"Records":[null]}`, dynamoEvent("A1"), kafkaEvent("A1"),
		strings.Replace(kinesisEvent("A1", "A2"), number, `"sequenceNumber":""`, 1), strings.Replace(kinesisEvent("A1", "A2"), number, `"sequenceNumber":2`, 1),
		strings.Replace(kinesisEvent("A1", "A2"), `"kinesis":{`, `"kinesis":1,"x":{`, 1),
	} {
		refused(t, h, event)
	}
	if len(store.Records()) != 0 {
		t.Error("something was written")
	}
	for _, data := range []string{`null`, `1`, `"="`, `{}`} {
		gives(t, h, strings.Replace(kinesisEvent("A1", "A2", "B1"), `"data":"QTI="`, `"data":`+data, 1), numbered("A2"))
	}
	expect(t, "runs", y.runs, []string{"A1", "B1"})
	gives(t, h, strings.Replace(kinesisEvent("A9"), `"eventID":"shardId-A:9",`, ``, 1), numbered("A9"))
	gives(t, h, strings.Replace(kinesisEvent("A9"), kinesisStream, ``, 1), numbered("A9"))
	if err := y.failed["A9"]; err == nil || !strings.Contains(err.Error(), "eventID") {
		t.Error(err)
	}
}
