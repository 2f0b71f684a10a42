package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

func TestStoreThatFailsBeforeTheEffect(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
		a := mustProblem(t, send, payment("k"), 503, "store-unavailable")
		if a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, `"retryable":true`) || strings.Contains(a.body, "down") {
			t.Errorf("%+v", a)
		}
		store.Fail(func(string, idem.ID) (bool, error) { return false, final{} })
		a = mustProblem(t, send, payment("k"), 503, "store-unavailable")
		if a.header.Get("Retry-After") != "" || !strings.Contains(a.body, `"retryable":false`) {
			t.Errorf("%+v", a)
		}
		if runs != 0 {
			t.Errorf("%d runs", runs)
		}
	})
}

type final struct{}

func (final) Error() string   { return "not adopted" }
func (final) Retryable() bool { return false }

func TestStoreThatFailsAfterTheEffect(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		for _, applied := range []bool{true, false} {
			store, runs := idemtest.NewMemory(t), 0
			send := f.open(t, store, &settings{}, paid(&runs))
			store.Fail(func(call string, _ idem.ID) (bool, error) {
				if call == "Swap" || call == "Load" {
					return applied, idem.ErrAmbiguous
				}
				return false, nil
			})
			a := mustProblem(t, send, payment("k"), 500, "not-recorded")
			if a.header.Get("Retry-After") != "1" {
				t.Errorf("%+v", a)
			}
			store.Fail(nil)
			if applied {
				must(t, send, payment("k"), 201)
			} else {
				mustProblem(t, send, payment("k"), 409, "in-progress")
				store.Advance(time.Minute)
				mustProblem(t, send, payment("k"), 409, "indeterminate")
			}
			if runs != 1 {
				t.Errorf("%d runs", runs)
			}
		}
	})
}

func TestResponseThatWasNotKeptIsNotRunAgain(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{operation: idem.Options{MaxResult: 1}}, paid(&runs))
		must(t, send, payment("k"), 201)
		mustProblem(t, send, payment("k"), 409, "result-unreadable")
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

// A handler that leaves without a word when its context ends has not answered 200.
func TestHandlerThatGivesUpHasNotSucceeded(t *testing.T) {
	store := idemtest.NewMemory(t)
	ctx, leave := context.WithCancel(invoked(t))
	h := lambdawrap.HTTP(operation[lambdawrap.Response](t, store, nil), acme, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leave() // the client
		<-r.Context().Done()
	}), nil)
	r := httptest.NewRequestWithContext(ctx, "POST", "/pay", nil)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "no-response") || store.Records()[0].State != idem.Indeterminate {
		t.Errorf("%d %s, record is %v", w.Code, w.Body, store.Records()[0].State)
	}
}

func TestReconcilersAnswerIsAReplay(t *testing.T) {
	store := idemtest.NewMemory(t)
	var asked string
	known := false
	o := &idem.Options{Recover: idem.Reconcile(time.Minute, func(_ context.Context, d idem.Doubt) (lambdawrap.Response, error) {
		asked = string(d.Request.Payload.(json.RawMessage))
		if !known {
			return lambdawrap.Response{}, errors.New("who knows")
		}
		return lambdawrap.Response{Status: 201, Body: []byte("found")}, nil
	})}
	h := lambdawrap.HTTP(operation[lambdawrap.Response](t, store, o), acme, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(502)
	}), nil)
	post := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(invoked(t), "POST", "/pay?a=b", strings.NewReader(`{"amount":5}`))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	post()
	if w := post(); w.Code != 409 || !strings.Contains(w.Body.String(), `"retryable":true`) || w.Header().Get("Retry-After") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if asked != `{"method":"POST","route":"","path":"/pay","query":"a=b","body":{"amount":5}}` {
		t.Errorf("asked about %s", asked)
	}
	known = true
	store.Advance(time.Hour)
	if w := post(); w.Code != 201 || w.Body.String() != "found" || w.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestLargeBodiesAreRefused(t *testing.T) {
	store := idemtest.NewMemory(t)
	h := lambdawrap.HTTP(operation[lambdawrap.Response](t, store, nil), acme, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}), nil)
	post := func(body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(invoked(t), "POST", "/", body)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := post(strings.NewReader(strings.Repeat("x", 6<<20+1))); w.Code != 413 || !strings.Contains(w.Body.String(), "body-too-large") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(iotest.ErrReader(errors.New("gone"))); w.Code != 400 || !strings.Contains(w.Body.String(), "body-invalid") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(store.Records()) != 0 {
		t.Error("a record was made")
	}
	if w := post(strings.NewReader(strings.Repeat("x", 6<<20))); w.Code != 200 || w.Body.String() != fmt.Sprint(6<<20) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A key that tells when it was made is refused when its outcome may have been forgotten.
func TestKeyThatIsTooOldIsRefused(t *testing.T) {
	store := idemtest.NewMemory(t)
	issued := store.Now().Add(-25 * time.Hour)
	h := lambdawrap.HTTP(operation[lambdawrap.Response](t, store, nil), acme, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		&lambdawrap.HTTPOptions[*http.Request]{Issued: func(key string) time.Time {
			if key != "k" {
				t.Errorf("asked about %q", key)
			}
			return issued
		}})
	for _, want := range []int{400, 200} {
		r := httptest.NewRequestWithContext(invoked(t), "POST", "/", nil)
		r.Header.Set("Idempotency-Key", `"k"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || want == 400 && !strings.Contains(w.Body.String(), "key-expired") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		issued = store.Now()
	}
}

// A form's files are gone after the handler, also those that were too large for memory.
func TestFilesOfFormsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := lambdawrap.HTTP(operation[lambdawrap.Response](t, idemtest.NewMemory(t), nil), acme, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(os.TempDir()); len(files) != 1 {
			t.Errorf("%d files: this tests nothing", len(files))
		}
	}), nil)
	contentType, body := upload(strings.Repeat("milk", 5<<18))
	r := httptest.NewRequestWithContext(invoked(t), "POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if files, _ := os.ReadDir(os.TempDir()); w.Code != 200 || len(files) != 0 {
		t.Errorf("%d, %d files", w.Code, len(files))
	}
}
