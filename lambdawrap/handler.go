package lambdawrap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/idem-go/idem"
)

// Response is what an http.Handler answered, as it is recorded.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	_      struct{}
}

const maxBody = 6 << 20 // bytes of a request, as of a Lambda event

// HTTP guards an http.Handler, on Lambda behind an adapter from events to net/http, or anywhere else.
//
// It is [APIGatewayV2] for net/http: the same keys, refusals and replays. The body of a guarded request is read before the handler runs,
// up to 6 MiB, and the handler's response is recorded before it is sent: it is not streamed, and has neither trailers nor
// informational responses. Where the handler returns without a response because its context is done, the outcome is unknown. Handlers of other methods are not touched. A panic of the handler goes on after it was recorded as an
// unknown outcome. Tenant, Fingerprint and the handler each find the whole body in the request.
//
// A request's context seldom has a deadline: the operation needs Options.Lease then. HTTP panics where an argument but opts is nil.
func HTTP(op *idem.Operation[Response], tenant func(context.Context, *http.Request) (string, error), h http.Handler, opts *HTTPOptions[*http.Request]) http.Handler {
	if op == nil || tenant == nil || h == nil {
		panic("lambdawrap: HTTP needs an operation, a tenant function and a handler")
	}
	g := &guard[*http.Request, Response]{op: op, tenant: tenant, status: func(r Response) int { return r.Status }}
	g.setDefaults(opts)
	g.tenant = func(ctx context.Context, r *http.Request) (string, error) {
		r = rewound(r)
		defer cleanUp(r)
		return tenant(ctx, r)
	}
	if f := g.Fingerprint; f != nil {
		g.Fingerprint = func(ctx context.Context, r *http.Request) (any, error) {
			r = rewound(r)
			defer cleanUp(r)
			return f(ctx, r)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.guards(r.Method) {
			h.ServeHTTP(w, r)
			return
		}
		body, err := readBody(w, r)
		if err != nil {
			g.problem(err).send(w)
			return
		}
		r = r.WithContext(r.Context()) // a shallow copy
		r.Body = &memory{body: body}
		f := facts{
			method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery,
			keys: r.Header.Values(g.Header), contentType: r.Header.Get("Content-Type"), body: string(body),
		}
		out := g.serve(r.Context(), r, f, func(ctx context.Context, r *http.Request) (Response, error) {
			rec := &recorder{header: make(http.Header)}
			r = rewound(r.WithContext(ctx))
			defer cleanUp(r)
			h.ServeHTTP(rec, r)
			if rec.status == 0 && ctx.Err() != nil { // it gave up: an empty 200 would say that it did not
				return Response{}, context.Cause(ctx)
			}
			return rec.response(), nil
		})
		switch {
		case out.problem != nil:
			out.problem.send(w)
		case out.err != nil:
			g.failed(out.err).send(w)
		case out.replayed:
			w.Header().Set(replayedHeader, "true")
			out.response.send(w, append([]string{replayedHeader}, g.Omit...))
		default:
			out.response.send(w, nil)
		}
	})
}

// memory is a body that was read already. Whoever reads a request gets one of their own.
type memory struct {
	body []byte
	bytes.Reader
}

func (*memory) Close() error { return nil }

func rewound(r *http.Request) *http.Request {
	if m, ok := r.Body.(*memory); ok {
		r = r.WithContext(r.Context()) // a shallow copy
		again := &memory{body: m.body}
		again.Reset(m.body)
		r.Body = again
	}
	return r
}

// cleanUp removes what a form that was parsed has left in files, as net/http does with the request that it made itself.
func cleanUp(r *http.Request) {
	if r.MultipartForm != nil {
		r.MultipartForm.RemoveAll()
	}
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch err.(type) {
	case nil:
		return body, nil
	case *http.MaxBytesError:
		return nil, &bodyError{http.StatusRequestEntityTooLarge, "the body has more than 6 MiB"}
	}
	return nil, &bodyError{http.StatusBadRequest, "the body could not be read"}
}

// failed is the answer where there is no response and no refusal: a failure that an operator or a reconciler established, or a
// handler that gave up.
func (g *guard[Req, Resp]) failed(err error) *Problem {
	p := &Problem{Status: http.StatusInternalServerError, Type: g.Docs + "no-response", Title: "The handler ended without a response"}
	if f, ok := err.(*idem.FailedError); ok {
		p.Status, p.Type, p.Title, p.Record = http.StatusConflict, g.Docs+"failed", "The operation failed for good; nothing was done", f.ID
	}
	if g.Problem != nil {
		g.Problem(err, p)
	}
	return p
}

func (p *Problem) send(w http.ResponseWriter) {
	for name, v := range p.header() {
		w.Header().Set(name, v)
	}
	w.WriteHeader(p.Status)
	w.Write(p.body()) // the client may have left
}

// send writes a response without the headers to omit.
func (r Response) send(w http.ResponseWriter, omit []string) {
	named := func(name string) bool {
		return slices.ContainsFunc(omit, func(o string) bool { return strings.EqualFold(o, name) })
	}
	for name, v := range r.Header {
		if !named(name) {
			w.Header()[name] = v
		}
	}
	w.WriteHeader(r.Status)
	w.Write(r.Body) // the client may have left
}

// recorder is the http.ResponseWriter that a guarded handler writes to.
type recorder struct {
	header http.Header
	status int
	sent   http.Header // as it was when the status was written
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("lambdawrap: invalid status %d", status)) // as net/http does
	case w.status != 0 || status < 200:
		return
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return w.body.Write(b)
}

func (w *recorder) response() Response {
	w.WriteHeader(http.StatusOK)
	maps.DeleteFunc(w.sent, func(name string, _ []string) bool {
		return slices.ContainsFunc(framing, func(f string) bool { return strings.EqualFold(f, name) })
	})
	return Response{Status: w.status, Header: w.sent, Body: bytes.Clone(w.body.Bytes())}
}
