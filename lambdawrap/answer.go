package lambdawrap

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// integration is what the adapters for Lambda differ in.
type integration[Req, Resp any] struct {
	source source
	facts  func(r Req, header string) facts
	form   func(Req) form
	parts  func(Resp) parts
}

// form is what of a response's headers an integration reads.
type form uint8

const (
	singleAndCookies form = iota + 1 // headers and cookies: payload format 2.0
	singleAndMulti                   // headers and multiValueHeaders: REST API
	singleOnly                       // headers: ALB
	multiOnly                        // multiValueHeaders: ALB with multi-value headers
)

// parts are a response's parts. What aws-lambda-go's types have is more than an integration may read.
type parts struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription string              `json:"statusDescription,omitempty"`
	Headers           map[string]string   `json:"headers,omitzero"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders,omitzero"`
	Cookies           []string            `json:"cookies,omitzero"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

// replayedHeader marks an answer that the handler did not run for.
const replayedHeader = "Idempotent-Replayed"

// framing headers are made anew by whoever sends the body on: a stored Content-Length may be wrong by then.
var framing = []string{"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Trailer", "Upgrade"}

// wrapHTTP makes an adapter.
func wrapHTTP[Req, Resp any](name string, op *idem.Operation[Resp], tenant func(context.Context, Req) (string, error), h func(context.Context, Req) (Resp, error), opts *HTTPOptions[Req], in integration[Req, Resp]) lambda.Handler {
	if op == nil || tenant == nil || h == nil {
		panic("lambdawrap: " + name + " needs an operation, a tenant function and a handler")
	}
	g := &guard[Req, Resp]{op: op, tenant: tenant, status: func(r Resp) int { return in.parts(r).StatusCode }}
	g.setDefaults(opts)
	return handler(func(ctx context.Context, event []byte) ([]byte, error) {
		var req Req
		if problem := unfit(sourceOf(event), in.source); problem != "" {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: problem}
		}
		if json.Unmarshal(event, &req) != nil { // the cause may quote it
			return nil, &idem.RequestError{Operation: op.Name(), Problem: fmt.Sprintf("the event does not decode as %T", req)}
		}
		f := in.facts(req, g.Header)
		if !g.guards(f.method) {
			resp, err := h(ctx, req)
			if err != nil {
				return nil, outward(err)
			}
			return encode(in.parts(resp).as(in.form(req))), nil
		}
		out := g.serve(ctx, req, f, h)
		switch {
		case out.err != nil:
			return nil, outward(out.err)
		case out.problem != nil:
			p := out.problem
			return encode(parts{StatusCode: p.Status, Headers: p.header(), Body: string(p.body())}.as(in.form(req))), nil
		}
		answer := in.parts(out.response).without(framing)
		if out.replayed {
			answer = answer.without(g.Omit).replayed()
		}
		return encode(answer.as(in.form(req))), nil
	})
}

// without leaves headers out. What it returns may be changed: the handler may still hold its own maps.
func (p parts) without(names []string) parts {
	named := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	p.Headers, p.MultiValueHeaders = maps.Clone(p.Headers), maps.Clone(p.MultiValueHeaders)
	maps.DeleteFunc(p.Headers, func(name, _ string) bool { return named(name) })
	maps.DeleteFunc(p.MultiValueHeaders, func(name string, _ []string) bool { return named(name) })
	if named("Set-Cookie") {
		p.Cookies = nil
	}
	return p
}

// replayed marks an answer.
func (p parts) replayed() parts {
	p = p.without([]string{replayedHeader})
	if p.Headers == nil {
		p.Headers = make(map[string]string)
	}
	p.Headers[replayedHeader] = "true"
	return p
}

// as brings a response into the form that an integration reads. Where a form has one value per name, several are joined by a comma, as
// HTTP has it; cookies, which cannot be joined, go where there is room for them, else the first goes.
func (p parts) as(f form) parts {
	switch f {
	case singleAndMulti:
		p.Cookies = nil // its type has none
		return p
	case multiOnly:
		multi := make(map[string][]string, len(p.Headers)+len(p.MultiValueHeaders))
		for name, v := range p.Headers {
			multi[name] = []string{v}
		}
		for name, v := range p.MultiValueHeaders {
			if given, ok := p.single(name); ok {
				delete(multi, given)
			}
			multi[name] = v
		}
		p.Headers, p.MultiValueHeaders = nil, multi
		return p
	}
	headers := make(map[string]string, len(p.Headers)+len(p.MultiValueHeaders))
	maps.Copy(headers, p.Headers)
	for name, v := range p.MultiValueHeaders {
		given, ok := p.single(name)
		switch {
		case len(v) == 0:
			continue
		case ok:
			delete(headers, given)
		}
		switch {
		case !strings.EqualFold(name, "Set-Cookie"):
			headers[name] = strings.Join(v, ", ")
		case f == singleAndCookies:
			p.Cookies = append(slices.Clip(p.Cookies), v...)
		default:
			headers[name] = v[0]
		}
	}
	p.Headers, p.MultiValueHeaders = headers, nil
	return p
}

// single is the name under which a header is among the single-valued ones.
func (p parts) single(name string) (string, bool) {
	for given := range p.Headers {
		if strings.EqualFold(given, name) {
			return given, true
		}
	}
	return "", false
}

// values of a request header. Multi holds all of them where the integration gives it.
func values(name string, single map[string]string, multi map[string][]string) (v []string) {
	for given, vs := range multi {
		if strings.EqualFold(given, name) {
			v = append(v, vs...)
		}
	}
	if v != nil {
		return v
	}
	for given, one := range single {
		if strings.EqualFold(given, name) {
			v = append(v, one)
		}
	}
	return v
}

// first value of a request header.
func first(name string, single map[string]string, multi map[string][]string) string {
	if v := values(name, single, multi); len(v) > 0 {
		return v[0]
	}
	return ""
}

// query in one form, whether the integration gives one value per name or all of them.
func query(single map[string]string, multi map[string][]string) map[string][]string {
	if len(multi) > 0 {
		return multi
	}
	all := make(map[string][]string, len(single))
	for name, v := range single {
		all[name] = []string{v}
	}
	return all
}
