// Paymentqueue charges the orders of an SQS queue, each at most once. What is not known to be done comes again by itself.
//
// Its environment is that of the payment example; the event source mapping must have ReportBatchItemFailures.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/examples/payment/psp"
	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/lambdawrap"
)

// retain is longer than a message can live: 14 days in the queue, and as long again in its dead letter queue.
const retain = 30 * 24 * time.Hour

var provider = psp.Client{BaseURL: os.Getenv("PROVIDER_URL")}

func main() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	check(err)
	store, err := dynamo.New(dynamodb.NewFromConfig(cfg), os.Getenv("IDEM_TABLE"), nil)
	check(err)
	sealer, err := kmsenc.New(kms.NewFromConfig(cfg), os.Getenv("IDEM_KMS_KEY"), nil)
	check(err)
	op, err := idem.New[psp.Charge](store, sealer, "charge-queued", &idem.Options{
		Begin: idem.InMemory, Retain: retain, Recover: idem.Reconcile(15*time.Minute, ask),
	})
	check(err)
	lambda.Start(lambdawrap.SQS(op, identify, charge, nil))
}

// identify takes the key from the business: a message's own id changes when it is sent or redriven again.
func identify(_ context.Context, m events.SQSMessage) (idem.Request, error) {
	var o psp.Order
	if json.Unmarshal([]byte(m.Body), &o) != nil || o.ID == "" {
		return idem.Request{}, errors.New("message without an order")
	}
	return idem.Request{Tenant: o.Merchant, Key: o.ID, Payload: json.RawMessage(m.Body)}, nil
}

func charge(ctx context.Context, m events.SQSMessage) (psp.Charge, error) {
	var o psp.Order
	if err := json.Unmarshal([]byte(m.Body), &o); err != nil {
		return psp.Charge{}, err
	}
	attempt := idem.AttemptFrom(ctx)
	if err := attempt.Begin(ctx, nil); err != nil {
		return psp.Charge{}, err
	}
	c, err := provider.Charge(ctx, attempt.DownstreamKey(), o)
	if declined, ok := errors.AsType[*psp.DeclinedError](err); ok {
		return c, idem.Final(declined)
	}
	return c, err
}

func ask(ctx context.Context, d idem.Doubt) (psp.Charge, error) {
	c, err := provider.Find(ctx, d.DownstreamKey)
	if errors.Is(err, psp.ErrNotFound) {
		return c, idem.NotApplied(err)
	}
	return c, err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
