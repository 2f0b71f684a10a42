package ledger_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
)

const body = `{"merchant":"m1","order":"o1","amount":1250,"currency":"EUR"}`

// provider is a server that is served, and what the tests ask of it.
type provider struct {
	t   *testing.T
	url string
	*ledger.Server
}

func serve(t *testing.T) *provider {
	t.Helper()
	s := ledger.NewServer(open(t, filepath.Join(t.TempDir(), "ledger")))
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return &provider{t: t, url: h.URL, Server: s}
}

// send sends one request; status 0 is a connection that was closed without an answer.
func (p *provider) send(ctx context.Context, method, path, key, body string) (status int, header http.Header, text string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, nil, ""
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(all)
}

func (p *provider) charge(key string) int {
	p.t.Helper()
	status, _, _ := p.send(p.t.Context(), http.MethodPost, "/charges", key, body)
	return status
}

func (p *provider) behave(text string) {
	p.t.Helper()
	if status, _, answer := p.send(p.t.Context(), http.MethodPost, "/behave", "", text); status != http.StatusOK {
		p.t.Fatalf("behave: %d %s", status, answer)
	}
}

func (p *provider) listing() (l ledger.Listing) {
	p.t.Helper()
	_, _, text := p.send(p.t.Context(), http.MethodGet, "/ledger", "", "")
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		p.t.Fatal(err)
	}
	return l
}

func TestBehaviours(t *testing.T) {
	for _, test := range []struct {
		behaviour string
		status    int
		charged   int
	}{
		{"proper", 201, 1},
		{"late:1ms", 201, 1},
		{"drop", 0, 1},
		{"refuse", 402, 0},
		{"500", 500, 0},
		{"500-charged", 500, 1},
		{"503", 503, 0},
		{"down", 0, 0},
		{"receive-late:1h", 0, 0},
		{"receive-late-504:1h", 504, 0},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			p := serve(t)
			p.behave(`{"next":["` + test.behaviour + `"]}`)
			if got := p.charge("k"); got != test.status {
				t.Errorf("status: got %d, want %d", got, test.status)
			}
			if got := p.listing().Count; got != test.charged {
				t.Errorf("charges: got %d, want %d", got, test.charged)
			}
			// The next one is proper again, and finds what was done.
			want := http.StatusCreated
			if test.charged > 0 {
				want = http.StatusOK
			}
			if got := p.charge("k"); got != want {
				t.Errorf("next status: got %d, want %d", got, want)
			}
			if got := p.listing(); got.Count != 1 || got.Totals["EUR"] != 1250 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestBehavioursQueue(t *testing.T) {
	p := serve(t)
	p.behave(`{"next":["500","refuse"]}`)
	p.behave(`{"next":["drop"]}`)
	for i, want := range []int{500, 402, 0, 200} {
		if got := p.charge("k"); got != want {
			t.Errorf("charge %d: got %d, want %d", i, got, want)
		}
	}
}

func TestUnknownBehavioursAreRefused(t *testing.T) {
	p := serve(t)
	for _, text := range []string{
		``, `{`, `{"next":["explode"]}`, `{"next":["drop","late"]}`, `{"next":["late:soon"]}`, `{"next":["late:-1s"]}`,
		`{"next":["drop:1s"]}`, `{"keys":"maybe"}`, `{"nxt":["drop"]}`, `{"next":["drop"]} {}`,
	} {
		if got, _, _ := p.send(t.Context(), http.MethodPost, "/behave", "", text); got != http.StatusBadRequest {
			t.Errorf("%s: got %d", text, got)
		}
	}
	if got := p.charge("k"); got != http.StatusCreated {
		t.Errorf("charge: got %d, so something was queued", got)
	}
}

func TestLateAnswerIsChargedAtOnce(t *testing.T) {
	p := serve(t)
	p.behave(`{"next":["late:1h"]}`)
	ctx, giveUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if status, _, _ := p.send(ctx, http.MethodPost, "/charges", "k", body); status != 0 {
			t.Errorf("got %d", status)
		}
	})
	p.await("k")
	giveUp()
	wg.Wait()
}

func TestLateReceiptReachesTheLedger(t *testing.T) {
	p := serve(t)
	p.behave(`{"next":["receive-late:20ms"]}`)
	if got := p.charge("k"); got != 0 {
		t.Errorf("got %d", got)
	}
	p.await("k")
	if got := p.charge("k"); got != http.StatusOK {
		t.Errorf("charge afterwards: got %d", got)
	}
}

func TestLateReceiptUnderAClosedKeyIsRefused(t *testing.T) {
	p := serve(t)
	p.behave(`{"next":["receive-late:20ms","receive-late:20ms"]}`)
	p.charge("closed")
	if status, _, text := p.send(t.Context(), http.MethodPost, "/keys/closed/close", "", ""); status != 200 || text != `{"closed":true}` {
		t.Errorf("close: got %d %s", status, text)
	}
	p.charge("open")
	p.await("open") // sent later, so the first one is decided too
	p.Close()
	if got := p.listing(); got.Count != 1 || len(got.Closed) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := p.charge("closed"); got != http.StatusConflict {
		t.Errorf("charge: got %d", got)
	}
}

// await waits for a charge under the key.
func (p *provider) await(key string) {
	p.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if status, _, _ := p.send(p.t.Context(), http.MethodGet, "/charges?key="+key, "", ""); status == http.StatusOK {
			return
		}
	}
	p.t.Fatalf("no charge under %s", key)
}

func TestReplayIsTheFirstAnswer(t *testing.T) {
	p := serve(t)
	_, _, first := p.send(t.Context(), http.MethodPost, "/charges", "k", body)
	const spaced = ` { "order":"o1", "merchant":"m1","currency":"EUR","amount":1250}`
	status, header, second := p.send(t.Context(), http.MethodPost, "/charges", "k", spaced)
	if status != http.StatusOK || header.Get("Idempotent-Replayed") != "true" || second != first {
		t.Errorf("got %d %s, want %s", status, second, first)
	}
	status, _, _ = p.send(t.Context(), http.MethodPost, "/charges", "k", strings.Replace(body, "1250", "1251", 1))
	if status != http.StatusUnprocessableEntity {
		t.Errorf("other order: got %d", status)
	}
	if status, _, found := p.send(t.Context(), http.MethodGet, "/charges?key=k", "", ""); status != http.StatusOK || found != first {
		t.Errorf("find: got %d %s", status, found)
	}
	if status, _, closed := p.send(t.Context(), http.MethodPost, "/keys/k/close", "", ""); status != http.StatusOK || closed != first {
		t.Errorf("close: got %d %s", status, closed)
	}
	if status, _, _ := p.send(t.Context(), http.MethodGet, "/charges?key=other", "", ""); status != http.StatusNotFound {
		t.Errorf("find another: got %d", status)
	}
}

func TestADeclineIsNeverSaidOfAChargedKey(t *testing.T) {
	p := serve(t)
	p.charge("k")
	p.behave(`{"next":["refuse"]}`)
	if got := p.charge("k"); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}

func TestKeysOffChargesTwice(t *testing.T) {
	p := serve(t)
	p.behave(`{"keys":"off"}`)
	for range 2 {
		if got := p.charge("k"); got != http.StatusCreated {
			t.Errorf("got %d", got)
		}
	}
	if got := p.listing(); got.Count != 2 || got.Totals["EUR"] != 2500 {
		t.Errorf("got %+v", got)
	}
	_, _, text := p.send(t.Context(), http.MethodGet, "/charges?key=k", "", "")
	if !strings.Contains(text, `"id":"ch_000001"`) {
		t.Errorf("find: got %s", text)
	}
	p.behave(`{"keys":"on"}`)
	if got := p.charge("k"); got != http.StatusOK {
		t.Errorf("keys on again: got %d", got)
	}
}

func TestInvalidOrdersAreRefused(t *testing.T) {
	p := serve(t)
	for _, text := range []string{
		``, `[]`, `{}`, strings.Replace(body, "1250", "0", 1), strings.Replace(body, "EUR", "", 1),
		strings.Replace(body, "m1", "", 1), strings.Replace(body, `{`, `{"x":1,`, 1), strings.Repeat(" ", 64<<10) + body,
	} {
		if got, _, _ := p.send(t.Context(), http.MethodPost, "/charges", "k", text); got != http.StatusBadRequest {
			t.Errorf("%.80s: got %d", text, got)
		}
	}
	if got := p.charge(strings.Repeat("k", 256)); got != http.StatusBadRequest {
		t.Errorf("long key: got %d", got)
	}
	if got, _, _ := p.send(t.Context(), http.MethodGet, "/healthz", "", ""); got != http.StatusOK {
		t.Errorf("healthz: got %d", got)
	}
	if got := p.listing().Count; got != 0 {
		t.Errorf("got %d charges", got)
	}
}
