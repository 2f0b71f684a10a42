package lambdawrap_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// newOp makes an operation for the examples: on a function it is on DynamoDB, sealed by KMS.
func newOp[T any](name string) *idem.Operation[T] {
	op, err := idem.New[T](idemtest.NewMemory(nil), idem.InsecureCleartext(), name, nil)
	if err != nil {
		panic(err)
	}
	return op
}

// twice invokes a handler with an event and its duplicate. On Lambda, lambda.Start takes the handler.
func twice(h lambda.Handler, event string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		out, err := h.Invoke(ctx, []byte(event))
		if err != nil {
			fmt.Printf("%T\n", err)
			continue
		}
		fmt.Println(string(out))
	}
}

func ExampleAPIGatewayV2() {
	pay := func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		return events.APIGatewayV2HTTPResponse{StatusCode: 201, Headers: map[string]string{"Location": "/payments/1"}, Body: "paid"}, nil
	}
	h := lambdawrap.APIGatewayV2(newOp[events.APIGatewayV2HTTPResponse]("pay"), lambdawrap.JWTSubject, pay, nil)

	twice(h, `{"version":"2.0","routeKey":"POST /pay","rawPath":"/pay","headers":{"idempotency-key":"\"a1\""},
		"requestContext":{"http":{"method":"POST"},"authorizer":{"jwt":{"claims":{"iss":"https://id.example.com","sub":"u-1"}}}}}`)
	// Output:
	// {"statusCode":201,"headers":{"Location":"/payments/1"},"body":"paid","isBase64Encoded":false}
	// {"statusCode":201,"headers":{"Idempotent-Replayed":"true","Location":"/payments/1"},"body":"paid","isBase64Encoded":false}
}

func ExampleAPIGatewayV1() {
	pay := func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: 500, Body: "the provider did not answer"}, nil
	}
	h := lambdawrap.APIGatewayV1(newOp[events.APIGatewayProxyResponse]("pay"), lambdawrap.APIKeyID, pay, &lambdawrap.HTTPOptions[events.APIGatewayProxyRequest]{Docs: "https://api.example.com/problems/"})

	// A response of 500 does not say what happened: nothing runs again until that is known.
	twice(h, `{"resource":"/pay","path":"/pay","httpMethod":"POST","headers":{"Idempotency-Key":"a1"},"requestContext":{"identity":{"apiKeyId":"k1"}}}`)
	// Output:
	// {"statusCode":500,"body":"the provider did not answer","isBase64Encoded":false}
	// {"statusCode":409,"headers":{"Cache-Control":"no-store","Content-Type":"application/problem+json"},"body":"{\"type\":\"https://api.example.com/problems/indeterminate\",\"title\":\"The outcome of an earlier request with this key is not known; nothing was done for this one\",\"status\":409,\"record\":\"pay/1bf6de072ddd\",\"retryable\":false}","isBase64Encoded":false}
}

func ExampleFunctionURL() {
	busy := true
	pay := func(context.Context, events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
		if busy {
			busy = false
			return events.LambdaFunctionURLResponse{StatusCode: 429}, nil
		}
		return events.LambdaFunctionURLResponse{StatusCode: 200, Body: "paid"}, nil
	}
	h := lambdawrap.FunctionURL(newOp[events.LambdaFunctionURLResponse]("pay"), lambdawrap.IAMCaller, pay, &lambdawrap.HTTPOptions[events.LambdaFunctionURLRequest]{
		Header: "X-Idempotency-Key",
		Record: func(status int) lambdawrap.Disposition {
			switch {
			case status == http.StatusTooManyRequests: // this handler says so before it does anything
				return lambdawrap.Forget
			case status < 500:
				return lambdawrap.Keep
			}
			return lambdawrap.Unclear
		},
	})

	twice(h, `{"version":"2.0","rawPath":"/pay","headers":{"x-idempotency-key":"a1"},"requestContext":{"domainName":"abc.lambda-url.eu-west-1.on.aws",
		"http":{"method":"POST"},"authorizer":{"iam":{"userArn":"arn:aws:iam::111122223333:user/shop"}}}}`)
	// Output:
	// {"statusCode":429,"headers":{},"body":"","isBase64Encoded":false}
	// {"statusCode":200,"headers":{},"body":"paid","isBase64Encoded":false}
}

func ExampleALB() {
	pay := func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
		return events.ALBTargetGroupResponse{StatusCode: 200, MultiValueHeaders: map[string][]string{"Set-Cookie": {"a=1", "b=2"}}}, nil
	}
	tenant := func(_ context.Context, r events.ALBTargetGroupRequest) (string, error) {
		return "shop", nil // from a token that this function has verified
	}
	h := lambdawrap.ALB(newOp[events.ALBTargetGroupResponse]("pay"), tenant, pay, nil)

	twice(h, `{"requestContext":{"elb":{"targetGroupArn":"arn"}},"httpMethod":"POST","path":"/pay","multiValueHeaders":{"idempotency-key":["a1"]}}`)
	// Output:
	// {"statusCode":200,"multiValueHeaders":{"Set-Cookie":["a=1","b=2"]},"body":"","isBase64Encoded":false}
	// {"statusCode":200,"multiValueHeaders":{"Idempotent-Replayed":["true"]},"body":"","isBase64Encoded":false}
}

// The boundary of a multipart form is another one in every request: Fingerprint compares its parts.
func ExampleHTTP() {
	store := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, file, err := r.FormFile("receipt")
		if err != nil {
			http.Error(w, "no receipt", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "stored %d bytes", file.Size)
	})
	tenant := func(_ context.Context, r *http.Request) (string, error) {
		return "shop", nil // from a token that a middleware has verified
	}
	h := lambdawrap.HTTP(newOp[lambdawrap.Response]("store"), tenant, store, &lambdawrap.HTTPOptions[*http.Request]{Fingerprint: parts})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		contentType, body := upload("milk 1.19")
		r := httptest.NewRequestWithContext(ctx, "POST", "/receipts", strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Idempotency-Key", `"a1"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %q\n", w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 200 stored 9 bytes, replayed: ""
	// 200 stored 9 bytes, replayed: "true"
}

func ExampleSQS() {
	ship := func(_ context.Context, m events.SQSMessage) (idem.None, error) {
		fmt.Println("shipped", m.Body)
		return idem.None{}, nil
	}
	id := func(_ context.Context, m events.SQSMessage) (idem.Request, error) {
		var o struct{ Shop, Order string }
		if err := json.Unmarshal([]byte(m.Body), &o); err != nil {
			return idem.Request{}, err
		}
		return idem.Request{Tenant: o.Shop, Key: o.Order}, nil // not m.MessageId: a redrive makes a new one
	}
	h := lambdawrap.SQS(newOp[idem.None]("ship"), id, ship, &lambdawrap.SQSOptions{
		Failed: func(_ context.Context, m events.SQSMessage, err error) { fmt.Println("failed", m.MessageId) },
	})

	twice(h, `{"Records":[{"messageId":"m1","body":"{\"shop\":\"acme\",\"order\":\"o1\"}","eventSource":"aws:sqs"},{"messageId":"m2","body":"{","eventSource":"aws:sqs"}]}`)
	// Output:
	// shipped {"shop":"acme","order":"o1"}
	// failed m2
	// {"batchItemFailures":[{"itemIdentifier":"m2"}]}
	// failed m2
	// {"batchItemFailures":[{"itemIdentifier":"m2"}]}
}

func ExampleSNSInSQSID() {
	notify := func(_ context.Context, m events.SQSMessage) (idem.None, error) { return idem.None{}, nil }
	id := func(ctx context.Context, m events.SQSMessage) (idem.Request, error) {
		r, err := lambdawrap.SNSInSQSID(ctx, m)
		r.Tenant = "shop"
		return r, err
	}
	h := lambdawrap.SQS(newOp[idem.None]("notify"), id, notify, nil)

	twice(h, `{"Records":[{"messageId":"m1","body":"{\"Type\":\"Notification\",\"TopicArn\":\"arn:t\",\"MessageId\":\"n1\",\"Message\":\"hello\"}","eventSource":"aws:sqs"}]}`)
	// Output:
	// {"batchItemFailures":[]}
	// {"batchItemFailures":[]}
}

// single makes an operation whose requests have no tenant.
func single[T any](name string) *idem.Operation[T] {
	op, err := idem.New[T](idemtest.NewMemory(nil), idem.InsecureCleartext(), name, &idem.Options{SingleTenant: true})
	if err != nil {
		panic(err)
	}
	return op
}

func ExampleSNSID() {
	h := lambdawrap.Wrap(single[string]("notify"), lambdawrap.SNSID, func(_ context.Context, e events.SNSEvent) (string, error) {
		fmt.Println("notified", e.Records[0].SNS.Message)
		return "ok", nil
	})
	twice(h, snsEvent)
	// Output:
	// notified text
	// "ok"
	// "ok"
}

func ExampleS3ID() {
	h := lambdawrap.Wrap(single[string]("resize"), lambdawrap.S3ID, func(_ context.Context, e events.S3Event) (string, error) {
		fmt.Println("resized", e.Records[0].S3.Object.URLDecodedKey)
		return "ok", nil
	})
	twice(h, s3Event)
	// Output:
	// resized a b
	// "ok"
	// "ok"
}

func ExampleEventBridgeID() {
	h := lambdawrap.Wrap(single[string]("paid"), lambdawrap.EventBridgeID, func(_ context.Context, e events.EventBridgeEvent) (string, error) {
		fmt.Println(e.DetailType)
		return "ok", nil
	})
	twice(h, bridgeEvent)
	// Output:
	// Paid
	// "ok"
	// "ok"
}

// A Step Functions task: the state machine passes $$.Execution.Id and the state's name, which a retry keeps.
func ExampleWrap_stepFunctions() {
	type task struct{ Execution, State string }
	id := func(_ context.Context, t task) (idem.Request, error) {
		if t.Execution == "" || t.State == "" {
			return idem.Request{}, fmt.Errorf("the task does not pass its execution and state")
		}
		return idem.Request{Key: t.Execution + " " + t.State}, nil
	}
	h := lambdawrap.Wrap(single[string]("pay"), id, func(context.Context, task) (string, error) {
		return "", idem.Final(&CardDeclined{}) // Catch matches "CardDeclined", on every delivery
	})
	twice(h, `{"execution":"arn:aws:states:eu-west-1:1:execution:order:1","state":"Pay"}`)
	// Output:
	// *lambdawrap_test.CardDeclined
	// messages.InvokeResponse_Error
}

func ExampleCustomResource() {
	cloudFormation := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var answer cfn.Response
		json.NewDecoder(r.Body).Decode(&answer)
		fmt.Println(answer.Status, answer.PhysicalResourceID)
	}))
	defer cloudFormation.Close()
	create := func(context.Context, cfn.Event) (string, map[string]any, error) {
		fmt.Println("created")
		return "zone-1", nil, nil
	}
	h := lambdawrap.CustomResource(single[lambdawrap.Resource]("zone"), create)

	twice(h, `{"RequestType":"Create","RequestId":"r1","StackId":"arn","LogicalResourceId":"Zone","ResponseURL":"`+cloudFormation.URL+`"}`)
	// Output:
	// created
	// SUCCESS zone-1
	// null
	// SUCCESS zone-1
	// null
}
