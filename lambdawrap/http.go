package lambdawrap

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem"
)

// HTTPOptions of an HTTP adapter whose requests are Req. A zero field means its default.
type HTTPOptions[Req any] struct {
	// Header is the name of the request header that has the key. Default: Idempotency-Key.
	Header string

	// Methods are guarded: a request needs a key. Others go to the handler as if there were no adapter; OPTIONS always does, since a
	// browser's preflight cannot have the key. Case does not matter. Default: POST, PATCH, PUT, DELETE.
	Methods []string

	// Record says what becomes of a response with this status. Default: [Keep] below 500, else [Unclear]. A status that no final
	// response can have, such as 0, is Unclear without asking.
	Record func(status int) Disposition

	// Fingerprint gives what must be equal in every request under a key, as Payload of an [idem.Request]. An error is a 400, with
	// nothing written. Default: a JSON object of method, route, path, query and body, which a reconciler finds in Doubt.Request.
	// The body is taken after base64 decoding, as JSON where its content type says so, else by its SHA-256; no header counts. A
	// client that sends multipart forms and makes a new boundary each time needs a function here, else its second request is a 422.
	Fingerprint func(context.Context, Req) (any, error)

	// Issued is when a key was made, if the key itself proves it: see [idem.Request]. Default: unknown.
	Issued func(key string) time.Time

	// Omit names the response headers that a replay leaves out. Default, where nil: Set-Cookie, WWW-Authenticate, Date. An empty list
	// that is not nil leaves nothing out.
	Omit []string

	// Problem changes an answer of the adapter's own before it is sent; err is what it is about.
	Problem func(err error, p *Problem)

	// Docs is what the types of problems start with, a URL of the API's documentation. Default: this library's.
	Docs string

	_ struct{}
}

// Disposition is what becomes of a response.
type Disposition uint8

const (
	Keep    Disposition = iota + 1 // record it; every request under the key gets it
	Forget                         // the handler says by it that nothing happened: the next request may run
	Unclear                        // as an error that says nothing: unknown, or released where the operation marks its begin and it had not come
)

// guard is what the HTTP adapters have in common: everything but the form of requests and responses.
type guard[Req, Resp any] struct {
	HTTPOptions[Req]
	op     *idem.Operation[Resp]
	tenant func(context.Context, Req) (string, error)
	status func(Resp) int
}

// facts are what of a request identifies it.
type facts struct {
	method, route, path string
	query               any
	keys                []string // values of the key's header
	contentType         string
	body                string
	base64              bool
}

func (g *guard[Req, Resp]) setDefaults(opts *HTTPOptions[Req]) {
	if opts != nil {
		g.HTTPOptions = *opts
	}
	if g.Header == "" {
		g.Header = "Idempotency-Key"
	}
	if len(g.Methods) == 0 {
		g.Methods = []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
	}
	g.Methods = slices.Clone(g.Methods)
	if g.Record == nil {
		g.Record = func(status int) Disposition {
			if status < 500 {
				return Keep
			}
			return Unclear
		}
	}
	if g.Omit == nil {
		g.Omit = []string{"Set-Cookie", "WWW-Authenticate", "Date"}
	}
	if g.Docs == "" {
		g.Docs = "https://github.com/idem-go/idem#"
	}
}

// guards says whether requests of this method need a key. A handler may take "post" for POST, so case does not matter.
func (g *guard[Req, Resp]) guards(method string) bool {
	return !strings.EqualFold(method, http.MethodOptions) &&
		slices.ContainsFunc(g.Methods, func(m string) bool { return strings.EqualFold(m, method) })
}

// outcome of one guarded request: a response, or a problem, or an error for the runtime.
type outcome[Resp any] struct {
	response Resp
	replayed bool
	problem  *Problem
	err      error
}

// serve guards one request.
//
// A response that is not kept is an error to the operation, so that the record is released or becomes indeterminate, and
// comes back out of it: the caller gets it once, and nobody gets it again.
func (g *guard[Req, Resp]) serve(ctx context.Context, req Req, f facts, h func(context.Context, Req) (Resp, error)) outcome[Resp] {
	r, err := g.request(ctx, req, f)
	if err != nil {
		return outcome[Resp]{problem: g.problem(err)}
	}
	var own error // what the handler returned
	res, err := g.op.Do(ctx, r, func(ctx context.Context) (Resp, error) {
		v, err := h(ctx, req)
		if err != nil {
			own = err
			return v, err
		}
		switch g.disposition(g.status(v)) {
		case Keep:
			return v, nil
		case Forget:
			return v, idem.NotApplied(&unkept[Resp]{v})
		}
		return v, &unkept[Resp]{v}
	})
	if err == nil {
		return outcome[Resp]{response: res.Value, replayed: res.Outcome != idem.Executed}
	}
	if u, ok := err.(*unkept[Resp]); ok {
		return outcome[Resp]{response: u.response}
	}
	if own != nil && (errors.Is(own, err) || errors.Is(err, own)) {
		return outcome[Resp]{err: err} // also if it is a refusal that the handler got from another operation
	}
	if p := g.problem(err); p != nil {
		return outcome[Resp]{problem: p}
	}
	return outcome[Resp]{err: err}
}

// unkept is a response on its way through an operation that shall not record it.
type unkept[Resp any] struct{ response Resp }

func (*unkept[Resp]) Error() string { return "the response is not to be kept" }

func (g *guard[Req, Resp]) disposition(status int) Disposition {
	if status < 200 || status > 599 {
		return Unclear
	}
	return g.Record(status)
}

// request identifies a request, before anything is asked of anybody but the caller's own functions.
func (g *guard[Req, Resp]) request(ctx context.Context, req Req, f facts) (r idem.Request, err error) {
	if r.Key, err = parseKey(f.keys); err != nil {
		return r, err
	}
	if r.Tenant, err = g.tenant(ctx, req); err != nil {
		return r, &callerError{err}
	}
	if g.Issued != nil {
		r.Issued = g.Issued(r.Key)
	}
	body, err := f.decoded()
	switch {
	case err != nil:
	case g.Fingerprint == nil:
		r.Payload, err = f.fingerprint(body)
	default:
		if r.Payload, err = g.Fingerprint(ctx, req); err != nil {
			err = &bodyError{http.StatusBadRequest, "the request's fingerprint cannot be taken"} // the cause may quote it
		}
	}
	return r, err
}

// callerError: the tenant function does not know who sent the request.
type callerError struct{ err error }

func (e *callerError) Error() string { return "the request's caller is not known: " + e.err.Error() }
func (e *callerError) Unwrap() error { return e.err }

// bodyError: the body is not what it says it is, or too large.
type bodyError struct {
	status  int
	problem string
}

func (e *bodyError) Error() string { return e.problem }

func (f facts) decoded() ([]byte, error) {
	if !f.base64 {
		return []byte(f.body), nil
	}
	body, err := base64.StdEncoding.DecodeString(f.body)
	if err != nil {
		return nil, &bodyError{http.StatusBadRequest, "the body is said to be base64 and is not"}
	}
	return body, nil
}

// fingerprint is the default payload. Bodies that are no JSON are in it as their SHA-256, so text and base64 of it are equal.
func (f facts) fingerprint(body []byte) (json.RawMessage, error) {
	head, err := json.Marshal(struct {
		Method string `json:"method"`
		Route  string `json:"route"`
		Path   string `json:"path"`
		Query  any    `json:"query"`
	}{strings.ToUpper(f.method), f.route, f.path, f.query})
	if err != nil {
		return nil, &bodyError{http.StatusBadRequest, "the query has no JSON form"}
	}
	head = head[:len(head)-1]
	switch {
	case len(body) == 0 || !isJSON(f.contentType):
		sum := sha256.Sum256(body)
		return append(append(head, `,"sha256":"`...), hex.EncodeToString(sum[:])+`"}`...), nil
	case !json.Valid(body): // or it could bring members of its own
		return nil, &bodyError{http.StatusBadRequest, "the content type is JSON and the body is not"}
	}
	return append(append(append(head, `,"body":`...), body...), '}'), nil
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t, _, _ = strings.Cut(contentType, ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t == "application/json" || strings.HasSuffix(t, "+json")
}
