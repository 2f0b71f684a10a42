package psp_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
	"github.com/idem-go/idem/examples/payment/psp"
)

var order = psp.Order{Merchant: "m1", ID: "o1", Amount: 1250, Currency: "EUR"}

// provider serves a fresh provider, with what it does next.
func provider(t *testing.T, next string) *psp.Client {
	t.Helper()
	l, err := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	s := ledger.NewServer(l)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		h.Close()
		_ = l.Close()
	})
	res, err := http.Post(h.URL+"/behave", "application/json", strings.NewReader(`{"next":[`+next+`]}`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("behave: %v, %v", res, err)
	}
	_ = res.Body.Close()
	return &psp.Client{BaseURL: h.URL}
}

// answering serves one and the same answer to everything.
func answering(t *testing.T, status int, body string) *psp.Client {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(h.Close)
	return &psp.Client{BaseURL: h.URL}
}

func TestCharge(t *testing.T) {
	c := provider(t, "")
	first, err := c.Charge(t.Context(), "k/1 ?&", order)
	if err != nil {
		t.Fatal(err)
	}
	if first.Key != "k/1 ?&" || first.Order != "o1" || first.Amount != 1250 || first.ID == "" || first.At.IsZero() {
		t.Errorf("got %+v", first)
	}
	for name, ask := range map[string]func(context.Context, string) (psp.Charge, error){"find": c.Find, "close": c.CloseKey} {
		if got, err := ask(t.Context(), "k/1 ?&"); err != nil || got != first {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if _, err := ask(t.Context(), "other"); !errors.Is(err, psp.ErrNotFound) {
			t.Errorf("%s another: got %v", name, err)
		}
	}
	if got, err := c.Charge(t.Context(), "k/1 ?&", order); err != nil || got != first {
		t.Errorf("again: got %+v, %v", got, err)
	}
}

func TestWhatAnErrorSays(t *testing.T) {
	closed := provider(t, "")
	if _, err := closed.CloseKey(t.Context(), "key-0123"); !errors.Is(err, psp.ErrNotFound) {
		t.Fatal(err)
	}
	used := provider(t, "")
	if _, err := used.Charge(t.Context(), "key-0123", psp.Order{Merchant: "m1", ID: "o1", Amount: 1, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, test := range map[string]struct {
		client *psp.Client
		known  string // declined, refused, unavailable, or empty for unknown
	}{
		"declined":           {provider(t, `"refuse"`), "declined"},
		"unavailable":        {provider(t, `"503"`), "unavailable"},
		"connection refused": {&psp.Client{BaseURL: gone.URL}, "unavailable"},
		"closed key":         {closed, "refused"},
		"reused key":         {used, "refused"},
		"500":                {provider(t, `"500"`), ""},
		"500 charged":        {provider(t, `"500-charged"`), ""},
		"dropped":            {provider(t, `"drop"`), ""},
		"down":               {provider(t, `"down"`), ""},
		"504":                {provider(t, `"receive-late-504:1h"`), ""},
		"foreign 503":        {answering(t, 503, "busy"), ""},
		"foreign 503 json":   {answering(t, 503, `{"message":"busy"}`), ""},
		"foreign 402":        {answering(t, 402, `{}`), ""},
		"foreign 404":        {answering(t, 404, `{"error":"no route"}`), ""},
		"empty 200":          {answering(t, 200, ``), ""},
		"foreign 200":        {answering(t, 200, `{"ok":true}`), ""},
		"redirect":           {answering(t, 307, `{}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := test.client.Charge(t.Context(), "key-0123", order)
			if err == nil {
				t.Fatalf("got %+v", c)
			}
			known := ""
			if _, ok := errors.AsType[*psp.DeclinedError](err); ok {
				known += "declined"
			}
			if _, ok := errors.AsType[*psp.RefusedError](err); ok {
				known += "refused"
			}
			if _, ok := errors.AsType[*psp.UnavailableError](err); ok {
				known += "unavailable"
			}
			if known != test.known || errors.Is(err, psp.ErrNotFound) {
				t.Errorf("got %q (%v), want %q", known, err, test.known)
			}
			if strings.Contains(err.Error(), "key-0123") || strings.Contains(err.Error(), "o1") {
				t.Errorf("tells too much: %v", err)
			}
		})
	}
}

func TestDeadlineIsUnknown(t *testing.T) {
	c := provider(t, `"late:1h"`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Charge(ctx, "k", order)
	if _, ok := errors.AsType[*psp.UnavailableError](err); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// breaking is a server that answers the first request of every connection and breaks the connection under the second,
// which it has received whole. Charges counts the requests that carried a key.
func breaking(t *testing.T) (url string, charges *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	charges = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := range 2 {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					text := make([]byte, req.ContentLength)
					_, _ = req.Body.Read(text)
					if req.Header.Get("Idempotency-Key") != "" {
						charges.Add(1)
					}
					if n == 0 {
						answer := `{"id":"ch_1"}`
						_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + answer))
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), charges
}

// TestABrokenConnectionSendsNoChargeTwice uses a kept connection on purpose: it is where net/http sends a request with
// an Idempotency-Key again by itself.
func TestABrokenConnectionSendsNoChargeTwice(t *testing.T) {
	t.Run("net/http does", func(t *testing.T) {
		url, charges := breaking(t)
		kept := &http.Client{Transport: &http.Transport{}}
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			if res, err := kept.Do(req); err == nil {
				var text [64]byte
				_, _ = res.Body.Read(text[:])
				_ = res.Body.Close()
			}
		}
		if got := charges.Load(); got != 3 {
			t.Errorf("got %d requests for 2 charges: this test provokes nothing", got)
		}
	})
	t.Run("kept connection", func(t *testing.T) {
		url, charges := breaking(t)
		c := &psp.Client{BaseURL: url, HTTP: &http.Client{Transport: &http.Transport{}}}
		if _, err := c.Charge(t.Context(), "k", order); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Charge(t.Context(), "k", order); err == nil {
			t.Error("answered")
		}
		if got := charges.Load(); got != 2 {
			t.Errorf("got %d requests for 2 charges", got)
		}
	})
	t.Run("own connection", func(t *testing.T) {
		url, charges := breaking(t)
		c := &psp.Client{BaseURL: url}
		for range 2 {
			if _, err := c.Charge(t.Context(), "k", order); err != nil {
				t.Error(err)
			}
		}
		if got := charges.Load(); got != 2 {
			t.Errorf("got %d requests for 2 charges", got)
		}
	})
}
