package lambdawrap_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem/idemtest"
)

// Go's transport sends a request again by itself when it has an Idempotency-Key and the connection broke before the answer came.
func TestClientThatSendsAgainGetsTheFirstAnswer(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		var runs, requests atomic.Int32
		send := f.open(t, idemtest.NewMemory(t), &settings{}, func(context.Context, sent) (answered, error) {
			runs.Add(1)
			return answered{status: 201, body: rand(), header: http.Header{"Location": {"/p/1"}, "Set-Cookie": {"s=1"}}}, nil
		})
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				return
			}
			body, _ := io.ReadAll(r.Body)
			a, err := send(invoked(t), sent{method: r.Method, path: r.URL.Path, tenant: "acme", body: string(body), header: r.Header.Clone()})
			if err != nil {
				t.Error(err)
			}
			if requests.Add(1) == 1 { // it was done, and nobody hears of it
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
				return
			}
			maps.Copy(w.Header(), a.header)
			w.WriteHeader(a.status)
			io.WriteString(w, a.body)
		}))
		defer gateway.Close()
		client := gateway.Client()
		warm, err := client.Get(gateway.URL) // only a connection that was used before is given up so
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, warm.Body)
		warm.Body.Close()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", gateway.URL+"/pay", strings.NewReader(`{"amount":5}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
		got, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, _ := io.ReadAll(got.Body)
		if requests.Load() != 2 || runs.Load() != 1 {
			t.Errorf("%d requests, %d runs", requests.Load(), runs.Load())
		}
		if got.StatusCode != 201 || len(body) != 26 || got.Header.Get("Idempotent-Replayed") != "true" || got.Header.Get("Location") != "/p/1" || got.Header.Get("Set-Cookie") != "" || got.ContentLength != 26 {
			t.Errorf("%v %s", got, body)
		}
	})
}
