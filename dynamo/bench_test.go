package dynamo_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem/dynamo"
)

// canned answers every write at once, so that what is measured is the caller's side.
type canned struct{ next http.RoundTripper }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.UpdateItem" {
		return c.next.RoundTrip(r)
	}
	io.Copy(io.Discard, r.Body)
	return respond(r, 200, nil, "{}"), nil
}

// BenchmarkCreate compares a claim with the bare SDK call that sends the same bytes.
func BenchmarkCreate(b *testing.B) {
	api := &kept{API: clientOver(canned{newFake()}, "http://fake")}
	s, err := dynamo.New(api, "records", nil)
	if err != nil {
		b.Fatal(err)
	}
	r := claim()
	if _, err := s.Create(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	b.Run("Store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Create(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("SDK", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := api.API.UpdateItem(b.Context(), api.in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("SDK, three values", func(b *testing.B) {
		b.ReportAllocs()
		in := *api.in
		in.UpdateExpression = aws.String("SET ve = :ve, st = :st, le = :le")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{}
		for _, place := range []string{":ve", ":st", ":le"} {
			in.ExpressionAttributeValues[place] = api.in.ExpressionAttributeValues[place]
		}
		for b.Loop() {
			if _, err := api.API.UpdateItem(b.Context(), &in); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// kept keeps the last write.
type kept struct {
	dynamo.API
	in *dynamodb.UpdateItemInput
}

func (k *kept) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	k.in = in
	return k.API.UpdateItem(ctx, in, opts...)
}
