package lambdawrap_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/lambdawrap"
)

// nowhere is a store that answers at once that the key is completed, so that a benchmark shows what is around it.
type nowhere struct{ record idem.Record }

func (*nowhere) Generation(context.Context) (idem.Generation, error) { return idem.Generation{}, nil }
func (s *nowhere) Create(_ context.Context, r idem.Record) (idem.Record, error) {
	if s.record.State != idem.Completed || r.ID != s.record.ID {
		s.record = r
	}
	return s.record, nil
}
func (s *nowhere) Swap(_ context.Context, _ idem.Version, r idem.Record) (idem.Record, error) {
	s.record = r
	return r, nil
}
func (s *nowhere) Load(context.Context, idem.ID) (idem.Record, error)        { return s.record, nil }
func (*nowhere) Fetch(_ context.Context, r idem.Record) (idem.Record, error) { return r, nil }

// benchmark shows a replay: what an adapter adds to Do is on that path whole.
func benchmark(b *testing.B, h lambda.Handler, event string) {
	ctx := invoked(b)
	if _, err := h.Invoke(ctx, []byte(event)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Invoke(ctx, []byte(event)); err != nil {
			b.Fatal(err)
		}
	}
}

const orderBody = `{"shop":"acme","order":"o-123456","lines":[{"sku":"a-1","count":2,"price":"12.50"},{"sku":"b-2","count":1,"price":"3.99"}],"note":"leave it at the door, please"}`

func BenchmarkDo(b *testing.B) {
	op := newOperationOn[string](&nowhere{})
	ctx := invoked(b)
	r := idem.Request{Tenant: "acme", Key: "k", Payload: json.RawMessage(orderBody)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Do(ctx, r, func(context.Context) (string, error) { return "paid", nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func newOperationOn[T any](store idem.Store) *idem.Operation[T] { return newOperation[T](store, false) }

func BenchmarkWrap(b *testing.B) {
	type shopOrder struct{ Shop, Order string }
	h := lambdawrap.Wrap(newOperationOn[string](&nowhere{}), func(_ context.Context, o shopOrder) (idem.Request, error) {
		return idem.Request{Tenant: o.Shop, Key: o.Order}, nil
	}, func(context.Context, shopOrder) (string, error) { return "paid", nil })
	benchmark(b, h, orderBody)
}

func benchmarkRequest() sent { return payment("k", func(s *sent) { s.body = orderBody }) }

func eventText(b *testing.B, e any) string {
	text, err := json.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func BenchmarkAPIGatewayV2(b *testing.B) {
	benchmark(b, lambdawrap.APIGatewayV2(newOperationOn[events.APIGatewayV2HTTPResponse](&nowhere{}), acme, func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		return events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: "paid"}, nil
	}, nil), eventText(b, v2Event(benchmarkRequest())))
}

func BenchmarkAPIGatewayV1(b *testing.B) {
	benchmark(b, lambdawrap.APIGatewayV1(newOperationOn[events.APIGatewayProxyResponse](&nowhere{}), acme, func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: 200, Body: "paid"}, nil
	}, nil), eventText(b, v1Event(benchmarkRequest())))
}

func BenchmarkFunctionURL(b *testing.B) {
	benchmark(b, lambdawrap.FunctionURL(newOperationOn[events.LambdaFunctionURLResponse](&nowhere{}), acme, func(context.Context, events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
		return events.LambdaFunctionURLResponse{StatusCode: 200, Body: "paid"}, nil
	}, nil), eventText(b, urlEvent(benchmarkRequest())))
}

func BenchmarkALB(b *testing.B) {
	benchmark(b, lambdawrap.ALB(newOperationOn[events.ALBTargetGroupResponse](&nowhere{}), acme, func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
		return events.ALBTargetGroupResponse{StatusCode: 200, Body: "paid"}, nil
	}, nil), eventText(b, albEvent(benchmarkRequest(), true)))
}

func BenchmarkSQS(b *testing.B) {
	benchmark(b, lambdawrap.SQS(newOperationOn[string](&nowhere{}), func(context.Context, events.SQSMessage) (idem.Request, error) {
		return idem.Request{Tenant: "acme", Key: "k"}, nil
	}, func(context.Context, events.SQSMessage) (string, error) { return "paid", nil }, nil), eventText(b, events.SQSEvent{Records: standard(orderBody)}))
}

func benchmarkBatch[R any](b *testing.B, event string, wrap func(*idem.Operation[string], func(context.Context, R) (idem.Request, error), func(context.Context, R) (string, error), *lambdawrap.StreamOptions[R]) lambda.Handler) {
	id := func(context.Context, R) (idem.Request, error) { return idem.Request{Tenant: "acme", Key: "k"}, nil }
	benchmark(b, wrap(newOperationOn[string](&nowhere{}), id, func(context.Context, R) (string, error) { return "paid", nil }, nil), event)
}

func BenchmarkKinesis(b *testing.B) {
	benchmarkBatch(b, kinesisEvent("A1"), lambdawrap.Kinesis[string])
}

func BenchmarkDynamoDBStream(b *testing.B) {
	benchmarkBatch(b, dynamoEvent("A1"), lambdawrap.DynamoDBStream[string])
}

func BenchmarkKafka(b *testing.B) {
	benchmarkBatch(b, kafkaEvent("A1"), lambdawrap.Kafka[string])
}

func BenchmarkHTTP(b *testing.B) {
	h := lambdawrap.HTTP(newOperationOn[lambdawrap.Response](&nowhere{}), acme, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("paid"))
	}), nil)
	ctx := invoked(b)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(ctx, "POST", "/pay", strings.NewReader(orderBody))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

// What decoding and encoding alone cost, as the Lambda runtime does them for a handler that is not wrapped.
func BenchmarkUnwrappedAPIGatewayV2(b *testing.B) {
	benchmark(b, lambda.NewHandler(func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		return events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: "paid"}, nil
	}), eventText(b, v2Event(benchmarkRequest())))
}

func BenchmarkUnwrappedDynamoDBStream(b *testing.B) {
	benchmark(b, lambda.NewHandler(func(context.Context, events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
		return events.DynamoDBEventResponse{}, nil
	}), dynamoEvent("A1"))
}

func BenchmarkUnwrappedSQS(b *testing.B) {
	benchmark(b, lambda.NewHandler(func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
		return events.SQSEventResponse{}, nil
	}), eventText(b, events.SQSEvent{Records: standard(orderBody)}))
}
