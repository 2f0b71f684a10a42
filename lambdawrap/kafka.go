package lambdawrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// KafkaRecord is a record, and what aws-lambda-go's type does not tell of it.
type KafkaRecord struct {
	events.KafkaRecord

	// Cluster is the ARN of the cluster on MSK, else the sorted bootstrap servers, with commas between.
	Cluster string

	// Tombstone says that the value is null, which KafkaRecord.Value shows as an empty one.
	Tombstone bool

	_ struct{}
}

// Kafka guards the handler of the records of topics, on Amazon MSK or a cluster of one's own. Give what it returns to lambda.Start.
//
// Kafka's event source mappings know partial failures in provisioned mode only, with ReportBatchItemFailures in their
// FunctionResponseTypes; if yours has not both, set StreamOptions.AllOrNothing. Bound the retries and name an OnFailure destination:
// a record that cannot be handled holds up its partition until then. aws-lambda-go has no type for the answer; a failed record is
// {"itemIdentifier":{"partition":"topic-0","offset":7}}.
//
// A batch may have several partitions. Each is in its order, and stops at its first record that is not known to be done, as a
// shard does in [Kinesis]; the others go on.
//
// Id tells which request a record is: [KafkaID], or a key out of the record. Where it leaves Payload nil, the payload is the record's
// key, value and headers as they were sent, so that a tombstone and an empty value differ; where a producer that repeats itself
// changes the headers, as tracing does, set it to []byte(r.Value).
//
// A record that does not decode fails alone: header bytes are numbers from -128 to 127, and what some emulators send instead is
// refused. A record without an offset, no records at all or an event of another source is an [idem.RequestError] for the whole
// batch, and nothing runs. Kafka panics where an argument but opts is nil.
func Kafka[T any](op *idem.Operation[T], id func(context.Context, KafkaRecord) (idem.Request, error), h func(context.Context, KafkaRecord) (T, error), opts *StreamOptions[KafkaRecord]) lambda.Handler {
	refuseNil("Kafka", op, id, h)
	return guardBatch(op, id, h, readKafka, opts.batch())
}

// KafkaID identifies a record by cluster, topic, partition, offset and timestamp. A topic that was deleted and made again counts its
// offsets from 0: the timestamp makes its records other ones. Only a record that is put at the same place with the same timestamp, key,
// value and headers is taken for a repetition. A record without timestamp is an error.
//
// The bootstrap servers of a cluster of one's own are what the event source mapping says: where that is changed, what is delivered
// again has other keys. Set r.Cluster to a name of your own in a function around KafkaID to keep them.
func KafkaID(_ context.Context, r KafkaRecord) (idem.Request, error) {
	at := r.Timestamp.UnixMilli()
	switch {
	case r.Cluster == "" || r.Topic == "":
		return idem.Request{}, errors.New("lambdawrap: the Kafka event has no cluster or the record no topic")
	case r.Timestamp.IsZero() || at <= 0:
		return idem.Request{}, errors.New("lambdawrap: the Kafka record has no timestamp, and one of another topic of that name would have its key: take the key from the record")
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return idem.Request{Key: naturalKey("kafka", r.Cluster, r.Topic, number(r.Partition), number(r.Offset), number(at))}, nil
}

// kafkaName names a failed record in the answer.
type kafkaName struct {
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
}

// readKafka keeps nothing of the event's buffer, and never quotes it. A record that has an offset and does not decode is its own failure
// alone.
func readKafka(event []byte) ([]entry[KafkaRecord], string) {
	if problem := unfit(sourceOf(event), kafka); problem != "" {
		return nil, problem
	}
	var sent struct {
		ARN     text            `json:"eventSourceArn"`
		Servers text            `json:"bootstrapServers"`
		Records json.RawMessage `json:"records"`
	}
	if json.Unmarshal(event, &sent) != nil {
		return nil, "the event does not decode"
	}
	cluster := string(sent.ARN)
	if cluster == "" {
		servers := strings.Split(string(sent.Servers), ",")
		slices.Sort(servers)
		cluster = strings.Join(servers, ",")
	}
	var list []entry[KafkaRecord]
	err := eachPartition(sent.Records, func(partition string, records []json.RawMessage) error {
		for _, raw := range records {
			e := entry[KafkaRecord]{group: "partition " + partition}
			e.record.Cluster = cluster
			if err := readKafkaRecord(&e, partition, raw); err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err.Error()
	case len(list) == 0:
		return nil, "the event has no records"
	}
	return list, ""
}

var (
	errPartitions = errors.New("the event does not decode as lists of records by partition")
	errNoOffset   = errors.New("a record has no offset: whether it failed could not be told, and nothing was run")
)

func readKafkaRecord(e *entry[KafkaRecord], partition string, raw json.RawMessage) error {
	var sent struct {
		Offset  json.RawMessage `json:"offset"`
		Key     json.RawMessage `json:"key"`
		Value   json.RawMessage `json:"value"`
		Headers json.RawMessage `json:"headers"`
	}
	if json.Unmarshal(raw, &sent) != nil {
		return errNoOffset
	}
	offset, err := strconv.ParseInt(string(sent.Offset), 10, 64)
	if err != nil || offset < 0 {
		return errNoOffset
	}
	e.name = kafkaName{partition, offset}
	e.id = fmt.Sprint(partition, " ", offset)
	var r events.KafkaRecord
	switch {
	case json.Unmarshal(raw, &r) != nil:
		e.record.Offset = offset
		e.problem = "the record does not decode: header bytes, for one, are numbers from -128 to 127"
		return nil
	case fmt.Sprint(r.Topic, "-", r.Partition) != partition:
		e.problem = "the record does not belong to the partition that it stands under"
	}
	e.record.KafkaRecord, e.record.Tombstone = r, !present(sent.Value)
	e.payload = jsonOf(member{"key", sent.Key}, member{"value", sent.Value}, member{"headers", sent.Headers})
	return nil
}

// eachPartition goes through an object of lists in the event's order. A map would lose what stands under a name that comes twice.
func eachPartition(records json.RawMessage, visit func(partition string, records []json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(records))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errPartitions
	}
	for dec.More() {
		t, err := dec.Token()
		partition, ok := t.(string)
		var list []json.RawMessage
		if err != nil || !ok || dec.Decode(&list) != nil {
			return errPartitions
		}
		if err := visit(partition, list); err != nil {
			return err
		}
	}
	return nil
}
