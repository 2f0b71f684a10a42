package endtoend

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/examples/payment/provider/ledger"
	"github.com/idem-go/idem/examples/payment/psp"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
	"github.com/idem-go/idem/kmsenc"
)

// payment is built once for all tests.
var payment = sync.OnceValues(func() (*lab.Function, error) {
	dir, err := filepath.Abs(filepath.Join("..", "..", ".local", "endtoend"))
	if err != nil {
		return nil, err
	}
	return lab.Build(context.Background(), "github.com/idem-go/idem/examples/payment", dir)
})

// shop is one merchant's world: two environments of the payment function, a provider that does not honour idempotency keys,
// and proxies between them.
type shop struct {
	t        *testing.T
	store    *dynamo.Store
	sealer   *kmsenc.Sealer
	engine   *lab.Proxy
	provider *lab.Proxy
	ledger   *ledger.Ledger
	bank     *ledger.Server
	env      [2]*lab.Environment
}

const timeout = 2 * time.Second // of the function; its lease ends 5 s later

func newShop(t *testing.T, e engine.Engine) *shop {
	t.Helper()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &shop{t: t}
	table := e.Table(t)
	var err error
	s.store, err = dynamo.New(engine.Client(e.URL), table, nil)
	fatal(err)
	s.ledger, err = ledger.Open(filepath.Join(t.TempDir(), "ledger"))
	fatal(err)
	t.Cleanup(func() { s.ledger.Close() })
	s.bank = ledger.NewServer(s.ledger)
	s.bank.HonourKeys(false)
	server := httptest.NewServer(s.bank)
	t.Cleanup(func() { s.bank.Close(); server.Close() })
	s.engine, err = lab.NewProxy(e.URL)
	fatal(err)
	t.Cleanup(s.engine.Close)
	s.provider, err = lab.NewProxy(server.URL)
	fatal(err)
	t.Cleanup(s.provider.Close)
	function, err := payment()
	fatal(err)
	kmsURL, key := engine.Key(t)
	s.sealer, err = kmsenc.New(engine.KMS(kmsURL), key, nil)
	fatal(err)
	for k := range s.env {
		s.env[k], err = function.Start(t.Context(), &lab.Options{Timeout: timeout, Env: map[string]string{
			"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
			"AWS_ENDPOINT_URL_DYNAMODB": s.engine.URL(), "IDEM_TABLE": table, "PROVIDER_URL": s.provider.URL(),
			"AWS_ENDPOINT_URL_KMS": kmsURL, "IDEM_KMS_KEY": key,
		}})
		fatal(err)
		t.Cleanup(s.env[k].Close)
	}
	return s
}

var order = psp.Order{Merchant: "acme", ID: "order-1", Amount: 100, Currency: "EUR"}

// deliver invokes the function. The fault is empty if it answered.
func (s *shop) deliver(env int) (body, fault string) {
	s.t.Helper()
	event, err := json.Marshal(order)
	if err != nil {
		s.t.Fatal(err)
	}
	b, _, fault, err := s.env[env].Invoke(s.t.Context(), event, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b), fault
}

func (s *shop) record() idem.Record {
	s.t.Helper()
	r, err := s.store.Load(s.t.Context(), idem.ID{Tenant: order.Merchant, Operation: "charge", Key: sha256.Sum256([]byte(order.ID))})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// lapse waits until the lease is over by the engine's clock, which is told in whole seconds.
func (s *shop) lapse() {
	s.t.Helper()
	for r := s.record(); r.State == idem.Pending && !r.At.After(r.Lease); r = s.record() {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-s.t.Context().Done():
			s.t.Fatal("the lease does not end")
		}
	}
}

func (s *shop) wantCharges(want int) {
	s.t.Helper()
	if got := len(s.ledger.All()); got != want {
		s.t.Errorf("the ledger has %d charges, want %d", got, want)
	}
}

// operatorSays is the verdict of somebody who has looked at the provider's books.
func (s *shop) operatorSays(v idem.Verdict) {
	s.t.Helper()
	v.By, v.Why = "test", "the provider's ledger"
	if _, err := idem.Resolve(s.t.Context(), s.store, s.sealer, s.record(), v); err != nil {
		s.t.Fatal(err)
	}
}

// Killed with SIGKILL at every window, from outside. Whatever happened, it is redelivered until it is done.
func TestKilledAtEveryWindow(t *testing.T) { engine.Each(t, killedAtEveryWindow) }

func killedAtEveryWindow(t *testing.T, e engine.Engine) {
	update := func(n int) lab.Match { return lab.Match{Target: "UpdateItem", N: n} }
	post := lab.Match{Method: "POST", Path: "/charges", N: 1}
	for _, w := range []struct {
		name    string
		arm     func(*shop, lab.Action) *lab.Rule
		charged bool       // by the time of the kill
		state   idem.State // of the record then
	}{
		{"claim sent", func(s *shop, kill lab.Action) *lab.Rule { return s.engine.Before(update(1), kill) }, false, 0},
		{"claim applied", func(s *shop, kill lab.Action) *lab.Rule { return s.engine.After(update(1), kill) }, false, idem.Pending},
		{"charge sent", func(s *shop, kill lab.Action) *lab.Rule { return s.provider.Before(post, kill) }, false, idem.Pending},
		{"charged", func(s *shop, kill lab.Action) *lab.Rule { return s.provider.After(post, kill) }, true, idem.Pending},
		{"outcome sent", func(s *shop, kill lab.Action) *lab.Rule { return s.engine.Before(update(2), kill) }, true, idem.Pending},
		{"outcome applied", func(s *shop, kill lab.Action) *lab.Rule { return s.engine.After(update(2), kill) }, true, idem.Completed},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, e)
			rule := w.arm(s, lab.Kill(s.env[0].Kill))
			if _, fault := s.deliver(0); fault != "Runtime.ExitError" {
				t.Fatalf("fault %q, want a dead process", fault)
			}
			if err := rule.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			rule.Remove()
			if got := s.record().State; got != w.state {
				t.Errorf("the record is %v, want %v", got, w.state)
			}
			if w.state == idem.Pending {
				if _, fault := s.deliver(1); fault != "InProgressError" {
					t.Errorf("redelivered at once: %q", fault)
				}
				s.lapse()
			}
			body, fault := s.deliver(1)
			if w.state == idem.Pending && !w.charged { // nothing is found, and that is not "never" before settle
				if fault != "IndeterminateError" {
					t.Errorf("redelivered: %q %s", fault, body)
				}
				s.wantCharges(0)
				s.operatorSays(idem.Verdict{State: idem.Released, Never: true})
				body, fault = s.deliver(0)
			}
			if fault != "" {
				t.Errorf("redelivered: %q %s", fault, body)
			}
			again, _ := s.deliver(0)
			if again != body {
				t.Errorf("answers %s, then %s", body, again)
			}
			s.wantCharges(1)
		})
	}
}

// The function hangs after its charge and is killed at its timeout, as Lambda does it.
func TestTimedOutAfterTheCharge(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		t.Parallel()
		s := newShop(t, e)
		hang := s.provider.After(lab.Match{Method: "POST", Path: "/charges", N: 1}, lab.Do(s.env[0].Stop))
		if _, fault := s.deliver(0); fault != "Sandbox.Timedout" {
			t.Fatalf("fault %q", fault)
		}
		hang.Remove()
		s.lapse()
		if body, fault := s.deliver(1); fault != "" {
			t.Errorf("redelivered: %q %s", fault, body)
		}
		s.wantCharges(1)
	})
}

// A paused owner goes on after its lease, and its charge arrives while the key is in doubt: nobody else has charged.
func TestPausedOwnerGoesOnAfterItsLease(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		t.Parallel()
		s := newShop(t, e)
		held := lab.NewGate()
		s.provider.Before(lab.Match{Method: "POST", Path: "/charges", N: 1}, lab.Do(s.env[0].StopEmulator), lab.Do(s.env[0].Stop), lab.Hold(held))
		done := make(chan error, 1)
		go func() {
			event, _ := json.Marshal(order)
			_, _, _, err := s.env[0].Invoke(t.Context(), event, "")
			done <- err
		}()
		<-held.Held()
		s.lapse()
		if _, fault := s.deliver(1); fault != "IndeterminateError" {
			t.Errorf("while it is paused: %q", fault)
		}
		s.wantCharges(0)
		if err := s.env[0].Cont(); err != nil {
			t.Fatal(err)
		}
		held.Open()
		for len(s.ledger.All()) == 0 {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("the charge does not arrive")
			}
		}
		if err := s.env[0].ContEmulator(); err != nil {
			t.Fatal(err)
		}
		<-done
		if s.record().State == idem.Indeterminate { // it ran into its deadline, so its own answer was of no use to it
			charge, _ := json.Marshal(s.ledger.All()[0])
			s.operatorSays(idem.Verdict{State: idem.Completed, Result: charge})
		}
		if body, fault := s.deliver(1); fault != "" {
			t.Errorf("redelivered: %q %s", fault, body)
		}
		s.wantCharges(1)
	})
}

// What Step Functions' Retry and Catch match: the names that the runtime reports, on the first answer and on every replay.
func TestErrorTypesOnTheRuntime(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		t.Parallel()
		s := newShop(t, e)
		behave := httptest.NewRequest("POST", "/behave", strings.NewReader(`{"next":["refuse"]}`))
		answer := httptest.NewRecorder()
		s.bank.ServeHTTP(answer, behave)
		if answer.Code >= 300 {
			t.Fatal(answer.Body)
		}
		invoke := func(event string) (string, string) {
			t.Helper()
			body, _, fault, err := s.env[0].Invoke(t.Context(), []byte(event), "")
			if err != nil {
				t.Fatal(err)
			}
			var e struct{ ErrorMessage string }
			json.Unmarshal(body, &e)
			return fault, e.ErrorMessage
		}
		event := `{"merchant":"acme","order":"order-1","amount":100,"currency":"EUR"}`
		first, message := invoke(event)
		for range 2 {
			if again, repeated := invoke(event); first != "DeclinedError" || again != first || repeated != message {
				t.Errorf("first %s %q, then %s %q", first, message, again, repeated)
			}
		}
		for event, want := range map[string]string{
			`{"merchant":"acme","order":"order-1","amount":7,"currency":"EUR"}`:             "MismatchError",
			`{"merchant":"","order":"order-1","amount":100,"currency":"EUR"}`:               "RequestError",
			`{"merchant":"acme","order":"o","order":"o","amount":100,"currency":"EUR"}`:     "RequestError",
			`{"merchant":"acme","order":"order-1","amount":100,"currency":"EUR"} {"more":1`: "RequestError",
		} {
			if got, _ := invoke(event); got != want {
				t.Errorf("%s: %s, want %s", event, got, want)
			}
		}
		s.wantCharges(0)
	})
}
