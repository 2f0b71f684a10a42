package lab

import (
	"net/http"
	"path"
	"strings"
)

// A Request is one request that arrived at a proxy whole.
type Request struct {
	Method   string
	Path     string // as it was escaped, without the query
	Target   string // the operation in X-Amz-Target, as "UpdateItem"; empty if there is none
	Body     []byte
	Upstream int // the status of the upstream's answer; 0 without one, and until it comes
	Answered int // the status that the client was sent; 0 if the connection was dropped, and until then
}

// A Match says which requests are meant. What is left empty matches every request.
type Match struct {
	Method string
	Path   string            // a pattern as in path.Match, as "/keys/*/close"
	Target string            // the operation, as "UpdateItem"
	Body   func([]byte) bool // must not change the bytes or use the proxy
	N      int               // only the n-th request that matches all the rest, from 1
}

// fits says whether the request matches all but N.
func (m Match) fits(r *Request) bool {
	if m.Method != "" && m.Method != r.Method || m.Target != "" && m.Target != r.Target {
		return false
	}
	if m.Path != "" {
		if ok, err := path.Match(m.Path, r.Path); err != nil || !ok {
			return false
		}
	}
	return m.Body == nil || m.Body(r.Body)
}

// Requests returns what has arrived so far, in the order of arrival.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Request, len(p.requests))
	for i, r := range p.requests {
		out[i] = *r
	}
	return out
}

// Count counts the requests that arrived and match; N is not looked at.
func (p *Proxy) Count(m Match) int {
	n := 0
	for _, r := range p.Requests() {
		if m.fits(&r) {
			n++
		}
	}
	return n
}

// Forget begins the record of requests anew; rules go on counting.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// arrive records the request and decides which rules act on it: the order of arrival is the order of counting.
func (p *Proxy) arrive(r *http.Request, body []byte) (req *Request, before, after []*Rule) {
	target := r.Header.Get("X-Amz-Target")
	req = &Request{Method: r.Method, Path: r.URL.EscapedPath(), Target: target[strings.LastIndex(target, ".")+1:], Body: body}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, req)
	for _, rule := range p.rules {
		if !rule.match.fits(req) {
			continue
		}
		rule.seen++
		if rule.match.N != 0 && rule.match.N != rule.seen {
			continue
		}
		if rule.after {
			after = append(after, rule)
		} else {
			before = append(before, rule)
		}
	}
	return req, before, after
}

// note changes the record of a request.
func (p *Proxy) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
