package lambdawrap_test

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

func rand() string { return cryptorand.Text() }

// onFronts runs a test on each HTTP adapter.
func onFronts(t *testing.T, test func(*testing.T, front)) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// paid answers differently on every run.
func paid(runs *int) func(context.Context, sent) (answered, error) {
	return func(context.Context, sent) (answered, error) {
		*runs++
		return answered{status: 201, header: http.Header{"Location": {"/p/1"}, "Content-Type": {"text/plain"}}, body: rand()}, nil
	}
}

// must sends a request that is answered, and looks at the status.
func must(t *testing.T, send func(context.Context, sent) (answered, error), s sent, status int) answered {
	t.Helper()
	a, err := send(invoked(t), s)
	if err != nil {
		t.Fatalf("%T: %v", err, err)
	}
	if a.status != status {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// mustProblem sends a request that is refused.
func mustProblem(t *testing.T, send func(context.Context, sent) (answered, error), s sent, status int, suffix string) answered {
	t.Helper()
	a := must(t, send, s, status)
	var p struct {
		Type, Title, Record string
		Status              int
		Retryable           bool
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if !strings.HasSuffix(p.Type, "#"+suffix) || p.Title == "" || p.Status != status {
		t.Errorf("want a problem %s: %s", suffix, a.body)
	}
	if a.header.Get("Idempotent-Replayed") != "" {
		t.Error("a refusal is no replay")
	}
	return a
}

func TestRequestRunsOnceAndItsResponseIsReplayed(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{}, paid(&runs))
		first := must(t, send, payment("k"), 201)
		if first.header.Get("Idempotent-Replayed") != "" {
			t.Error("the first answer says that it is a replay")
		}
		for _, key := range []string{"k", `"k"`, ` "k"`} {
			again := must(t, send, payment(key), 201)
			if again.body != first.body || again.header.Get("Location") != "/p/1" || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("key %s: %+v, want %+v", key, again, first)
			}
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
		must(t, send, payment("another"), 201)
		must(t, send, payment("k", func(s *sent) { s.tenant = "globex" }), 201)
		if runs != 3 {
			t.Errorf("%d runs, want one for each tenant and key", runs)
		}
	})
}

func TestAnotherRequestUnderTheKeyIsRefused(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{}, paid(&runs))
		must(t, send, payment("k", func(s *sent) { s.query = "a=1&b=2" }), 201)
		for name, change := range map[string]func(*sent){
			"method": func(s *sent) { s.method = "PUT" },
			"path":   func(s *sent) { s.path = "/refund" },
			"query":  func(s *sent) { s.query = "a=1&b=3" },
			"body":   func(s *sent) { s.body = `{"amount":6}` },
			"digits": func(s *sent) { s.body = `{"amount":5.0}` },
			"text":   func(s *sent) { s.header.Set("Content-Type", "text/plain") },
		} {
			a := mustProblem(t, send, payment("k", func(s *sent) { s.query = "a=1&b=2" }, change), 422, "fingerprint-mismatch")
			if strings.Contains(a.body, `"retryable":true`) {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		// What is no part of the request: JSON's white space and member order, and other headers.
		must(t, send, payment("k", func(s *sent) {
			s.query = "a=1&b=2"
			s.body = ` { "amount" : 5 } `
			s.header["User-Agent"] = []string{"another"}
		}), 201)
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

func TestRequestInProgressIsRefused(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		running, end := make(chan bool), make(chan bool)
		send := f.open(t, idemtest.NewMemory(t), &settings{}, func(context.Context, sent) (answered, error) {
			running <- true
			<-end
			return answered{status: 200}, nil
		})
		first := make(chan answered)
		ctx := invoked(t)
		go func() { a, _ := send(ctx, payment("k")); first <- a }()
		<-running
		a := mustProblem(t, send, payment("k"), 409, "in-progress")
		if a.header.Get("Retry-After") != "30" || !strings.Contains(a.body, `"retryable":true`) || !strings.Contains(a.body, `"record":"pay/`) {
			t.Errorf("%+v", a)
		}
		mustProblem(t, send, payment("k", func(s *sent) { s.body = "{}" }), 422, "fingerprint-mismatch")
		end <- true
		if got := <-first; got.status != 200 {
			t.Errorf("first: %+v", got)
		}
		must(t, send, payment("k"), 200)
	})
}

func TestUnclearResponseIsGivenOnceAndHoldsTheKey(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		for _, status := range []int{500, 503, 599} {
			store := idemtest.NewMemory(t)
			send := f.open(t, store, &settings{}, func(context.Context, sent) (answered, error) {
				return answered{status: status, body: "who knows"}, nil
			})
			if a := must(t, send, payment("k"), status); a.body != "who knows" {
				t.Errorf("%+v", a)
			}
			if s := store.Records()[0].State; s != idem.Indeterminate {
				t.Errorf("record is %v", s)
			}
			a := mustProblem(t, send, payment("k"), 409, "indeterminate")
			if a.header.Get("Retry-After") != "" || strings.Contains(a.body, `"retryable":true`) {
				t.Errorf("%+v", a)
			}
		}
	})
}

// Where the operation marks its begin, a 500 that comes before it is known to have done nothing.
func TestUnclearResponseBeforeBeginReleases(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store := idemtest.NewMemory(t)
		send := f.open(t, store, &settings{operation: idem.Options{Begin: idem.InMemory}}, func(ctx context.Context, s sent) (answered, error) {
			return answered{status: 500}, nil
		})
		must(t, send, payment("k"), 500)
		must(t, send, payment("k"), 500)
		if s := store.Records()[0].State; s != idem.Released {
			t.Errorf("record is %v", s)
		}
	})
}

func TestForgottenResponseLetsTheNextRequestRun(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store := idemtest.NewMemory(t)
		o := &settings{record: func(status int) lambdawrap.Disposition {
			if status == 429 {
				return lambdawrap.Forget
			}
			return lambdawrap.Keep
		}}
		status := 429
		send := f.open(t, store, o, func(context.Context, sent) (answered, error) {
			return answered{status: status, header: http.Header{"Retry-After": {"7"}}, body: "busy"}, nil
		})
		if a := must(t, send, payment("k"), 429); a.body != "busy" || a.header.Get("Retry-After") != "7" {
			t.Errorf("%+v", a)
		}
		if s := store.Records()[0].State; s != idem.Released {
			t.Errorf("record is %v", s)
		}
		status = 200
		if a := must(t, send, payment("k"), 200); a.header.Get("Idempotent-Replayed") != "" {
			t.Error("it ran")
		}
		status = 500
		must(t, send, payment("k"), 200)
	})
}

func TestResponseWithoutStatusIsUnclear(t *testing.T) {
	for _, f := range fronts[:5] { // net/http gives one
		store := idemtest.NewMemory(t)
		send := f.open(t, store, &settings{}, func(context.Context, sent) (answered, error) { return answered{}, nil })
		must(t, send, payment("k"), 0)
		if s := store.Records()[0].State; s != idem.Indeterminate {
			t.Errorf("%s: record is %v", f.name, s)
		}
	}
}

func TestHandlersErrorIsReturnedAndHoldsTheKey(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		fail := errors.New("who knows")
		send := f.open(t, idemtest.NewMemory(t), &settings{}, func(context.Context, sent) (answered, error) { return answered{}, fail })
		if _, err := send(invoked(t), payment("k")); err != fail {
			t.Errorf("got %v, want the handler's own error", err)
		}
		mustProblem(t, send, payment("k"), 409, "indeterminate")
	})
}

// A handler that guards something inside gets refusals, too. They are its errors, not the adapter's.
func TestRefusalOfAnotherOperationInsideIsTheHandlersError(t *testing.T) {
	for _, f := range fronts[:5] {
		inner := &idem.InProgressError{ID: "inner/0"}
		send := f.open(t, idemtest.NewMemory(t), &settings{}, func(context.Context, sent) (answered, error) { return answered{}, inner })
		if a, err := send(invoked(t), payment("k")); err != inner {
			t.Errorf("%s: %+v, %v", f.name, a, err)
		}
	}
}

func TestKeyIsRequiredAndOne(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		mustProblem(t, send, payment(""), 400, "key-missing")
		for _, key := range []string{`""`, `"a`, `a"`, `"a"b`, `"a";p=1`, `a;p=1`, `"a\b"`, `a,b`, `"a", "b"`, "a\x7f", "schlüssel", `"` + strings.Repeat("k", 256) + `"`} {
			a := mustProblem(t, send, payment(key), 400, "key-invalid")
			if a.header.Get("Link") == "" {
				t.Error("no link")
			}
			if len(key) > 4 && strings.Contains(a.body, key) {
				t.Errorf("tells the key: %s", a.body)
			}
		}
		if len(store.Records()) != 0 || runs != 0 {
			t.Error("something was written or run")
		}
		must(t, send, payment(`"a, \"b\\ ;c"`), 201)
		must(t, send, payment(strings.Repeat("k", 255)), 201)
	})
}

func TestKeyHeaderHasAnotherName(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{header: "X-Idempotency-Key"}, paid(&runs))
		mustProblem(t, send, payment("k"), 400, "key-missing")
		for range 2 {
			must(t, send, payment("", func(s *sent) { s.header["X-Idempotency-Key"] = []string{"k"} }), 201)
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

func TestTenantMustBeKnown(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		mustProblem(t, send, payment("k", func(s *sent) { s.tenant = "" }), 403, "caller-unknown")
		if len(store.Records()) != 0 || runs != 0 {
			t.Error("something was written or run")
		}
	})
}

func TestBodyThatIsNotTheJSONItSaysIsRefused(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store, runs := idemtest.NewMemory(t), 0
		send := f.open(t, store, &settings{}, paid(&runs))
		for _, body := range []string{`{`, `{"a":1,"a":2}`, `1,"method":"GET"`, `1,"x":2`, `1 2`, "{\"a\":\"\xff\"}"} {
			if !strings.Contains(body, "\xff") || f.name == "http.Handler" { // an event has no such bytes
				mustProblem(t, send, payment("k", func(s *sent) { s.body = body }), 400, "body-invalid")
			}
		}
		if len(store.Records()) != 0 || runs != 0 {
			t.Error("something was written or run")
		}
		must(t, send, payment("k", func(s *sent) { s.body = "" }), 201)
		must(t, send, payment("l", func(s *sent) { s.body = "{"; s.header.Set("Content-Type", "text/plain") }), 201)
		mustProblem(t, send, payment("m", func(s *sent) { s.body = "{"; s.header.Set("Content-Type", "application/vnd.x+json; charset=utf-8") }), 400, "body-invalid")
	})
}

func TestProblemsMayBeChanged(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		o := &settings{problem: func(err error, p *lambdawrap.Problem) {
			if _, ok := err.(*idem.MismatchError); ok {
				p.Status, p.Body = 400, []byte("no")
				p.Header = map[string]string{"content-type": "text/plain", "Access-Control-Allow-Origin": "*"}
			}
		}}
		send := f.open(t, idemtest.NewMemory(t), o, paid(&runs))
		must(t, send, payment("k"), 201)
		a := must(t, send, payment("k", func(s *sent) { s.body = "{}" }), 400)
		if a.body != "no" || a.header.Get("Content-Type") != "text/plain" || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%+v", a)
		}
		mustProblem(t, send, payment(""), 400, "key-missing")
	})
}

func TestMissingDeadlineIsTheServersFault(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		runs := 0
		send := f.open(t, idemtest.NewMemory(t), &settings{}, paid(&runs))
		a, err := send(t.Context(), payment("k"))
		if err != nil || a.status != 500 || !strings.Contains(a.body, "misconfigured") {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestOperatorsFailureIsAnswered(t *testing.T) {
	onFronts(t, func(t *testing.T, f front) {
		store := idemtest.NewMemory(t)
		send := f.open(t, store, &settings{}, func(context.Context, sent) (answered, error) { return answered{status: 500}, nil })
		must(t, send, payment("k"), 500)
		seen := slices.Collect(func(yield func(idem.Record) bool) {
			for r := range store.List(t.Context(), "pay") {
				yield(r)
			}
		})[0]
		if _, err := idem.Resolve(t.Context(), store, idem.InsecureCleartext(), seen, idem.Verdict{State: idem.Failed, Never: true, Type: "CardDeclined", Message: "card declined", By: "op", Why: "provider says so"}); err != nil {
			t.Fatal(err)
		}
		if f.name == "http.Handler" {
			mustProblem(t, send, payment("k"), 409, "failed")
			return
		}
		_, err := send(invoked(t), payment("k"))
		if err == nil {
			t.Fatal("answered")
		}
		if name, message := reported(err); name != "CardDeclined" || message != "card declined" {
			t.Errorf("%s: %s", name, message)
		}
	})
}
