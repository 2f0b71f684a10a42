package lambdawrap_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

func kafkaHandler(t testing.TB, store idem.Store, y *tally) lambda.Handler {
	return streams[2].open(t, store, y, 1)
}

// Offsets are unique only inside a partition. svix/svix-webhooks PR#2429.
func TestOffsetOfAnotherPartitionIsAnotherRecord(t *testing.T) {
	y := &tally{}
	h := kafkaHandler(t, idemtest.NewMemory(t), y)
	gives(t, h, kafkaEvent("A7", "B7"), offsets())
	gives(t, h, kafkaEvent("B7", "A7"), offsets())
	expect(t, "runs", y.runs, []string{"A7", "B7"})
}

// A topic that was deleted and made again counts from 0 under its old name. twmb/franz-go PR#1426.
func TestRecreatedTopicIsNotTakenForTheOldOne(t *testing.T) {
	store := idemtest.NewMemory(t)
	y := &tally{}
	h := kafkaHandler(t, store, y)
	at := func(event, ms string) string { return strings.Replace(event, "1595035749700", ms, 1) }
	first := kafkaEvent("A0")
	gives(t, h, first, offsets())
	other := strings.Replace(first, `"value":"QTA="`, `"value":"QjA="`, 1) // B0
	gives(t, h, at(other, "1595035749701"), offsets())
	gives(t, h, at(first, "1595035749702"), offsets())
	expect(t, "runs", y.runs, []string{"A0", "B0", "A0"})
	// With the same timestamp, another value is a mismatch, seen and never a success.
	gives(t, h, other, offsets("A0"))
	if _, ok := y.failed["B0"].(*idem.MismatchError); !ok {
		t.Errorf("%T", y.failed["B0"])
	}
	for _, none := range []string{"0", "-1", "null"} {
		gives(t, h, at(first, none), offsets("A0"))
		if err := y.failed["A0"]; err == nil || !strings.Contains(err.Error(), "timestamp") {
			t.Errorf("timestamp %s: %v", none, err)
		}
	}
	if len(y.runs) != 3 || len(store.Records()) != 3 {
		t.Errorf("runs %q, %d records", y.runs, len(store.Records()))
	}
}

func TestParkedMismatchOfATopic(t *testing.T) {
	y := &tally{park: func(string, error) error { return nil }}
	h := kafkaHandler(t, idemtest.NewMemory(t), y)
	gives(t, h, kafkaEvent("A0"), offsets())
	gives(t, h, strings.Replace(kafkaEvent("A0", "A1"), `"value":"QTA="`, `"value":"QjA="`, 1), offsets())
	if _, ok := y.parked["B0"].(*idem.MismatchError); !ok {
		t.Errorf("parked %v", y.parked)
	}
	expect(t, "runs", y.runs, []string{"A0", "A1"})
}

func TestClustersAreApart(t *testing.T) {
	y := &tally{}
	h := kafkaHandler(t, idemtest.NewMemory(t), y)
	msk := kafkaEvent("A0")
	own := func(servers string) string {
		i, j := strings.Index(msk, `"eventSource"`), strings.Index(msk, `"records"`)
		return msk[:i] + `"eventSource":"SelfManagedKafka","bootstrapServers":"` + servers + `",` + msk[j:]
	}
	for _, event := range []string{msk, kafkaEvent("A0"), strings.Replace(msk, "e9f754c6-4", "0ab112cd-5", 1), own("b1:9092,b2:9092"), own("b2:9092,b1:9092"), own("c1:9092")} {
		gives(t, h, event, offsets())
	}
	if len(y.runs) != 4 {
		t.Errorf("%d runs, want 4: two clusters of MSK and two of one's own, whatever the order of servers", len(y.runs))
	}
	gives(t, h, own(""), offsets("A0"))
	if err := y.failed["A0"]; err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("%v", err)
	}
}

// A cluster can be given a name, so that a change of its servers does not change the keys.
func TestClusterWithANameOfItsOwn(t *testing.T) {
	runs := 0
	h := lambdawrap.Kafka(newOperation[idem.None](idemtest.NewMemory(t), true), func(ctx context.Context, r lambdawrap.KafkaRecord) (idem.Request, error) {
		r.Cluster = "payments"
		return lambdawrap.KafkaID(ctx, r)
	}, func(context.Context, lambdawrap.KafkaRecord) (idem.None, error) { runs++; return idem.None{}, nil }, nil)
	for _, c := range []string{cluster, cluster + "1"} {
		gives(t, h, strings.Replace(kafkaEvent("A0"), cluster, c, 1), offsets())
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// Tombstones crash consumers, and their decoders: powertools-lambda-typescript#4988, #5016, Nike-Inc/hal PR#143. aws-lambda-go gives ""
// for a tombstone and an empty value alike.
func TestTombstones(t *testing.T) {
	y := &tally{}
	var seen []string
	h := lambdawrap.Kafka(operation[idem.None](t, idemtest.NewMemory(t), nil), func(context.Context, lambdawrap.KafkaRecord) (idem.Request, error) {
		return idem.Request{Tenant: "acme", Key: "one"}, nil
	}, func(_ context.Context, r lambdawrap.KafkaRecord) (idem.None, error) {
		seen = append(seen, fmt.Sprint(r.Tombstone, r.Value))
		return idem.None{}, nil
	}, &lambdawrap.StreamOptions[lambdawrap.KafkaRecord]{Failed: func(_ context.Context, _ lambdawrap.KafkaRecord, err error) {
		y.runs = append(y.runs, fmt.Sprintf("%T", err))
	}})
	null := kafkaBatch(`"pay-0":[` + kafkaRecord("A0", "null") + `]`)
	gives(t, h, null, offsets())
	gives(t, h, strings.Replace(null, `"value":null,`, ``, 1), offsets()) // the same: there is none
	gives(t, h, strings.Replace(null, `"value":null`, `"value":""`, 1), offsets("A0"))
	expect(t, "runs", seen, []string{"true"})
	expect(t, "an empty value is another payload", y.runs, []string{"*idem.MismatchError"})
}

// Header bytes are signed: aws-lambda-go#422, PR#506. Emulators send 220, and headers may be null: an error for that record at most,
// no panic, and no record in the store.
func TestHeaders(t *testing.T) {
	for headers, good := range map[string]bool{
		`[{"h":[118,-36,0,127,-128]}]`: true, `[]`: true, `null`: true, `[{}]`: true, `[{"h":null}]`: true, `[null]`: true, `[{"h":[]}]`: true,
		`[{"h":[220]}]`: false, `[{"h":[-129]}]`: false, `[{"h":{}}]`: false, `{}`: false, `"x"`: false, `[{"h":["a"]}]`: false, `[{"h":1.5}]`: false,
	} {
		store, y := idemtest.NewMemory(t), &tally{}
		h := kafkaHandler(t, store, y)
		event := strings.Replace(kafkaEvent("A0", "A1", "B0"), `[{"h":[118,-36]}]`, headers, 1)
		if good {
			gives(t, h, event, offsets())
			gives(t, h, event, offsets())
			expect(t, headers, y.runs, []string{"A0", "A1", "B0"})
			continue
		}
		gives(t, h, event, offsets("A0", "A1"))
		if e, ok := y.failed[""].(*idem.RequestError); !ok || !strings.Contains(e.Problem, "header bytes") || len(store.Records()) != 1 {
			t.Errorf("%s: %v, %d records", headers, y.failed, len(store.Records()))
		}
		expect(t, headers, y.runs, []string{"B0"})

		y = &tally{park: func(string, error) error { return nil }}
		gives(t, kafkaHandler(t, idemtest.NewMemory(t), y), event, offsets())
		if _, ok := y.parked[""].(*idem.RequestError); !ok {
			t.Errorf("%s: parked %v", headers, y.parked)
		}
		expect(t, headers, y.runs, []string{"A1", "B0"})
	}
}

func TestUnreadableKafkaEvents(t *testing.T) {
	store, y := idemtest.NewMemory(t), &tally{}
	h := kafkaHandler(t, store, y)
	good := kafkaRecord("A0", `"QTA="`)
	for _, partitions := range []string{
		``, `"pay-0":[]`, `"pay-0":null`, `"pay-0":{}`, `"pay-0":[null]`, `"pay-0":["x"]`,
		`"pay-0":[` + good + `,` + strings.Replace(good, `"offset":0,`, ``, 1) + `]`,
		`"pay-0":[` + good + `,` + strings.Replace(good, `"offset":0`, `"offset":null`, 1) + `]`,
		`"pay-0":[` + good + `,` + strings.Replace(good, `"offset":0`, `"offset":-1`, 1) + `]`,
		`"pay-0":[` + good + `,` + strings.Replace(good, `"offset":0`, `"offset":"7"`, 1) + `]`,
		`"pay-0":[` + good + `,` + strings.Replace(good, `"offset":0`, `"offset":1e400`, 1) + `]`,
	} {
		refused(t, h, kafkaBatch(partitions))
	}
	for _, event := range []string{
		strings.Replace(kafkaBatch(""), `{}`, `null`, 1), strings.Replace(kafkaBatch(""), `{}`, `[]`, 1), strings.Replace(kafkaBatch(""), `"records":{}`, `"x":1`, 1),
		kinesisEvent("A1"), dynamoEvent("A1"),
	} {
		refused(t, h, event)
	}
	if len(store.Records()) != 0 || len(y.runs) != 0 {
		t.Errorf("%d records, runs %q", len(store.Records()), y.runs)
	}
	gives(t, h, kafkaBatch(`"pay-1":[`+good+`]`), `{"batchItemFailures":[{"itemIdentifier":{"partition":"pay-1","offset":0}}]}`)
	// What stands under a name that comes twice is not lost.
	gives(t, h, kafkaBatch(`"pay-0":[`+good+`],"pay-0":[`+kafkaRecord("A1", `"QTE="`)+`]`), offsets())
	slices.Sort(y.runs)
	expect(t, "runs", y.runs, []string{"A0", "A1"})
}
