// Payment is the worked example: a Lambda function that charges an order through a payment provider, at most once.
//
// A timeout leaves an indeterminate record, and the next delivery of the order asks the provider before anything else.
// Its environment: IDEM_TABLE, the table of template.yaml, IDEM_KMS_KEY, the ARN of a KMS key, and PROVIDER_URL.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

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

// settle is the longest that a charge of ours can still be under way at the provider.
const settle = 15 * time.Minute

var provider = psp.Client{BaseURL: os.Getenv("PROVIDER_URL")}

func main() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	check(err)
	store, err := dynamo.New(dynamodb.NewFromConfig(cfg), os.Getenv("IDEM_TABLE"), nil)
	check(err)
	sealer, err := kmsenc.New(kms.NewFromConfig(cfg), os.Getenv("IDEM_KMS_KEY"), nil)
	check(err)
	op, err := idem.New[psp.Charge](store, sealer, "charge", &idem.Options{Begin: idem.InMemory, Recover: idem.Reconcile(settle, ask)})
	check(err)
	lambda.Start(lambdawrap.Wrap(op, identify, charge))
}

// identify: the merchant is known from who invokes the function in a real system, never from the order.
func identify(_ context.Context, o psp.Order) (idem.Request, error) {
	return idem.Request{Tenant: o.Merchant, Key: o.ID}, nil
}

// charge is the handler. It could run without idem, too: a nil attempt does nothing.
func charge(ctx context.Context, o psp.Order) (psp.Charge, error) {
	attempt := idem.AttemptFrom(ctx)
	if err := attempt.Begin(ctx, nil); err != nil {
		return psp.Charge{}, err
	}
	c, err := provider.Charge(ctx, attempt.DownstreamKey(), o)
	return c, classified(err)
}

// ask is the reconciler: it asks the provider what became of a charge that nobody knows about.
func ask(ctx context.Context, d idem.Doubt) (psp.Charge, error) {
	c, err := provider.Find(ctx, d.DownstreamKey)
	if errors.Is(err, psp.ErrNotFound) {
		return c, idem.NotApplied(err) // it may still arrive: believed once settle has passed
	}
	return c, err
}

// classified says what an error of the provider means. What it does not say means that nobody knows.
func classified(err error) error {
	if declined, ok := errors.AsType[*psp.DeclinedError](err); ok {
		return idem.Final(declined)
	}
	if refused, ok := errors.AsType[*psp.RefusedError](err); ok {
		return idem.Final(refused)
	}
	if unavailable, ok := errors.AsType[*psp.UnavailableError](err); ok {
		return idem.NotApplied(unavailable)
	}
	return err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
