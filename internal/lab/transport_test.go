package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTransportFaults(t *testing.T) {
	for _, c := range []struct {
		fault   *Fault
		served  int32 // by the time the client knows
		later   int32 // when what is late has arrived
		status  int
		problem error
	}{
		{nil, 1, 1, 200, nil},
		{Lost, 1, 1, 0, io.ErrUnexpectedEOF},
		{ErrorAfter, 1, 1, 500, nil},
		{ErrorBefore, 0, 0, 500, nil},
		{Twice, 2, 2, 200, nil},
		{TwiceSecond, 2, 2, 200, nil},
		{Late, 0, 1, 0, context.DeadlineExceeded},
		{Cut, 1, 1, 200, io.ErrUnexpectedEOF},
		{Throttled, 0, 0, 400, nil},
		{Denied, 0, 0, 400, nil},
		{NoName, 0, 0, 0, &net.DNSError{}},
		{IdleClosed, 0, 0, 0, io.EOF},
	} {
		name := "none"
		if c.fault != nil {
			name = c.fault.Name
		}
		t.Run(name, func(t *testing.T) {
			var served atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				io.Copy(w, r.Body)
			}))
			defer server.Close()
			transport := NewTransport()
			defer transport.CloseIdleConnections()
			post := func(timeout time.Duration) (int, string, error) {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("hello"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
				res, err := (&http.Client{Transport: transport}).Do(r)
				if err != nil {
					return 0, "", err
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				return res.StatusCode, string(text), err
			}
			post(time.Minute) // leaves an idle connection
			served.Store(0)
			transport.Forget()
			transport.Inject(func(*Request) *Fault { return c.fault })
			timeout := time.Minute
			if c.fault == Late {
				timeout = 20 * time.Millisecond
			}
			status, text, err := post(timeout)
			_, isDNS := errors.AsType[*net.DNSError](err)
			if c.fault == NoName && !isDNS || c.fault != NoName && !errors.Is(err, c.problem) || status != c.status {
				t.Errorf("got %d %q, %v; want %d, %v", status, text, err, c.status, c.problem)
			}
			if served.Load() != c.served {
				t.Errorf("served %d times, want %d", served.Load(), c.served)
			}
			if got := transport.Deliver(); int32(got) != c.later-c.served || served.Load() != c.later {
				t.Errorf("%d were late, served %d times, want %d", got, served.Load(), c.later)
			}
			if rs := transport.Requests(); len(rs) != 1 || rs[0].Target != "UpdateItem" || string(rs[0].Body) != "hello" {
				t.Errorf("requests %+v", rs)
			}
			transport.Inject(nil)
			transport.Skew(time.Hour)
			if status, text, err := post(time.Minute); status != 200 || text != "hello" || err != nil {
				t.Errorf("afterwards %d %q %v", status, text, err)
			}
		})
	}
}
