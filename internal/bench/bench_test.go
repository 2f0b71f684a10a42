package main

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/bench/bare"
	"github.com/idem-go/idem/internal/engine"
)

// emptyTable is a table that takes everything, and keeps what it was sent.
type emptyTable struct{ sent []*dynamodb.UpdateItemInput }

func (k *emptyTable) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	k.sent = append(k.sent, in)
	return &dynamodb.UpdateItemOutput{}, nil
}

func (*emptyTable) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, nil
}

func (*emptyTable) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	key := types.KeySchemaElement{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}
	return &dynamodb.DescribeTableOutput{Table: &types.TableDescription{TableStatus: types.TableStatusActive, KeySchema: []types.KeySchemaElement{key}}}, nil
}

// TestBareIsEqual: the bare calls have the expressions, the attributes and about the size of the real ones.
func TestBareIsEqual(t *testing.T) {
	api := &emptyTable{}
	store, err := dynamo.New(api, "table", nil)
	if err != nil {
		t.Fatal(err)
	}
	op, err := idem.New[charge](store, idem.InsecureCleartext(), "charge", &idem.Options{Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.Do(t.Context(), request("equal"), charges); err != nil {
		t.Fatal(err)
	}
	claim, outcome := bare.New(nil, "table").Inputs()
	for i, in := range []*dynamodb.UpdateItemInput{claim, outcome} {
		real := api.sent[i]
		if *in.UpdateExpression != *real.UpdateExpression || *in.ConditionExpression != *real.ConditionExpression || in.ReturnValuesOnConditionCheckFailure != real.ReturnValuesOnConditionCheckFailure {
			t.Errorf("call %d: bare\n%s if %s, real\n%s if %s", i, *in.UpdateExpression, *in.ConditionExpression, *real.UpdateExpression, *real.ConditionExpression)
		}
		if got, want := sizes(in), sizes(real); !maps.Equal(got, want) {
			t.Errorf("call %d: bare values\n%v, real\n%v", i, got, want)
		}
	}
}

// sizes are the values of a call by their place, each with its type and length.
func sizes(in *dynamodb.UpdateItemInput) map[string]string {
	m := make(map[string]string)
	for place, v := range in.ExpressionAttributeValues {
		if place == ":sa" { // by the store's clock, and this table tells no time
			continue
		}
		switch v := v.(type) {
		case *types.AttributeValueMemberB:
			m[place] = fmt.Sprint("B", len(v.Value))
		case *types.AttributeValueMemberN:
			m[place] = fmt.Sprint("N", len(v.Value))
		default:
			m[place] = fmt.Sprintf("%T", v)
		}
	}
	return m
}

func TestMedianAndQuartiles(t *testing.T) {
	n := numbers{4, 1, 3, 2, 9}
	if low, high := n.quartiles(); n.median() != 3 || low != 2 || high != 4 || (numbers{4, 1}).median() != 2.5 {
		t.Errorf("median %v, quartiles %v and %v", n.median(), low, high)
	}
	if r := n.over(numbers{2, 1, 1, 1, 3}); r[0] != 2 || r[4] != 3 {
		t.Errorf("ratios %v", r)
	}
}

func TestSpreadRunsEverythingOnceAndStopsAtAnError(t *testing.T) {
	for _, goroutines := range []int{1, 8} {
		var ran [100]atomic.Int32
		if err := spread(len(ran), goroutines, func(i int) error { ran[i].Add(1); return nil }); err != nil {
			t.Error(err)
		}
		for i := range ran {
			if ran[i].Load() != 1 {
				t.Errorf("%d ran %d times", i, ran[i].Load())
			}
		}
		if err := spread(100, goroutines, func(i int) error { return context.Canceled }); err != context.Canceled {
			t.Errorf("got %v", err)
		}
	}
}

// BenchmarkRoot is Do over the memory store.
func BenchmarkRoot(b *testing.B) {
	for _, name := range []string{"first", "replay"} {
		b.Run(name, func(b *testing.B) {
			r, err := newRootOnly()
			if err != nil {
				b.Fatal(err)
			}
			first, _, replay, _ := r.sides("bench")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s := first
				if name == "replay" {
					s = replay
				}
				if err := s.op(b.Context(), 0, i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEngine is Do over an engine, beside the same calls made bare.
func BenchmarkEngine(b *testing.B) {
	engines := engine.Endpoints("IDEM_TEST_DYNAMODB")
	if len(engines) == 0 {
		b.Skip("IDEM_TEST_DYNAMODB names no engine: go run ./localstack exec -- go test -bench . ./internal/bench")
	}
	for name, url := range engines {
		t, drop, err := table(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(drop)
		first, plainFirst, _ := t.first("bench")
		replay, plainReplay, _, err := t.replay(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range []side{first, plainFirst, replay, plainReplay} {
			round := 0
			b.Run(name+"/"+s.name, func(b *testing.B) {
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				round++
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := s.op(ctx, round, i); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
