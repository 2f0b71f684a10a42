package lab_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/lab"
)

// upstream counts what reaches it, and answers 200 with the body that it was sent.
type upstream struct {
	*httptest.Server
	reached atomic.Int32
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.reached.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(u.Close)
	return u
}

func newProxy(t *testing.T, upstream string) *lab.Proxy {
	t.Helper()
	p, err := lab.NewProxy(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// post sends one request with the operation as target; status 0 is a connection that was closed without an answer.
func post(ctx context.Context, p *lab.Proxy, target, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+target)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(text)
}

// raw sends the bytes and returns all that comes back.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestProxyIsTransparent(t *testing.T) {
	for name, answer := range map[string]string{
		"with date": "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n" +
			"Content-Type: application/x-amz-json-1.0\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-A: 1\r\nX-A: 2\r\n\r\n{\"a\":1}",
		"bare":         "HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\n<html>...",
		"no content":   "HTTP/1.1 204 No Content\r\nX-B: 1\r\n\r\n",
		"own redirect": "HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan string, 2)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					req, err := http.ReadRequest(bufio.NewReader(conn))
					if err == nil {
						req.Header.Del("Connection") // between the two of them only
						req.Close = false
						text, _ := httputil.DumpRequest(req, true)
						received <- string(text)
						_, _ = io.WriteString(conn, answer)
					}
					_ = conn.Close()
				}
			}()
			request := "POST /a%2Fb/c?x=1&y=%20 HTTP/1.1\r\nHost: table.example\r\n" +
				"X-Amz-Target: T.Op\r\nAuthorization: s\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
			direct := raw(t, l.Addr().String(), request)
			want := <-received
			p := newProxy(t, "http://"+l.Addr().String())
			through := raw(t, strings.TrimPrefix(p.URL(), "http://"), request)
			if got := <-received; got != want {
				t.Errorf("upstream got:\n%s\nwant:\n%s", got, want)
			}
			if got, want := sortedHead(through), sortedHead(direct); got != want {
				t.Errorf("client got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// sortedHead puts an answer's headers in order, less the one between two neighbours only.
func sortedHead(answer string) string {
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "Connection: close" })
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n") + "\n\n" + body
}

func TestActionsBeforeAndAfter(t *testing.T) {
	killed := 0
	kill := func() error { killed++; return nil }
	for name, test := range map[string]struct {
		action  lab.Action
		status  int // what the client is sent
		reached [2]int32
	}{
		"kill":   {lab.Kill(kill), 0, [2]int32{0, 1}},
		"drop":   {lab.Drop(), 0, [2]int32{0, 1}},
		"answer": {lab.Answer(500, nil, []byte("own")), 500, [2]int32{0, 1}},
		"do":     {lab.Do(kill), 200, [2]int32{1, 1}},
		"fails":  {lab.Do(func() error { return errors.New("nobody to kill") }), 0, [2]int32{0, 1}},
	} {
		for i, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				u := newUpstream(t)
				p := newProxy(t, u.URL)
				add := p.Before
				if when == "after" {
					add = p.After
				}
				rule := add(lab.Match{Target: "UpdateItem"}, test.action)
				status, _ := post(t.Context(), p, "UpdateItem", "x")
				if status != test.status || u.reached.Load() != test.reached[i] {
					t.Errorf("got status %d, %d upstream; want %d, %d", status, u.reached.Load(), test.status, test.reached[i])
				}
				if err := rule.Wait(within(t)); (err != nil) != (name == "fails") {
					t.Errorf("wait: got %v", err)
				}
				got := p.Requests()
				want := lab.Request{Method: "POST", Path: "/", Target: "UpdateItem", Body: []byte("x"), Answered: test.status}
				if test.reached[i] == 1 {
					want.Upstream = 200
				}
				if len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
					t.Errorf("recorded %+v, want %+v", got, want)
				}
				rule.Remove()
				if status, answer := post(t.Context(), p, "UpdateItem", "y"); status != 200 || answer != "y" {
					t.Errorf("without the rule: got %d %q", status, answer)
				}
			})
		}
	}
	if killed != 4 {
		t.Errorf("killed %d times", killed)
	}
}

func TestRulesMatchTheNthOfTheirKind(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	p.Before(lab.Match{Target: "UpdateItem", N: 2}, lab.Drop())
	bad := func(b []byte) bool { return bytes.Contains(b, []byte("bad")) }
	p.Before(lab.Match{Method: "POST", Path: "/", Body: bad}, lab.Answer(400, nil, nil))
	p.Before(lab.Match{Path: "/keys/*/close"}, lab.Drop())
	p.Before(lab.Match{Method: "GET"}, lab.Drop())
	var got []int
	for _, r := range [][2]string{
		{"UpdateItem", "a"}, {"GetItem", "a"}, {"UpdateItem", "b"}, {"UpdateItem", "a bad one"}, {"Item", "a"}, {"UpdateItem", "c"},
	} {
		status, _ := post(t.Context(), p, r[0], r[1])
		got = append(got, status)
	}
	if want := []int{200, 200, 0, 400, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if res, err := http.Post(p.URL()+"/keys/a%2Fb/close", "", nil); err == nil {
		t.Errorf("path pattern: got %d", res.StatusCode)
	}
	for n, m := range map[int]lab.Match{7: {}, 4: {Target: "UpdateItem"}, 1: {Path: "/keys/*/close"}, 0: {Method: "GET"}} {
		if got := p.Count(m); got != n {
			t.Errorf("count %+v: got %d, want %d", m, got, n)
		}
	}
	p.Forget()
	if got := p.Count(lab.Match{}); got != 0 {
		t.Errorf("after forgetting: got %d", got)
	}
}

func TestHeldRequestIsForwardedWithoutItsClient(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	gate := lab.NewGate()
	p.Before(lab.Match{}, lab.Hold(gate))
	forwarded := p.After(lab.Match{})
	ctx, die := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if status, _ := post(ctx, p, "UpdateItem", "x"); status != 0 {
			t.Errorf("got %d", status)
		}
	})
	<-gate.Held()
	die()
	wg.Wait()
	if got := u.reached.Load(); got != 0 {
		t.Errorf("held, and yet %d upstream", got)
	}
	gate.Open()
	if err := forwarded.Wait(within(t)); err != nil || u.reached.Load() != 1 {
		t.Errorf("got %v, %d upstream", err, u.reached.Load())
	}
}

func TestCloseDropsHeldRequests(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	gate := lab.NewGate()
	held := p.Before(lab.Match{}, lab.Hold(gate))
	var wg sync.WaitGroup
	wg.Go(func() { post(t.Context(), p, "UpdateItem", "x") })
	<-gate.Held()
	p.Close()
	wg.Wait()
	if err := held.Wait(within(t)); err == nil || u.reached.Load() != 0 {
		t.Errorf("got %v, %d upstream", err, u.reached.Load())
	}
}

func TestProxyNeverSendsTwice(t *testing.T) {
	reached := atomic.Int32{}
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if reached.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer u.Close()
	p := newProxy(t, u.URL)
	after := p.After(lab.Match{N: 2}, lab.Do(func() error { return nil }))
	for range 6 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.GetBody = nil
		req.Header.Set("Idempotency-Key", "k")
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}
	if got := reached.Load(); got != 6 {
		t.Errorf("got %d upstream, want 6", got)
	}
	if err := after.Wait(within(t)); err != nil { // also where the upstream hung up
		t.Error(err)
	}
	for i, r := range p.Requests() {
		if want := []int{200, 0}[i%2]; r.Upstream != want || r.Answered != want {
			t.Errorf("request %d: recorded %+v", i, r)
		}
	}
}

func TestUpstreamThatIsDownIsADroppedConnection(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	u.Close()
	if status, _ := post(t.Context(), p, "GetItem", "x"); status != 0 {
		t.Errorf("got %d", status)
	}
	for _, upstream := range []string{
		"http://192.0.2.1:80", "http://example.com", "https://127.0.0.1:1", "http://127.0.0.1:1/x", "127.0.0.1:1",
	} {
		if _, err := lab.NewProxy(upstream); err == nil {
			t.Errorf("%s: accepted", upstream)
		}
	}
}

func TestRulesComeAndGoUnderLoad(t *testing.T) {
	u := newUpstream(t)
	p := newProxy(t, u.URL)
	const clients, each = 8, 25
	var wg sync.WaitGroup
	var dropped atomic.Int32
	for range clients {
		wg.Go(func() {
			for range each {
				if status, _ := post(t.Context(), p, "UpdateItem", "x"); status == 0 {
					dropped.Add(1)
				}
			}
		})
	}
	for range 20 {
		p.Before(lab.Match{Target: "UpdateItem"}).Remove()
		p.After(lab.Match{Target: "GetItem"}, lab.Drop()).Remove()
		p.Count(lab.Match{})
	}
	first := p.Before(lab.Match{N: 1}, lab.Drop())
	wg.Wait()
	if got := p.Count(lab.Match{Target: "UpdateItem"}); got != clients*each {
		t.Errorf("counted %d, want %d", got, clients*each)
	}
	if got := u.reached.Load() + dropped.Load(); got != clients*each {
		t.Errorf("%d forwarded or dropped, want %d", got, clients*each)
	}
	first.Remove()
}
