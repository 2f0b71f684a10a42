package idem_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// charge is the effect of these tests.
type charge struct {
	ID     string
	Amount int
}

// fakeSealer seals with a key of its own, bound as it must be; it can be down.
type fakeSealer struct {
	aead cipher.AEAD

	mu       sync.Mutex
	prepares int
	down     error
	shut     error // for Open
}

// newSealer's key is the same in all sealers, as a key service's is.
func newSealer(t testing.TB) *fakeSealer {
	t.Helper()
	block, err := aes.NewCipher(make([]byte, 32))
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &fakeSealer{aead: aead}
		}
	}
	t.Fatal(err)
	return nil
}

func (s *fakeSealer) set(down, shut error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.shut = down, shut
}

func additional(scope map[string]string, binding []byte) []byte {
	return []byte(scope["operation"] + "\x00" + scope["tenant"] + "\x00" + string(binding))
}

func (s *fakeSealer) Prepare(_ context.Context, scope map[string]string) (func(dst, binding, text []byte) ([]byte, error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepares++
	return func(dst, binding, text []byte) ([]byte, error) {
		return s.aead.Seal(dst, nil, text, additional(scope, binding)), nil
	}, s.down
}

func (s *fakeSealer) Open(_ context.Context, scope map[string]string, dst, binding, sealed []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut != nil {
		return nil, s.shut
	}
	return s.aead.Open(dst, nil, sealed, additional(scope, binding))
}

// retryError is a back end's error that says whether a retry helps.
type retryError bool

func (retryError) Error() string     { return "key service is not itself" }
func (r retryError) Retryable() bool { return bool(r) }

// world is a store, a sealer, and the effect that everything is about.
type world struct {
	t      *testing.T
	store  *idemtest.Memory
	sealer *fakeSealer

	mu      sync.Mutex
	effects int
	events  []idem.Event
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: idemtest.NewMemory(t), sealer: newSealer(t)}
}

// op makes the operation "charge" over the world.
func (w *world) op(o idem.Options) *idem.Operation[charge] {
	w.t.Helper()
	o.Observe = func(_ context.Context, e idem.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}
	op, err := idem.New[charge](w.store, w.sealer, "charge", &o)
	if err != nil {
		w.t.Fatal(err)
	}
	return op
}

// request is the same intent in all tests that need just one.
func request() idem.Request {
	return idem.Request{Tenant: "acme", Key: "order-1", Payload: charge{Amount: 100}}
}

// invoked is a context as the Lambda runtime gives it: with the function's deadline.
func invoked(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// charges is a handler that has its effect.
func (w *world) charges(context.Context) (charge, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects++
	return charge{ID: "ch_1", Amount: 100}, nil
}

// mustNotRun is a handler for requests that must not reach one.
func (w *world) mustNotRun(context.Context) (charge, error) {
	w.t.Error("the function ran")
	return charge{}, nil
}

// count is how often the effect happened.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects
}

// kinds of the events since the last call.
func (w *world) kinds() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var k []string
	for _, e := range w.events {
		k = append(k, e.Kind)
	}
	w.events = nil
	return strings.Join(k, " ")
}

// record is the only one there is.
func (w *world) record() idem.Record {
	w.t.Helper()
	all := w.store.Records()
	if len(all) != 1 {
		w.t.Fatalf("got %d records, want 1", len(all))
	}
	return all[0]
}

func (w *world) wantState(want idem.State) {
	w.t.Helper()
	if got := w.record().State; got != want {
		w.t.Errorf("record is %v, want %v", got, want)
	}
}

// crashed runs the function once as a process that dies when it would record the outcome: nothing of that reaches the store.
func (w *world) crashed(op *idem.Operation[charge], r idem.Request, fn func(context.Context) (charge, error)) {
	w.t.Helper()
	ran := false
	w.store.Fail(func(call string, _ idem.ID) (bool, error) {
		if ran && call == "Swap" {
			return false, errors.New("the process is dead")
		}
		return true, nil
	})
	op.Do(invoked(w.t), r, func(ctx context.Context) (charge, error) {
		v, err := fn(ctx)
		ran = true
		return v, err
	})
	w.store.Fail(nil)
	if !ran {
		w.t.Fatal("the function did not run")
	}
	w.kinds()
}

// lapse lets the lease end.
func (w *world) lapse() { w.store.Advance(time.Minute) }

// as asserts an error's type.
func as[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("got error %T (%v), want %T", err, err, e)
	}
	return e
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}
