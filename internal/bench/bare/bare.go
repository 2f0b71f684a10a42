// Package bare makes the same calls as an idempotent operation does, with the SDK alone and nothing around them: what the
// benchmarks compare with. It imports nothing of this module, so that a program with it starts as one without this library.
package bare

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Client is a client of the engine at url, as a Lambda function would make it.
func Client(url string, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "eu-central-1",
		BaseEndpoint: &url,
		Credentials:  aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("test", "test", "")),
	}, opts...)
}

type attributes = map[string]types.AttributeValue

// Calls are the two writes of a first execution. Their values are made once and shared by all calls, so that what is measured
// is the SDK alone; or, Anew, for every call, as a caller does who has something to say.
type Calls struct {
	client         *dynamodb.Client
	claim, outcome dynamodb.UpdateItemInput

	Anew bool
}

// The expressions, as package dynamo has them; a test compares.
const (
	set = "SET fo = :fo, ve = :ve, st = :st, be = :be, fe = :fe, li = :li, ge = :ge, fp = :fp, le = :le, sa = :sa, na = :na, " +
		"re = :re, si = :si, aa = :aa, ac = :ac, se = :se, rt = :rt, rb = :rb, rf = :rf, nb = :nb, nf = :nf, eb = :eb, ef = :ef, " +
		"wb = :wb, ww = :ww, wa = :wa"
	pending  = set + " REMOVE ex, iq, ia, bv, bd, bn"
	complete = set + ", ex = :ex REMOVE iq, ia, bv, bd, bn"
)

// Receipt is what the outcome holds: a result of this size in clear text.
const Receipt = `IDEMCLEAR1{"ID":"ch_1234567890","Amount":100}`

// New makes the calls for a table.
func New(client *dynamodb.Client, table string) *Calls {
	c := &Calls{client: client}
	c.claim = dynamodb.UpdateItemInput{
		TableName: &table, UpdateExpression: aws.String(pending), ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ExpressionAttributeValues:           claimed(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	c.outcome = c.claim
	c.outcome.UpdateExpression, c.outcome.ConditionExpression = aws.String(complete), aws.String("ve = :sn")
	c.outcome.ExpressionAttributeValues = completed()
	return c
}

func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func bytes(b []byte) types.AttributeValue  { return &types.AttributeValueMemberB{Value: b} }

var null = &types.AttributeValueMemberNULL{Value: true}

// claimed are the values of a claim.
func claimed() attributes {
	a := make(attributes, 28)
	a[":fo"], a[":ve"], a[":st"] = number("1"), bytes([]byte("0123456789abcdef")), &types.AttributeValueMemberS{Value: "P"}
	a[":be"], a[":fe"], a[":li"] = &types.AttributeValueMemberBOOL{Value: true}, number("1764597000123"), number("1764597000123")
	a[":ge"], a[":fp"], a[":le"], a[":sa"] = number("0"), bytes(make([]byte, 32)), number("1764597000123"), number("1764597000123")
	a[":na"], a[":re"], a[":ac"], a[":se"], a[":rt"] = number("1"), number("0"), number("0"), number("900"), number("86400")
	a[":rf"], a[":nf"], a[":ef"] = number("0"), number("0"), number("0")
	for _, place := range [...]string{":si", ":aa", ":rb", ":nb", ":eb", ":wb", ":ww", ":wa"} {
		a[place] = null
	}
	return a
}

// completed are the values of an outcome.
func completed() attributes {
	a := claimed()
	a[":sn"], a[":ve"] = a[":ve"], bytes([]byte("fedcba9876543210"))
	a[":st"] = &types.AttributeValueMemberS{Value: "C"}
	a[":rb"], a[":rf"], a[":ex"] = bytes([]byte(Receipt)), number("1764597000123"), number("1764683400")
	return a
}

func (c *Calls) under(in dynamodb.UpdateItemInput, key string, values func() attributes) *dynamodb.UpdateItemInput {
	in.Key = attributes{"pk": &types.AttributeValueMemberS{Value: key}}
	if c.Anew {
		in.ExpressionAttributeValues = values()
	}
	return &in
}

// First writes a claim and an outcome under the key.
func (c *Calls) First(ctx context.Context, key string) error {
	if _, err := c.client.UpdateItem(ctx, c.under(c.claim, key, claimed)); err != nil {
		return err
	}
	_, err := c.client.UpdateItem(ctx, c.under(c.outcome, key, completed))
	return err
}

// Replay writes a claim that is refused, and returns the item in the refusal.
func (c *Calls) Replay(ctx context.Context, key string) (attributes, error) {
	_, err := c.client.UpdateItem(ctx, c.under(c.claim, key, claimed))
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return refused.Item, nil
	}
	return nil, errors.Join(errors.New("the claim was not refused"), err)
}

// Inputs are the two calls, for the test that compares.
func (c *Calls) Inputs() (claim, outcome *dynamodb.UpdateItemInput) { return &c.claim, &c.outcome }

// Peak is the most memory this process had at a time, in KiB, as Linux tells it; 0 elsewhere. (What getrusage tells of a child
// includes its parent.)
func Peak() int {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return kB
		}
	}
	return 0
}
