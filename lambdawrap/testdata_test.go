package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// adapter is one with everything it needs. Its function counts.
type adapter struct {
	name  string
	open  func(store idem.Store, runs *int) lambda.Handler
	batch bool // the function runs for every record
}

// newOperation is single-tenant where the ready-made id functions are used.
func newOperation[T any](store idem.Store, single bool) *idem.Operation[T] {
	op, err := idem.New[T](store, idem.InsecureCleartext(), "any", &idem.Options{SingleTenant: single})
	if err != nil {
		panic(err)
	}
	return op
}

func acme[Req any](context.Context, Req) (string, error) { return "acme", nil }

func wrapped[In any](name string, id func(context.Context, In) (idem.Request, error)) adapter {
	return adapter{name: name, open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.Wrap(newOperation[string](store, true), id, func(context.Context, In) (string, error) {
			*runs++
			return rand(), nil
		})
	}}
}

// batched is an adapter for batches of R.
func batched[R any](name string, wrap func(*idem.Operation[string], func(context.Context, R) (idem.Request, error), func(context.Context, R) (string, error), *lambdawrap.StreamOptions[R]) lambda.Handler, id func(context.Context, R) (idem.Request, error)) adapter {
	return adapter{name, func(store idem.Store, runs *int) lambda.Handler {
		return wrap(newOperation[string](store, true), id, func(context.Context, R) (string, error) {
			*runs++
			return rand(), nil
		}, nil)
	}, true}
}

func anyKey[In any](context.Context, In) (idem.Request, error) { return idem.Request{Key: "k"}, nil }

var adapters = []adapter{
	{name: "APIGatewayV2", open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.APIGatewayV2(newOperation[events.APIGatewayV2HTTPResponse](store, false), acme, func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
			*runs++
			return events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: rand()}, nil
		}, nil)
	}},
	{name: "APIGatewayV1", open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.APIGatewayV1(newOperation[events.APIGatewayProxyResponse](store, false), acme, func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			*runs++
			return events.APIGatewayProxyResponse{StatusCode: 200, Body: rand()}, nil
		}, nil)
	}},
	{name: "FunctionURL", open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.FunctionURL(newOperation[events.LambdaFunctionURLResponse](store, false), acme, func(context.Context, events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
			*runs++
			return events.LambdaFunctionURLResponse{StatusCode: 200, Body: rand()}, nil
		}, nil)
	}},
	{name: "ALB", open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.ALB(newOperation[events.ALBTargetGroupResponse](store, false), acme, func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
			*runs++
			return events.ALBTargetGroupResponse{StatusCode: 200, Body: rand()}, nil
		}, nil)
	}},
	{name: "SQS", batch: true, open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.SQS(newOperation[string](store, false), byBody, func(context.Context, events.SQSMessage) (string, error) {
			*runs++
			return rand(), nil
		}, nil)
	}},
	{name: "CustomResource", open: func(store idem.Store, runs *int) lambda.Handler {
		return lambdawrap.CustomResource(newOperation[lambdawrap.Resource](store, true), func(context.Context, cfn.Event) (string, map[string]any, error) {
			*runs++
			return "id", nil, nil
		})
	}},
	wrapped("SNS", lambdawrap.SNSID), wrapped("S3", lambdawrap.S3ID), wrapped("EventBridge", lambdawrap.EventBridgeID),
	wrapped("Kinesis", anyKey[events.KinesisEvent]), wrapped("DynamoDB", anyKey[events.DynamoDBEvent]), wrapped("Kafka", anyKey[events.KafkaEvent]),
	batched("Kinesis", lambdawrap.Kinesis[string], lambdawrap.KinesisID), batched("DynamoDB", lambdawrap.DynamoDBStream[string], lambdawrap.DynamoDBStreamID), batched("Kafka", lambdawrap.Kafka[string], lambdawrap.KafkaID),
	wrapped("destination", anyKey[lambdawrap.Destination]),
}

// rightAdapter tells by the file's name. Most events are for none of the adapters.
func rightAdapter(file string) string {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.HasPrefix(file, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("apigw-v2-request"):
		return "APIGatewayV2"
	case file == "apigw-request.json", file == "apigw-restapi-openapi-request.json":
		return "APIGatewayV1"
	case has("lambda-urls-request"):
		return "FunctionURL"
	case has("alb-lambda-target-request"):
		return "ALB"
	case has("sqs-event"):
		return "SQS"
	case has("sns-event", "cloudwatch-alarm-sns"):
		return "SNS"
	case has("s3-event", "s3-glacier", "s3-intelligenttier", "s3-lifecycle", "s3-replication", "s3-restore"):
		return "S3"
	case has("autoscaling", "codebuild", "codedeploy", "codepipeline-action", "codepipeline-execution", "ecr-image", "ecs-container"):
		return "EventBridge"
	case file == "kinesis-event.json":
		return "Kinesis"
	case file == "dynamodb-event.json":
		return "DynamoDB"
	case has("kafka"):
		return "Kafka"
	}
	return ""
}

// testdata is the events that aws-lambda-go ships.
func testdata(t *testing.T) map[string][]byte {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "events", "testdata", "*.json"))
	found := make(map[string][]byte)
	for _, f := range files {
		if found[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 80 {
		t.Fatalf("%d files", len(found))
	}
	return found
}

// withKey is the event as a POST with a key, if it is an HTTP request.
func withKey(t *testing.T, event []byte) []byte {
	var e map[string]any
	if err := json.Unmarshal(event, &e); err != nil {
		t.Fatal(err)
	}
	if e["requestContext"] == nil {
		return event
	}
	if h, ok := e["headers"].(map[string]any); ok {
		h["Idempotency-Key"] = "k"
	}
	if h, ok := e["multiValueHeaders"].(map[string]any); ok {
		h["Idempotency-Key"] = []string{"k"}
	}
	if e["httpMethod"] != nil {
		e["httpMethod"] = "POST"
	} else {
		e["requestContext"].(map[string]any)["http"].(map[string]any)["method"] = "POST"
	}
	out, _ := json.Marshal(e)
	return out
}

func TestEveryEventGoesThroughItsAdapterAndNoOther(t *testing.T) {
	used := make(map[string]int)
	for file, event := range testdata(t) {
		right := rightAdapter(file)
		for _, a := range adapters {
			store, runs := idemtest.NewMemory(t), 0
			h := a.open(store, &runs)
			out, err := h.Invoke(invoked(t), event)
			if a.name != right {
				if _, ok := err.(*idem.RequestError); !ok || runs != 0 || len(store.Records()) != 0 || store.Calls()["Generation"] != 0 {
					t.Errorf("%s through %s: %s, %v, %d runs", file, a.name, out, err, runs)
				}
				continue
			}
			used[right]++
			if err != nil {
				t.Errorf("%s through %s: %v", file, a.name, err)
				continue
			}
			event := withKey(t, event)
			store, runs = idemtest.NewMemory(t), 0
			h = a.open(store, &runs)
			first, err := h.Invoke(invoked(t), event)
			again, err2 := h.Invoke(invoked(t), event)
			want := 1
			if a.batch {
				want = strings.Count(string(event), `"messageId"`) + strings.Count(string(event), `"eventID"`) + strings.Count(string(event), `"offset"`)
			}
			if err := errors.Join(err, err2); err != nil || runs != want || len(store.Records()) != want {
				t.Errorf("%s through %s: %v, %d runs, %d records: %s", file, a.name, err, runs, len(store.Records()), first)
			}
			if f, g := string(first), string(again); strings.HasPrefix(f, `{"statusCode"`) {
				if !strings.Contains(g, "Idempotent-Replayed") || f[strings.Index(f, `"body"`):] != g[strings.Index(g, `"body"`):] {
					t.Errorf("%s through %s: %s, then %s", file, a.name, f, g)
				}
			} else if f != g {
				t.Errorf("%s through %s: %s, then %s", file, a.name, f, g)
			}
		}
	}
	want := map[string]int{"APIGatewayV2": 4, "APIGatewayV1": 2, "FunctionURL": 1, "ALB": 2, "SQS": 1, "SNS": 3, "S3": 7, "EventBridge": 16, "Kinesis": 2, "DynamoDB": 2, "Kafka": 2}
	for name, n := range want {
		if used[name] != n {
			t.Errorf("%d files went through %s, want %d", used[name], name, n)
		}
	}
}
