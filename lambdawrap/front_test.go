package lambdawrap_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/lambdawrap"
)

// sent is an HTTP request, in no integration's form.
type sent struct {
	method, path, query, tenant, body string
	base64                            bool
	header                            http.Header
}

// answered is a response, in no integration's form. Cookies are among the header.
type answered struct {
	status int
	header http.Header
	body   string
	raw    string
}

// front is one HTTP adapter.
type front struct {
	name string
	// open guards a handler and returns how to send it requests.
	open func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error)
}

// settings of a front, as far as all adapters have them.
type settings struct {
	operation   idem.Options
	header      string
	methods     []string
	record      func(int) lambdawrap.Disposition
	omit        []string
	problem     func(error, *lambdawrap.Problem)
	fingerprint any // what every request has
}

func options[Req any](o *settings) *lambdawrap.HTTPOptions[Req] {
	opts := &lambdawrap.HTTPOptions[Req]{Header: o.header, Methods: o.methods, Record: o.record, Omit: o.omit, Problem: o.problem}
	if o.fingerprint != nil {
		opts.Fingerprint = func(context.Context, Req) (any, error) { return o.fingerprint, nil }
	}
	return opts
}

// payment is a request that every front accepts.
func payment(key string, change ...func(*sent)) sent {
	s := sent{method: "POST", path: "/pay", tenant: "acme", body: `{"amount":5}`, header: http.Header{"Content-Type": {"application/json"}}}
	if key != "" {
		s.header["Idempotency-Key"] = []string{key}
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

func lower(h http.Header) map[string]string {
	m := make(map[string]string)
	for k, v := range h {
		m[strings.ToLower(k)] = strings.Join(v, ",")
	}
	return m
}

func last(h http.Header) map[string]string {
	m := make(map[string]string)
	for k, v := range h {
		m[k] = v[len(v)-1]
	}
	return m
}

func upper(h map[string]string) http.Header {
	m := make(http.Header)
	for k, v := range h {
		m.Add(k, v)
	}
	return m
}

// decoded is an answer of Lambda's, read strictly: an integration that gets more than it knows may refuse it.
func decoded(t testing.TB, raw []byte, allowed ...string) answered {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for name, v := range members {
		if !slices.Contains(allowed, name) || string(v) == "null" {
			t.Errorf("answer has %s: %s", name, v)
		}
	}
	var e struct {
		StatusCode        int
		Headers           map[string]string
		MultiValueHeaders map[string][]string
		Cookies           []string
		Body              string
		IsBase64Encoded   bool
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	a := answered{status: e.StatusCode, header: upper(e.Headers), body: e.Body, raw: string(raw)}
	for k, v := range e.MultiValueHeaders {
		a.header[http.CanonicalHeaderKey(k)] = v
	}
	if e.Cookies != nil {
		a.header["Set-Cookie"] = append(a.header["Set-Cookie"], e.Cookies...)
	}
	if e.IsBase64Encoded {
		b, err := base64.StdEncoding.DecodeString(e.Body)
		if err != nil {
			t.Fatal(err)
		}
		a.body = string(b)
	}
	return a
}

func split(h http.Header) (single map[string]string, cookies []string) {
	single = make(map[string]string)
	for k, v := range h {
		if k == "Set-Cookie" {
			cookies = v
		} else {
			single[k] = strings.Join(v, ", ")
		}
	}
	return single, cookies
}

func invoke(t testing.TB, h lambda.Handler, ctx context.Context, event any, allowed ...string) (answered, error) {
	t.Helper()
	b, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Invoke(ctx, b)
	if err != nil {
		return answered{}, err
	}
	return decoded(t, out, allowed...), nil
}

func opened[Resp any](t testing.TB, store idem.Store, o *settings) *idem.Operation[Resp] {
	t.Helper()
	op, err := idem.New[Resp](store, idem.InsecureCleartext(), "pay", &o.operation)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// v2Event is what API Gateway sends of a request.
func v2Event(s sent) events.APIGatewayV2HTTPRequest {
	e := events.APIGatewayV2HTTPRequest{Version: "2.0", RouteKey: s.method + " " + s.path, RawPath: s.path, RawQueryString: s.query, Headers: lower(s.header), Body: s.body, IsBase64Encoded: s.base64}
	e.RequestContext.HTTP.Method = s.method
	e.RequestContext.DomainName = "id.execute-api.us-east-1.amazonaws.com"
	e.RequestContext.AccountID = s.tenant
	e.RequestContext.RequestID = rand()
	return e
}

func urlEvent(s sent) events.LambdaFunctionURLRequest {
	e := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: s.path, RawQueryString: s.query, Headers: lower(s.header), Body: s.body, IsBase64Encoded: s.base64}
	e.RequestContext.HTTP.Method = s.method
	e.RequestContext.DomainName = "id.lambda-url.us-east-1.on.aws"
	e.RequestContext.AccountID = s.tenant
	e.RequestContext.RequestID = rand()
	return e
}

func v1Event(s sent) events.APIGatewayProxyRequest {
	q, _ := url.ParseQuery(s.query)
	e := events.APIGatewayProxyRequest{Resource: "/{proxy+}", Path: s.path, HTTPMethod: s.method, Headers: last(s.header), MultiValueHeaders: s.header, MultiValueQueryStringParameters: q, QueryStringParameters: last(http.Header(q)), Body: s.body, IsBase64Encoded: s.base64}
	e.RequestContext.AccountID = s.tenant
	e.RequestContext.RequestID = rand()
	return e
}

func albEvent(s sent, multi bool) events.ALBTargetGroupRequest {
	q, _ := url.ParseQuery(s.query)
	e := events.ALBTargetGroupRequest{HTTPMethod: s.method, Path: s.path, Body: s.body, IsBase64Encoded: s.base64}
	e.RequestContext.ELB.TargetGroupArn = s.tenant
	low := make(map[string][]string)
	for k, v := range s.header {
		low[strings.ToLower(k)] = v
	}
	low["x-amzn-trace-id"] = []string{rand()}
	if multi {
		e.MultiValueHeaders, e.MultiValueQueryStringParameters = low, q
	} else {
		e.Headers, e.QueryStringParameters = last(low), last(http.Header(q))
	}
	return e
}

func fromALB(e events.ALBTargetGroupRequest) sent {
	return sent{method: e.HTTPMethod, path: e.Path, tenant: e.RequestContext.ELB.TargetGroupArn, body: e.Body, base64: e.IsBase64Encoded}
}

var fronts = []front{
	{"APIGatewayV2", func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error) {
		guarded := lambdawrap.APIGatewayV2(opened[events.APIGatewayV2HTTPResponse](t, store, o),
			func(_ context.Context, e events.APIGatewayV2HTTPRequest) (string, error) {
				return e.RequestContext.AccountID, nil
			},
			func(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
				a, err := h(ctx, sent{method: e.RequestContext.HTTP.Method, path: e.RawPath, tenant: e.RequestContext.AccountID, body: e.Body, base64: e.IsBase64Encoded})
				single, cookies := split(a.header)
				return events.APIGatewayV2HTTPResponse{StatusCode: a.status, Headers: single, Cookies: cookies, Body: a.body}, err
			}, options[events.APIGatewayV2HTTPRequest](o))
		return func(ctx context.Context, s sent) (answered, error) {
			return invoke(t, guarded, ctx, v2Event(s), "statusCode", "headers", "cookies", "body", "isBase64Encoded")
		}
	}},
	{"FunctionURL", func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error) {
		guarded := lambdawrap.FunctionURL(opened[events.LambdaFunctionURLResponse](t, store, o),
			func(_ context.Context, e events.LambdaFunctionURLRequest) (string, error) {
				return e.RequestContext.AccountID, nil
			},
			func(ctx context.Context, e events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
				a, err := h(ctx, sent{method: e.RequestContext.HTTP.Method, path: e.RawPath, tenant: e.RequestContext.AccountID, body: e.Body, base64: e.IsBase64Encoded})
				single, cookies := split(a.header)
				return events.LambdaFunctionURLResponse{StatusCode: a.status, Headers: single, Cookies: cookies, Body: a.body}, err
			}, options[events.LambdaFunctionURLRequest](o))
		return func(ctx context.Context, s sent) (answered, error) {
			return invoke(t, guarded, ctx, urlEvent(s), "statusCode", "headers", "cookies", "body", "isBase64Encoded")
		}
	}},
	{"APIGatewayV1", func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error) {
		guarded := lambdawrap.APIGatewayV1(opened[events.APIGatewayProxyResponse](t, store, o),
			func(_ context.Context, e events.APIGatewayProxyRequest) (string, error) {
				return e.RequestContext.AccountID, nil
			},
			func(ctx context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				a, err := h(ctx, sent{method: e.HTTPMethod, path: e.Path, tenant: e.RequestContext.AccountID, body: e.Body, base64: e.IsBase64Encoded})
				return events.APIGatewayProxyResponse{StatusCode: a.status, MultiValueHeaders: a.header, Body: a.body}, err
			}, options[events.APIGatewayProxyRequest](o))
		return func(ctx context.Context, s sent) (answered, error) {
			return invoke(t, guarded, ctx, v1Event(s), "statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded")
		}
	}},
	albFront("ALB", false), albFront("ALB with multi-value headers", true),
	{"http.Handler", func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error) {
		guarded := lambdawrap.HTTP(opened[lambdawrap.Response](t, store, o),
			func(_ context.Context, r *http.Request) (string, error) { return r.Header.Get("Tenant"), nil },
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var b bytes.Buffer
				b.ReadFrom(r.Body)
				a, err := h(r.Context(), sent{method: r.Method, path: r.URL.Path, tenant: r.Header.Get("Tenant"), body: b.String()})
				if err != nil {
					panic(err) // all that a handler of net/http can say
				}
				maps.Copy(w.Header(), a.header)
				w.WriteHeader(a.status)
				w.Write([]byte(a.body))
			}), options[*http.Request](o))
		return func(ctx context.Context, s sent) (a answered, err error) {
			defer func() {
				if v := recover(); v != nil {
					err = v.(error)
				}
			}()
			target := s.path
			if s.query != "" {
				target += "?" + s.query
			}
			r := httptest.NewRequestWithContext(ctx, s.method, target, strings.NewReader(s.body))
			r.Header = s.header.Clone()
			r.Header.Set("Tenant", s.tenant)
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			return answered{status: w.Code, header: w.Header(), body: w.Body.String()}, nil
		}
	}},
}

func albFront(name string, multi bool) front {
	return front{name, func(t testing.TB, store idem.Store, o *settings, h func(context.Context, sent) (answered, error)) func(context.Context, sent) (answered, error) {
		guarded := lambdawrap.ALB(opened[events.ALBTargetGroupResponse](t, store, o),
			func(_ context.Context, e events.ALBTargetGroupRequest) (string, error) {
				return e.RequestContext.ELB.TargetGroupArn, nil
			},
			func(ctx context.Context, e events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
				a, err := h(ctx, fromALB(e))
				return events.ALBTargetGroupResponse{StatusCode: a.status, MultiValueHeaders: a.header, Body: a.body}, err
			}, options[events.ALBTargetGroupRequest](o))
		allowed := []string{"statusCode", "statusDescription", "headers", "body", "isBase64Encoded"}
		if multi {
			allowed[2] = "multiValueHeaders"
		}
		return func(ctx context.Context, s sent) (answered, error) {
			return invoke(t, guarded, ctx, albEvent(s, multi), allowed...)
		}
	}}
}
