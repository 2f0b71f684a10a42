package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Proxy is a reverse proxy on the loopback in front of one upstream.
//
// A request that arrived whole is forwarded whole, once, and its answer is read whole, whatever becomes of the client
// meanwhile: a client that was killed does not take its request back. Without a rule the client gets the upstream's
// status, headers (Date included) and body; an upstream that gives no answer is a closed connection. The proxy adds
// no request, no retry and no header of its own.
type Proxy struct {
	upstream  *url.URL
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	ctx       context.Context // ends with Close
	stop      context.CancelFunc
	under     sync.WaitGroup // requests being served

	mu       sync.Mutex
	requests []*Request
	rules    []*Rule
}

// NewProxy starts a proxy in front of upstream, a base URL on the loopback.
func NewProxy(upstream string) (*Proxy, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, fmt.Errorf("lab: upstream: %w", err)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "http" || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("lab: upstream %s is not http on the loopback", upstream)
	}
	if u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("lab: upstream %s has a path", upstream)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("lab: proxy: %w", err)
	}
	p := &Proxy{
		upstream: u,
		listener: l,
		// A kept connection that breaks makes net/http send some requests again. A fresh one for each never does.
		transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(l) }() // ends with Close
	return p, nil
}

// URL returns the proxy's base URL.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Close ends the proxy: held requests are dropped, forwards under way are broken off. It returns when none is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	_ = p.server.Close()
	p.under.Wait()
	p.transport.CloseIdleConnections()
}

// An answer is what the upstream said, or what an action says in its place.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		hangUp()
	}
	p.under.Add(1)
	p.mu.Unlock()
	defer p.under.Done()

	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp() // it did not arrive, so it is neither counted nor forwarded
	}
	req, before, after := p.arrive(r, body)

	x := &exchange{done: p.ctx.Done()}
	if x.through(before) == forward {
		a, err := p.forward(r, body)
		if err == nil {
			p.note(func() { req.Upstream = a.status })
			x.answer = a
		}
		if x.through(after) == forward && err != nil {
			hangUp()
		}
	}
	if x.answer == nil || x.fate == dropped {
		hangUp()
	}
	p.note(func() { req.Answered = x.answer.status })
	x.answer.write(w)
}

// hangUp closes the client's connection without an answer: net/http does so on this panic, and logs nothing.
func hangUp() { panic(http.ErrAbortHandler) }

// forward sends the request and reads the whole answer.
func (p *Proxy) forward(r *http.Request, body []byte) (*answer, error) {
	out := r.Clone(p.ctx) // not the client's context: it may be gone
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = p.upstream.Scheme, p.upstream.Host
	out.Body, out.ContentLength, out.TransferEncoding, out.GetBody = http.NoBody, int64(len(body)), nil, nil
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	removeHopByHop(out.Header)
	out.Header.Del("Expect") // answered by our own server already
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or net/http names itself
	}
	res, err := p.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	removeHopByHop(res.Header)
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := res.Header[name]; !ok {
			res.Header[name] = nil // or net/http adds one
		}
	}
	return &answer{status: res.StatusCode, header: res.Header, body: text}, nil
}

func removeHopByHop(h http.Header) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		h.Del(name)
	}
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have been killed
}
