package lambdawrap

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/idem-go/idem"
)

// Problem is an answer of an HTTP adapter's own, sent as application/problem+json (RFC 9457). In all of these the handler did not
// run for this request, except where it says so:
//
//	400 key-missing, key-invalid, key-expired, body-invalid
//	403 caller-unknown: the tenant function gave an error or nothing
//	409 in-progress, with Retry-After
//	409 indeterminate: an earlier attempt may have had its effect. Retryable if the operation has a reconciler
//	409 failed: a recorded final failure. [HTTP] only; the others return the error to Lambda, as when it came first
//	409 result-unreadable: it happened, and its response cannot be given
//	409 superseded: the handler ran, but somebody settled the key otherwise meanwhile
//	413 body-too-large
//	422 fingerprint-mismatch
//	500 not-recorded: the handler ran, and nobody knows whether its response was stored. A retry tells
//	500 misconfigured
//	500 no-response: the handler ran and gave up. [HTTP] only
//	503 store-unavailable, with Retry-After if a retry helps
//
// What no retry changes is a 4xx, because clients repeat a 5xx for ever; misconfigured, the service's own fault, is the exception.
type Problem struct {
	Status     int
	Type       string // URI
	Title      string
	Detail     string            // never a key or a payload
	Record     string            // operation and digest of the key, if it is known
	Retryable  bool              // sending the same again is useful
	RetryAfter time.Duration     // Retry-After, if above zero
	Header     map[string]string // more headers, such as those of CORS
	Body       []byte            // instead of the JSON object of the above; Header then has its Content-Type
	_          struct{}
}

// maxRetryAfter caps Retry-After: most attempts end long before their lease does.
const maxRetryAfter = 30 * time.Second

// problem is what a refusal looks like, or nil if err is no refusal but an error of the handler.
func (g *guard[Req, Resp]) problem(err error) *Problem {
	p, suffix := problemOf(err)
	if p == nil {
		return nil
	}
	p.Type = g.Docs + suffix
	if p.Status == http.StatusBadRequest {
		p.Header = map[string]string{"Link": "<" + p.Type + `>; rel="describedby"`}
	}
	if g.Problem != nil {
		g.Problem(err, p)
	}
	return p
}

// problemOf says what a refusal is about.
func problemOf(err error) (p *Problem, suffix string) {
	after, again := idem.RetryAfter(err)
	p = &Problem{Retryable: again}
	set := func(status int, suffix, title, record string) (*Problem, string) {
		p.Status, p.Title, p.Record = status, title, record
		return p, suffix
	}
	switch e := err.(type) {
	case *callerError:
		return set(http.StatusForbidden, "caller-unknown", "The caller is not known", "")
	case *bodyError:
		p.Detail = e.problem
		if e.status == http.StatusRequestEntityTooLarge {
			return set(e.status, "body-too-large", "The body is too large", "")
		}
		return set(e.status, "body-invalid", "The body is not valid", "")
	case *idem.RequestError:
		return requestProblem(p, e)
	case *idem.MismatchError:
		return set(http.StatusUnprocessableEntity, "fingerprint-mismatch", "The idempotency key was used with another request", e.ID)
	case *idem.InProgressError:
		p.RetryAfter = min(after, maxRetryAfter)
		return set(http.StatusConflict, "in-progress", "The first request with this key is still in progress", e.ID)
	case *idem.IndeterminateError:
		return set(http.StatusConflict, "indeterminate", "The outcome of an earlier request with this key is not known; nothing was done for this one", e.ID)
	case *idem.UnavailableError:
		if again {
			p.RetryAfter = after
		}
		return set(http.StatusServiceUnavailable, "store-unavailable", "The request cannot be guarded now; nothing was done", e.ID)
	case *idem.NotRecordedError:
		p.RetryAfter = after
		return set(http.StatusInternalServerError, "not-recorded", "The request was carried out, but its outcome may not be recorded", e.ID)
	case *idem.LostError:
		return set(http.StatusConflict, "superseded", "The request was carried out, but its outcome was settled otherwise meanwhile", e.ID)
	case *idem.UnreadableError:
		return set(http.StatusConflict, "result-unreadable", "The request was carried out earlier; its response cannot be given", e.ID)
	}
	switch err {
	case errNoKey:
		return set(http.StatusBadRequest, "key-missing", "The request needs an idempotency key", "")
	case errKeys, errKeyForm, errKeyEnding, errKeyEscapes:
		p.Detail = err.Error()
		return set(http.StatusBadRequest, "key-invalid", "The idempotency key is not valid", "")
	}
	return nil, ""
}

// requestProblem tells by the field that a RequestError names whose fault it is.
func requestProblem(p *Problem, e *idem.RequestError) (*Problem, string) {
	p.Status, p.Detail = http.StatusBadRequest, e.Problem
	switch {
	case strings.HasPrefix(e.Problem, "Request.Key"):
		p.Title = "The idempotency key is not valid"
		return p, "key-invalid"
	case strings.HasPrefix(e.Problem, "Request.Issued"):
		p.Title = "The idempotency key is too old"
		return p, "key-expired"
	case strings.HasPrefix(e.Problem, "Request.Payload"):
		p.Title = "The body is not valid"
		return p, "body-invalid"
	case strings.HasPrefix(e.Problem, "Request.Tenant"):
		p.Status, p.Title, p.Detail = http.StatusForbidden, "The caller is not known", ""
		return p, "caller-unknown"
	}
	p.Status, p.Title, p.Detail = http.StatusInternalServerError, "The service is not set up for this request", ""
	return p, "misconfigured"
}

// header is the headers of the answer.
func (p *Problem) header() map[string]string {
	h := map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
	if p.RetryAfter > 0 {
		h["Retry-After"] = strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds())))
	}
	for k, v := range p.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	return h
}

// body is the body of the answer.
func (p *Problem) body() []byte {
	if p.Body != nil {
		return p.Body
	}
	return encode(struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail,omitempty"`
		Record    string `json:"record,omitempty"`
		Retryable bool   `json:"retryable"`
	}{p.Type, p.Title, p.Status, p.Detail, p.Record, p.Retryable})
}

// encode writes what always has a JSON form, like the Lambda runtime does: without HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings, numbers and maps of them
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
