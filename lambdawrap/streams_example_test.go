package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/lambdawrap"
)

// The key is the order's, so that a producer which puts an order twice has it shipped once.
func ExampleKinesis() {
	id := func(_ context.Context, r events.KinesisEventRecord) (idem.Request, error) {
		var o struct{ Shop, Order string }
		if err := json.Unmarshal(r.Kinesis.Data, &o); err != nil || o.Order == "" {
			return idem.Request{}, errors.New("no order in the record")
		}
		return idem.Request{Tenant: o.Shop, Key: o.Order}, nil
	}
	ship := func(_ context.Context, r events.KinesisEventRecord) (idem.None, error) {
		fmt.Println("shipping", string(r.Kinesis.Data))
		return idem.None{}, nil
	}
	h := lambdawrap.Kinesis(newOp[idem.None]("ship"), id, ship, nil)

	twice(h, `{"Records":[{"eventID":"shardId-0:1","eventSource":"aws:kinesis","eventSourceARN":"arn:aws:kinesis:us-east-1:1:stream/orders",
		"kinesis":{"sequenceNumber":"1","partitionKey":"p","data":"eyJzaG9wIjoiYWNtZSIsIm9yZGVyIjoiby0xIn0="}}]}`)
	// Output:
	// shipping {"shop":"acme","order":"o-1"}
	// {"batchItemFailures":[]}
	// {"batchItemFailures":[]}
}

// A record whose outcome is unknown is put aside once, instead of holding up its partition until somebody has looked.
func ExampleStreamOptions_park() {
	id := func(ctx context.Context, r lambdawrap.KafkaRecord) (idem.Request, error) {
		q, err := lambdawrap.KafkaID(ctx, r)
		q.Tenant = "acme"
		return q, err
	}
	charge := func(context.Context, lambdawrap.KafkaRecord) (idem.None, error) {
		return idem.None{}, errors.New("connection reset by the bank")
	}
	h := lambdawrap.Kafka(newOp[idem.None]("charge"), id, charge, &lambdawrap.StreamOptions[lambdawrap.KafkaRecord]{
		Park: func(_ context.Context, r lambdawrap.KafkaRecord, err error) error {
			if again, _ := idem.RetryAfter(err); again > 0 {
				return err // a reconciler may know soon
			}
			fmt.Printf("parked %s-%d offset %d: %T\n", r.Topic, r.Partition, r.Offset, err)
			return nil // having sent it to a queue that somebody watches
		},
	})

	twice(h, `{"eventSource":"aws:kafka","eventSourceArn":"arn:aws:kafka:us-east-1:1:cluster/c/1","records":{"pay-0":[
		{"topic":"pay","partition":0,"offset":7,"timestamp":1595035749700,"timestampType":"CREATE_TIME","value":"MTAw"}]}}`)
	// Output:
	// {"batchItemFailures":[{"itemIdentifier":{"partition":"pay-0","offset":7}}]}
	// parked pay-0 offset 7: *idem.IndeterminateError
	// {"batchItemFailures":[]}
}
