package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/bench/bare"
)

// charge is the result of every operation here; bare.Receipt has its size.
type charge struct {
	ID     string
	Amount int
}

// payload is a request as a handler gets it.
var payload = json.RawMessage(`{"order":"o-1234567890","customer":"c-42","amount":"100.00","currency":"EUR","items":[{"sku":"a-1","quantity":2},{"sku":"b-7","quantity":1}]}`)

// target is a table on an engine, with what both sides use to reach it.
type target struct {
	url, table string
	client     *dynamodb.Client
	op         *idem.Operation[charge]
	calls      *bare.Calls
	anew       *bare.Calls
}

// manyConns lets 64 goroutines keep their connections; the SDK's default keeps 10 per host, and both sides would measure
// handshakes.
func manyConns(o *dynamodb.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 128 })
}

func newTarget(url, table string) (*target, error) {
	client := bare.Client(url, manyConns)
	store, err := dynamo.New(client, table, nil)
	if err != nil {
		return nil, err
	}
	op, err := idem.New[charge](store, idem.InsecureCleartext(), "charge", nil)
	if err != nil {
		return nil, err
	}
	t := &target{url, table, client, op, bare.New(client, table), bare.New(client, table)}
	t.anew.Anew = true
	return t, nil
}

// prefix keeps the keys of one run apart from those of others.
var prefix = rand.Text()[:8]

func request(key string) idem.Request {
	return idem.Request{Tenant: "tenant-1", Key: prefix + key, Payload: payload}
}

func itemKey(key string) string { return fmt.Sprintf("1#tenant-1#charge#%-43s", prefix+key) }

func charges(context.Context) (charge, error) { return charge{"ch_1234567890", 100}, nil }

func (t *target) first(name string) (guarded, plain, anew side) {
	guarded = side{"idem: first execution", func(ctx context.Context, round, i int) error {
		_, err := t.op.Do(ctx, request(fmt.Sprint(name, round, "-", i)), charges)
		return err
	}}
	of := func(what string, c *bare.Calls) side {
		return side{"bare: two UpdateItem" + what, func(ctx context.Context, round, i int) error {
			return c.First(ctx, itemKey(fmt.Sprint(what, name, round, "-", i)))
		}}
	}
	return guarded, of("", t.calls), of(", anew", t.anew)
}

// replay is of one key each, which is there.
func (t *target) replay(ctx context.Context) (guarded, plain, anew side, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := t.op.Do(ctx, request("replayed"), charges); err != nil {
		return side{}, side{}, side{}, err
	}
	key := itemKey(rand.Text()[:8])
	if err := t.calls.First(ctx, key); err != nil {
		return side{}, side{}, side{}, err
	}
	guarded = side{"idem: replay", func(ctx context.Context, _, _ int) error {
		r, err := t.op.Do(ctx, request("replayed"), charges)
		if err == nil && r.Outcome != idem.Replayed {
			err = fmt.Errorf("outcome %v", r.Outcome)
		}
		return err
	}}
	of := func(what string, c *bare.Calls) side {
		return side{"bare: refused UpdateItem with ALL_OLD" + what, func(ctx context.Context, _, _ int) error {
			_, err := c.Replay(ctx, key)
			return err
		}}
	}
	return guarded, of("", t.calls), of(", anew", t.anew), nil
}
