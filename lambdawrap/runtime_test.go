package lambdawrap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// atOnce is how many invocations the runtime gives to one process.
const atOnce = 16

// invocation is one event on its way through the runtime, and its answer.
type invocation struct {
	id, event, tenant string
	answer            chan posted
}

type posted struct {
	failed bool
	body   string
}

// runtimeAPI is a stub of Lambda's runtime API.
type runtimeAPI struct {
	*httptest.Server
	queue   chan *invocation
	mu      sync.Mutex
	running map[string]*invocation
	log     bytes.Buffer // of the process
}

// startFunction starts this test binary once more, as the function with that name.
func startFunction(t *testing.T, function string) *runtimeAPI {
	t.Helper()
	r := &runtimeAPI{queue: make(chan *invocation), running: make(map[string]*invocation)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	process := exec.Command(os.Args[0], "-test.run=^TestFunctionProcess$")
	process.Env = append(os.Environ(), "IDEM_FUNCTION="+function, "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(r.URL, "http://"), fmt.Sprint("AWS_LAMBDA_MAX_CONCURRENCY=", atOnce))
	process.Stdout, process.Stderr = &r.log, &r.log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		if strings.Contains(r.log.String(), "DATA RACE") {
			t.Error(r.log.String())
		}
	})
	return r
}

func (r *runtimeAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rest, _ := strings.CutPrefix(req.URL.Path, "/2018-06-01/runtime/invocation/")
	if rest == "next" {
		select {
		case <-req.Context().Done():
		case i := <-r.queue:
			r.mu.Lock()
			r.running[i.id] = i
			r.mu.Unlock()
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", i.id)
			w.Header().Set("Lambda-Runtime-Aws-Tenant-Id", i.tenant)
			w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()))
			io.WriteString(w, i.event)
		}
		return
	}
	id, what, _ := strings.Cut(rest, "/")
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	i := r.running[id]
	delete(r.running, id)
	r.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
	if i != nil {
		i.answer <- posted{what == "error", string(body)}
	}
}

// invoke sends an event through the function.
func (r *runtimeAPI) invoke(t *testing.T, tenant, event string) posted {
	i := &invocation{id: rand(), event: event, tenant: tenant, answer: make(chan posted, 1)}
	timeout := time.After(30 * time.Second)
	select {
	case r.queue <- i:
	case <-timeout:
		t.Error("the function takes no event")
		return posted{}
	}
	select {
	case a := <-i.answer:
		return a
	case <-timeout:
		t.Error("the function does not answer")
		return posted{}
	}
}

// functions are what TestFunctionProcess can be.
var functions = map[string]func() lambda.Handler{
	"direct": func() lambda.Handler {
		full := fullHouse()
		return lambdawrap.Wrap(newOperation[json.RawMessage](idemtest.NewMemory(nil), false), func(ctx context.Context, in json.RawMessage) (idem.Request, error) {
			tenant, err := lambdawrap.TenantID(ctx, in)
			return idem.Request{Tenant: tenant, Key: string(in[:40])}, err
		}, func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
			full()
			return in, nil
		})
	},
	"http": func() lambda.Handler {
		full := fullHouse()
		return lambdawrap.APIGatewayV2(newOperation[events.APIGatewayV2HTTPResponse](idemtest.NewMemory(nil), false), lambdawrap.TenantID,
			func(_ context.Context, r events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
				full()
				return events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: r.Body, Headers: map[string]string{"Path": r.RawPath}}, nil
			}, nil)
	},
	"sqs": func() lambda.Handler {
		full := fullHouse()
		return lambdawrap.SQS(newOperation[string](idemtest.NewMemory(nil), false), byBody, func(_ context.Context, m events.SQSMessage) (string, error) {
			full()
			if strings.HasPrefix(m.Body, "bad") {
				return "", idem.NotApplied(errors.New("bad"))
			}
			return m.Body, nil
		}, &lambdawrap.SQSOptions{Concurrency: 2})
	},
	"errors": func() lambda.Handler {
		end := make(chan bool)
		return lambdawrap.Wrap(newOperation[idem.None](idemtest.NewMemory(nil), false), identify, func(ctx context.Context, o order) (idem.None, error) {
			switch o.ID {
			case "final":
				return idem.None{}, idem.Final(&CardDeclined{})
			case "named":
				return idem.None{}, idem.Final(messages.InvokeResponse_Error{Type: "Named", Message: "by the handler"})
			case "released":
				return idem.None{}, idem.NotApplied(&CardDeclined{})
			case "slow":
				<-end
			case "end":
				close(end)
			}
			return idem.None{}, &CardDeclined{}
		})
	},
}

// fullHouse returns a function whose first calls return when as many are running as the runtime allows.
func fullHouse() func() {
	var house sync.WaitGroup
	var mu sync.Mutex
	house.Add(atOnce)
	n := 0
	return func() {
		mu.Lock()
		n++
		first := n <= atOnce
		mu.Unlock()
		if first {
			house.Done()
			house.Wait()
		}
	}
}

// TestFunctionProcess is no test: it is the function where startFunction has started it.
func TestFunctionProcess(t *testing.T) {
	f := functions[os.Getenv("IDEM_FUNCTION")]
	if f == nil {
		t.Skip("no function is asked for")
	}
	lambda.Start(f())
}

// Several invocations share a process under AWS_LAMBDA_MAX_CONCURRENCY. An answer must not hold another one's bytes, as those of
// lambda.NewHandler's pooled buffers did.
func TestConcurrentInvocationsDoNotMix(t *testing.T) {
	events := map[string]func(k int, key string) (event, want string){
		"direct": func(k int, key string) (string, string) {
			e := fmt.Sprintf(`{"key":%q,"fill":%q}`, key+strings.Repeat("-", 40-len(key)), strings.Repeat(key, 50+k%7*100))
			return e, e
		},
		"http": func(k int, key string) (string, string) {
			body := strings.Repeat(key, 50+k%7*100)
			b, _ := json.Marshal(v2Event(payment(key, func(s *sent) { s.path, s.body = "/"+key, body; s.header.Set("Content-Type", "text/plain") })))
			return string(b), `"Path":"/` + key + `"},"body":"` + body + `","isBase64Encoded":false}`
		},
		"sqs": func(k int, key string) (string, string) {
			b, _ := json.Marshal(map[string]any{"Records": standard(key, key+"x", "bad"+key, "bad"+key+"x")})
			return string(b), fmt.Sprintf(`{"batchItemFailures":[{"itemIdentifier":"m-bad%s"},{"itemIdentifier":"m-bad%sx"}]}`, key, key)
		},
	}
	for function, event := range events {
		t.Run(function, func(t *testing.T) {
			api := startFunction(t, function)
			var wg sync.WaitGroup
			for worker := range atOnce {
				wg.Go(func() {
					for k := range 12 {
						key := fmt.Sprintf("k%d.%d.", worker, k/2) // each twice
						e, want := event(k/2, key)
						a := api.invoke(t, fmt.Sprint("tenant ", worker), e)
						if a.failed || !strings.HasSuffix(strings.Replace(a.body, `"Idempotent-Replayed":"true",`, "", 1), want) {
							t.Errorf("%s: got %.300s, want %.300s", key, a.body, want)
						}
						if function == "direct" && len(a.body) != len(want) {
							t.Errorf("%s: %d bytes", key, len(a.body))
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// What Step Functions' Retry and Catch match, as the runtime reports it.
func TestErrorTypesAsTheRuntimeReportsThem(t *testing.T) {
	api := startFunction(t, "errors")
	for _, c := range []struct{ event, first, again string }{
		{`{"Merchant":"a","ID":"final"}`, "CardDeclined", "CardDeclined"},
		{`{"Merchant":"a","ID":"named"}`, "Named", "Named"},
		{`{"Merchant":"a","ID":"released"}`, "CardDeclined", "CardDeclined"},
		{`{"Merchant":"a","ID":"unknown"}`, "CardDeclined", "IndeterminateError"},
		{`{"Merchant":"a","ID":"final","more":1}`, "MismatchError", "MismatchError"},
		{`{"Merchant":"a"}`, "errorString", "errorString"},
		{`{"Merchant":"","ID":"x"}`, "RequestError", "RequestError"},
		{`[]`, "RequestError", "RequestError"},
	} {
		for delivery, want := range []string{c.first, c.again} {
			a := api.invoke(t, "", c.event)
			var e struct{ ErrorType, ErrorMessage string }
			if json.Unmarshal([]byte(a.body), &e); !a.failed || e.ErrorType != want {
				t.Errorf("%s, delivery %d: %s, want %s", c.event, delivery, a.body, want)
			}
			if want == "CardDeclined" && e.ErrorMessage != "card declined" {
				t.Errorf("message %q", e.ErrorMessage)
			}
		}
	}
	both := make(chan posted, 2)
	for range 2 {
		go func() { both <- api.invoke(t, "", `{"Merchant":"a","ID":"slow"}`) }()
	}
	if a := <-both; !strings.Contains(a.body, `"errorType":"InProgressError"`) {
		t.Errorf("duplicate: %s", a.body)
	}
	api.invoke(t, "", `{"Merchant":"a","ID":"end"}`)
	if a := <-both; !strings.Contains(a.body, `"errorType":"CardDeclined"`) {
		t.Errorf("owner: %s", a.body)
	}
}
