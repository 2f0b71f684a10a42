package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Transport is an http.RoundTripper that does to requests what a network and a service do to them on a bad day. It goes below
// a real SDK client, which notices nothing. It is for the process that is tested; a [Proxy] is for one beside it.
type Transport struct {
	base *http.Transport
	skew atomic.Int64 // of the clock that answers tell

	mu     sync.Mutex
	inject func(*Request) *Fault
	seen   []*Request
	late   []func()
	conns  map[*conn]bool
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns one without faults, with connections of its own.
func NewTransport() *Transport {
	t := &Transport{conns: make(map[*conn]bool)}
	t.base = &http.Transport{DialContext: t.dial, MaxIdleConnsPerHost: 64, DisableCompression: true}
	return t
}

// Inject has f called before each request, in the order they are sent; what it returns happens to the request. Nil, of a request
// or of all of them, is nothing.
func (t *Transport) Inject(f func(*Request) *Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inject = f
}

// Requests returns what the client has sent since the last call of Forget.
func (t *Transport) Requests() []Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Request, len(t.seen))
	for i, r := range t.seen {
		out[i] = *r
	}
	return out
}

// Forget begins the list of requests anew.
func (t *Transport) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = nil
}

// Skew lets every answer from now on tell a clock that is d ahead of the service's.
func (t *Transport) Skew(d time.Duration) { t.skew.Store(int64(d)) }

// Deliver lets arrive what is late, in the order it was sent, and tells how many that were. Nobody waits for the answers.
func (t *Transport) Deliver() int {
	t.mu.Lock()
	late := t.late
	t.late = nil
	t.mu.Unlock()
	for _, send := range late {
		send()
	}
	return len(late)
}

// CloseIdleConnections is what [http.Client] looks for.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	target := r.Header.Get("X-Amz-Target")
	req := &Request{Method: r.Method, Path: r.URL.EscapedPath(), Target: target[strings.LastIndex(target, ".")+1:], Body: body}
	t.mu.Lock()
	t.seen = append(t.seen, req)
	var f *Fault
	if t.inject != nil {
		f = t.inject(req)
	}
	t.mu.Unlock()
	x := &sending{t, r, body}
	if f == nil {
		return x.send(r.Context())
	}
	return f.do(x)
}

// A Fault is what happens to one request.
type Fault struct {
	Name string
	do   func(*sending) (*http.Response, error)
}

// sending is one request on its way.
type sending struct {
	*Transport
	request *http.Request
	body    []byte
}

// send carries the request out.
func (x *sending) send(ctx context.Context) (*http.Response, error) {
	r := x.request.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(x.body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	res, err := x.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil && x.skew.Load() != 0 {
		res.Header.Set("Date", at.Add(time.Duration(x.skew.Load())).Format(http.TimeFormat))
	}
	return res, nil
}

// carry carries it out for nobody.
func (x *sending) carry(ctx context.Context) error {
	res, err := x.send(ctx)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	return err
}

func (x *sending) answer(status int, code string) *http.Response {
	text := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"from the test"}`, code)
	h := http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "Date": {time.Now().Add(time.Duration(x.skew.Load())).UTC().Format(http.TimeFormat)}}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: x.request,
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
}

// The faults. "After" is when the service has carried the request out.
var (
	// Lost: the connection breaks after it; no answer comes.
	Lost = &Fault{"answer lost", func(x *sending) (*http.Response, error) {
		if err := x.carry(x.request.Context()); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}
	}}

	// ErrorAfter: the service says 500 after it.
	ErrorAfter = &Fault{"500 after", func(x *sending) (*http.Response, error) {
		if err := x.carry(x.request.Context()); err != nil {
			return nil, err
		}
		return x.answer(500, "InternalServerError"), nil
	}}

	// ErrorBefore: the service says 500 and has done nothing.
	ErrorBefore = &Fault{"500 before", func(x *sending) (*http.Response, error) { return x.answer(500, "InternalServerError"), nil }}

	// Twice: it arrives twice, and the first answer counts.
	Twice = &Fault{"twice", func(x *sending) (*http.Response, error) {
		res, err := x.send(x.request.Context())
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			err = x.carry(x.request.Context())
		}
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(text))
		return res, nil
	}}

	// TwiceSecond: it arrives twice, and the second answer counts.
	TwiceSecond = &Fault{"twice, second answer", func(x *sending) (*http.Response, error) {
		if err := x.carry(x.request.Context()); err != nil {
			return nil, err
		}
		return x.send(x.request.Context())
	}}

	// Late: it is under way until Deliver, and the client waits for as long as it wants to.
	Late = &Fault{"late", func(x *sending) (*http.Response, error) {
		x.mu.Lock()
		x.late = append(x.late, func() { x.carry(context.WithoutCancel(x.request.Context())) })
		x.mu.Unlock()
		<-x.request.Context().Done()
		return nil, x.request.Context().Err()
	}}

	// Cut: the answer ends in mid-body.
	Cut = &Fault{"cut in mid-body", func(x *sending) (*http.Response, error) {
		res, err := x.send(x.request.Context())
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text[:len(text)/2]), broken{}))
		return res, nil
	}}

	// Throttled: the service says that it is, and has done nothing.
	Throttled = &Fault{"throttled", func(x *sending) (*http.Response, error) {
		return x.answer(400, "ProvisionedThroughputExceededException"), nil
	}}

	// Denied: the service says that this is not allowed; asking again is no use.
	Denied = &Fault{"denied", func(x *sending) (*http.Response, error) { return x.answer(400, "AccessDeniedException"), nil }}

	// NoName: the service's name is not found. Nothing is sent.
	NoName = &Fault{"name not found", func(x *sending) (*http.Response, error) {
		host := x.request.URL.Host
		if trace := httptrace.ContextClientTrace(x.request.Context()); trace != nil && trace.GetConn != nil {
			trace.GetConn(host)
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}}

	// IdleClosed: the service has closed the connections that were idle, and the client learns of it when it has sent.
	IdleClosed = &Fault{"idle connection closed", func(x *sending) (*http.Response, error) {
		x.mu.Lock()
		for c := range x.conns {
			c.stale.Store(true)
		}
		x.mu.Unlock()
		return x.send(x.request.Context())
	}}
)

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// conn is a connection whose other end may have gone without a word.
type conn struct {
	net.Conn
	of    *Transport
	stale atomic.Bool
}

func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	mine := &conn{Conn: c, of: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[mine] = true
	return mine, nil
}

func (c *conn) Write(b []byte) (int, error) {
	if c.stale.Load() {
		c.Conn.Close() // the kernel takes the bytes, and the answer is a reset
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.stale.Load() {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
