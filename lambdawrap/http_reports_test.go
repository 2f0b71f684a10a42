package lambdawrap_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// A console test of API Gateway sends null headers, and a load balancer in multi-value mode sends no "headers" at all.
// powertools-lambda-typescript#2527, CodeGenieApp/serverless-express#417, aws/serverless-java-container PR#910.
func TestHeadersMayBeNullOrMultiValuedOnly(t *testing.T) {
	tenant := func(context.Context, events.APIGatewayProxyRequest) (string, error) { return "acme", nil }
	runs := 0
	v1 := lambdawrap.APIGatewayV1(operation[events.APIGatewayProxyResponse](t, idemtest.NewMemory(t), nil), tenant,
		func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			runs++
			return events.APIGatewayProxyResponse{StatusCode: 200}, nil
		}, nil)
	out, err := v1.Invoke(invoked(t), []byte(`{"resource":"/pay","path":"/pay","httpMethod":"POST","headers":null,"multiValueHeaders":null,"queryStringParameters":null,"multiValueQueryStringParameters":null,"requestContext":{"accountId":"1"},"body":null,"isBase64Encoded":false}`))
	if err != nil || !strings.Contains(string(out), "key-missing") || runs != 0 {
		t.Errorf("%s, %v", out, err)
	}

	alb := lambdawrap.ALB(operation[events.ALBTargetGroupResponse](t, idemtest.NewMemory(t), nil),
		func(context.Context, events.ALBTargetGroupRequest) (string, error) { return "acme", nil },
		func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
			runs++
			return events.ALBTargetGroupResponse{StatusCode: 200, Headers: map[string]string{"A": "b"}}, nil
		}, nil)
	request := func(headers string) string {
		return `{"requestContext":{"elb":{"targetGroupArn":"arn"}},"httpMethod":"POST","path":"/",` + headers + `,"body":"","isBase64Encoded":false}`
	}
	for _, c := range []struct{ headers, want string }{
		{`"multiValueHeaders":{"idempotency-key":["k"]}`, `{"statusCode":200,"multiValueHeaders":{"A":["b"]},"body":"","isBase64Encoded":false}`},
		{`"headers":{"idempotency-key":"k"}`, `{"statusCode":200,"headers":{"A":"b","Idempotent-Replayed":"true"},"body":"","isBase64Encoded":false}`},
	} {
		out, err := alb.Invoke(invoked(t), []byte(request(c.headers)))
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %s, %v", c.headers, out, err)
		}
	}
	out, err = alb.Invoke(invoked(t), []byte(request(`"multiValueHeaders":{"idempotency-key":["k1","k2"]}`)))
	if err != nil || !strings.Contains(string(out), `"statusCode":400`) || !strings.Contains(string(out), `"multiValueHeaders":{`) {
		t.Errorf("two keys: %s, %v", out, err)
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// Two headers of one name arrive as one value with a comma, or as several values.
func TestTwoKeysAreNone(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		if f.name == "ALB" {
			t.Skip("without multi-value headers the load balancer hands on the last one only")
		}
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		for _, keys := range [][]string{{"k", "l"}, {"k", "k"}, {`"k"`, `"l"`}, {"", "k"}} {
			mustProblem(t, send, payment("", func(s *sent) { s.header["Idempotency-Key"] = keys }), 400, "key-invalid")
		}
		if runs != 0 || len(store.Records()) != 0 {
			t.Error("something was written or run")
		}
	})
}

// Form posts arrive base64-encoded on function URLs and HTTP APIs, and as text on REST APIs. LeanerCloud/CUDly PR#1483,
// ministackorg/ministack PR#766.
func TestBase64BodyIsTheSameRequest(t *testing.T) {
	for _, f := range fronts[:5] {
		t.Run(f.name, func(t *testing.T) {
			store := idemtest.NewMemory(t)
			var got sent
			send := f.open(t, store, &settings{}, func(_ context.Context, s sent) (answered, error) {
				got = s
				return answered{status: 200}, nil
			})
			form := func(body string, base64 bool) sent {
				return payment("k", func(s *sent) {
					s.body, s.base64 = body, base64
					s.header.Set("Content-Type", "application/x-www-form-urlencoded")
				})
			}
			mustProblem(t, send, form("not base64!", true), 400, "body-invalid")
			if len(store.Records()) != 0 {
				t.Error("a record was made")
			}
			must(t, send, form("YW1vdW50PTU=", true), 200)
			if got.body != "YW1vdW50PTU=" || !got.base64 {
				t.Errorf("the handler got %+v, not the event as it was", got)
			}
			if a := must(t, send, form("amount=5", false), 200); a.header.Get("Idempotent-Replayed") != "true" {
				t.Error("the text ran again")
			}
			must(t, send, payment("j", func(s *sent) { s.body, s.base64 = base64.StdEncoding.EncodeToString([]byte(` {"amount":5}`)), true }), 200)
			must(t, send, payment("j"), 200)
		})
	}
}

// upload is a multipart form as a client sends it that makes a boundary of its own each time.
func upload(file string) (contentType, body string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("receipt", "receipt.txt")
	io.WriteString(part, file)
	w.Close()
	return w.FormDataContentType(), b.String()
}

// parts is a fingerprint of a multipart form without its boundary.
func parts(_ context.Context, r *http.Request) (any, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	form, err := multipart.NewReader(r.Body, params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		return nil, err
	}
	sent := map[string]any{"path": r.URL.Path, "values": form.Value}
	for name, files := range form.File {
		for _, f := range files {
			file, err := f.Open()
			if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(file)
			if err != nil {
				return nil, err
			}
			sent["file "+name] = content
		}
	}
	return sent, nil
}

// A re-sent upload has another boundary. By default it is another request, and refused; with a fingerprint of its parts it is
// the same. chatvector-ai/chatvector-ai#520, asimons81/wp-chatgpt-publisher PR#14.
func TestUploadWithAnotherBoundary(t *testing.T) {
	for name, opts := range map[string]*lambdawrap.HTTPOptions[*http.Request]{
		"fingerprint-mismatch": nil,
		"":                     {Fingerprint: parts},
	} {
		runs := 0
		h := lambdawrap.HTTP(operation[lambdawrap.Response](t, idemtest.NewMemory(t), nil),
			func(context.Context, *http.Request) (string, error) { return "acme", nil },
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				file, _, err := r.FormFile("receipt")
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(w, file)
			}), opts)
		post := func(file string) *httptest.ResponseRecorder {
			contentType, body := upload(file)
			r := httptest.NewRequestWithContext(invoked(t), "POST", "/receipts", strings.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("Idempotency-Key", "k")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		if w := post("milk"); w.Code != 200 || w.Body.String() != "milk" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		w := post("milk")
		if name != "" && (w.Code != 422 || !strings.Contains(w.Body.String(), name)) || name == "" && w.Body.String() != "milk" {
			t.Errorf("again: %d %s", w.Code, w.Body)
		}
		if w := post("bread"); w.Code != 422 {
			t.Errorf("another file: %d %s", w.Code, w.Body)
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	}
}

// A browser's preflight has no key and must not be refused. NousResearch/hermes-agent PR#3530, cloudflare/wildebeest PR#123.
func TestPreflightAndOtherMethodsPass(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		for _, s := range []sent{
			payment("", func(s *sent) {
				s.method, s.body = "OPTIONS", ""
				s.header.Set("Access-Control-Request-Headers", "idempotency-key")
			}),
			payment("", func(s *sent) { s.method, s.body = "GET", "" }),
			payment("", func(s *sent) { s.method, s.body = "HEAD", "" }),
			payment("k", func(s *sent) { s.method, s.body = "GET", "" }),
			payment("k", func(s *sent) { s.method, s.body = "GET", "" }),
		} {
			if a := must(t, send, s, 201); a.header.Get("Idempotent-Replayed") != "" {
				t.Error("replayed")
			}
		}
		if runs != 5 || len(store.Records()) != 0 {
			t.Errorf("%d runs, %d records", runs, len(store.Records()))
		}
		for _, method := range []string{"POST", "PATCH", "PUT", "DELETE", "post"} {
			mustProblem(t, send, payment("", func(s *sent) { s.method = method }), 400, "key-missing")
		}
	})
}

func TestGuardedMethodsAreExplicit(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{methods: []string{"get", "OPTIONS"}}, paid(&runs))
		must(t, send, payment(""), 201)
		must(t, send, payment("", func(s *sent) { s.method = "OPTIONS" }), 201)
		mustProblem(t, send, payment("", func(s *sent) { s.method = "GET" }), 400, "key-missing")
	})
}

// zipped is a response with everything that replays have got wrong: headers split at commas, a lost Location, cookies, a wrong
// Content-Length, an encoding parted from its body.
func zipped(context.Context, sent) (answered, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, strings.Repeat("paid ", 100))
	w.Close()
	return answered{status: 201, body: b.String(), header: http.Header{
		"Location":            {"/p/1"},
		"Set-Cookie":          {"a=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT", "b=2"},
		"Content-Disposition": {`attachment; filename="a,b.txt"`},
		"Content-Encoding":    {"gzip"},
		"Content-Length":      {"7"},
		"Date":                {"Mon, 21 Oct 2030 07:28:00 GMT"},
		"Www-Authenticate":    {"Bearer"},
		"Link":                {"</a>; rel=next", "</b>; rel=prev"},
		"Idempotent-Replayed": {"false"},
	}}, nil
}

// gofiber/fiber PR#4693, granit-fx/granit-dotnet PR#1151, VSN2015/concerns_on_rails PR#47, paveg/hono-idempotency PR#117,
// aws-lambda-go#556.
func TestReplayHasTheSameHeadersAndBody(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		handler := zipped
		if f.name != "http.Handler" { // an event's body is text
			handler = func(ctx context.Context, s sent) (answered, error) {
				a, err := zipped(ctx, s)
				a.body = base64.StdEncoding.EncodeToString([]byte(a.body))
				return a, err
			}
		}
		for _, omit := range [][]string{nil, {}, {"set-cookie"}} {
			send := f.open(t, idemtest.NewMemory(t), &settings{omit: omit}, handler)
			first := must(t, send, payment("k"), 201)
			again := must(t, send, payment("k", func(s *sent) { s.header.Set("Accept-Encoding", "identity") }), 201)
			if first.body != again.body {
				t.Error("another body")
			}
			want := first.header.Clone()
			want["Idempotent-Replayed"] = []string{"true"}
			if omit == nil {
				delete(want, "Date")
				delete(want, "Www-Authenticate")
			}
			if omit == nil || len(omit) > 0 {
				delete(want, "Set-Cookie")
			}
			if !reflect.DeepEqual(again.header, want) {
				t.Errorf("omit %q:\n got %q\nwant %q", omit, again.header, want)
			}
			if first.header["Content-Length"] != nil {
				t.Error("a wrong Content-Length is kept")
			}
			cookies := 2
			if f.name == "ALB" { // has room for one
				cookies = 1
			}
			if len(first.header["Set-Cookie"]) != cookies || first.header.Get("Location") != "/p/1" || first.header.Get("Content-Disposition") != `attachment; filename="a,b.txt"` {
				t.Errorf("first: %q", first.header)
			}
		}
	})
}

func TestAnswersMayNotShareTheHandlersMaps(t *testing.T) {
	shared := map[string]string{"A": "1", "Content-Length": "9"}
	multi := map[string][]string{"B": {"2"}}
	h := lambdawrap.APIGatewayV1(operation[events.APIGatewayProxyResponse](t, idemtest.NewMemory(t), nil),
		func(context.Context, events.APIGatewayProxyRequest) (string, error) { return "acme", nil },
		func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			return events.APIGatewayProxyResponse{StatusCode: 500, Headers: shared, MultiValueHeaders: multi}, nil
		}, nil)
	b, _ := json.Marshal(v1Event(payment("k")))
	if _, err := h.Invoke(invoked(t), b); err != nil {
		t.Fatal(err)
	}
	if len(shared) != 2 || len(multi) != 1 {
		t.Errorf("the handler's maps are %v and %v now", shared, multi)
	}
}

func TestHTTPAdaptersRefuseNil(t *testing.T) {
	for name, wrap := range map[string]func(){
		"APIGatewayV2":   func() { lambdawrap.APIGatewayV2(nil, nil, nil, nil) },
		"APIGatewayV1":   func() { lambdawrap.APIGatewayV1(nil, nil, nil, nil) },
		"FunctionURL":    func() { lambdawrap.FunctionURL(nil, nil, nil, nil) },
		"ALB":            func() { lambdawrap.ALB(nil, nil, nil, nil) },
		"HTTP":           func() { lambdawrap.HTTP(nil, nil, nil, nil) },
		"SQS":            func() { lambdawrap.SQS[idem.None](nil, nil, nil, nil) },
		"CustomResource": func() { lambdawrap.CustomResource(nil, nil) },
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, name) {
					t.Errorf("%s: %q", name, v)
				}
			}()
			wrap()
		}()
	}
}
