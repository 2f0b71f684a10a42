// Package endtoend tests the whole on engines that run, and the payment example on the Lambda runtime emulator.
package endtoend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

func invoked(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// operation is over a store of its own, as another process has it.
func operation(t testing.TB, url, table, name string, o *idem.Options) *idem.Operation[string] {
	t.Helper()
	store, err := dynamo.New(engine.Client(url), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	op, err := idem.New[string](store, idem.InsecureCleartext(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func request(tenant, key string) idem.Request {
	return idem.Request{Tenant: tenant, Key: key, Payload: idem.AnyPayload{}}
}

func TestOneRunPerKeyAndEqualAnswers(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		t.Parallel()
		const goroutines, keys = 50, 200
		table := e.Table(t)
		var mu sync.Mutex
		runs, answers := map[string]int{}, map[string]map[string]int{}
		var wg sync.WaitGroup
		for g := range goroutines {
			op := operation(t, e.URL, table, "run", &idem.Options{Wait: time.Minute})
			wg.Go(func() {
				for _, k := range rand.Perm(keys) {
					key := fmt.Sprint("key-", k)
					res, err := op.Do(invoked(t), request("acme", key), func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						runs[key]++
						return fmt.Sprintf("run %d by %d", runs[key], g), nil
					})
					mu.Lock()
					if err != nil {
						t.Errorf("%s: %v", key, err)
					}
					if answers[key] == nil {
						answers[key] = map[string]int{}
					}
					answers[key][string(res.Raw)]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for k := range keys {
			key := fmt.Sprint("key-", k)
			if runs[key] != 1 || len(answers[key]) != 1 {
				t.Errorf("%s: %d runs, answers %v", key, runs[key], answers[key])
			}
		}
	})
}

func TestTenantsAndOperationsAreApart(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		t.Parallel()
		table := e.Table(t)
		for _, name := range []string{"charge", "refund"} {
			op := operation(t, e.URL, table, name, nil)
			for _, tenant := range []string{"a", "b", "a#refund", "a%h", "a%23", "#", "%", "a#", "#a"} {
				who := name + " of " + tenant
				for _, want := range []idem.Outcome{idem.Executed, idem.Replayed} {
					res, err := op.Do(invoked(t), request(tenant, "k"), func(context.Context) (string, error) { return who, nil })
					if err != nil || res.Value != who || res.Outcome != want {
						t.Errorf("%s got %q, %v, %v", who, res.Value, res.Outcome, err)
					}
				}
			}
		}
	})
}

func TestRequestsOnTheWire(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table := e.Table(t)
		proxy, err := lab.NewProxy(e.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer proxy.Close()
		op := operation(t, proxy.URL(), table, "charge", nil)
		durable := operation(t, proxy.URL(), table, "durable", &idem.Options{Begin: idem.Durable})
		ok := func(context.Context) (string, error) { return "done", nil }
		mustNot := func(context.Context) (string, error) { t.Error("ran"); return "", nil }
		op.Do(invoked(t), request("acme", "warm"), ok)
		durable.Do(invoked(t), request("acme", "warm"), ok)
		counted := func(path string, want int, f func()) {
			t.Helper()
			proxy.Forget()
			f()
			if got := len(proxy.Requests()); got != want {
				t.Errorf("%s: %d requests, want %d", path, got, want)
			}
			if got := proxy.Count(lab.Match{Target: "UpdateItem"}); got != want {
				t.Errorf("%s: %d are UpdateItem, want %d", path, got, want)
			}
		}
		counted("first execution", 2, func() { op.Do(invoked(t), request("acme", "a"), ok) })
		counted("replay", 1, func() { op.Do(invoked(t), request("acme", "a"), mustNot) })
		counted("mismatch", 1, func() {
			r := request("acme", "a")
			r.Payload = []byte("other")
			op.Do(invoked(t), r, mustNot)
		})
		counted("concurrent duplicate, beside its owner's 2", 3, func() {
			op.Do(invoked(t), request("acme", "b"), func(context.Context) (string, error) {
				op.Do(invoked(t), request("acme", "b"), mustNot)
				return "", nil
			})
		})
		op.Do(invoked(t), request("acme", "c"), func(context.Context) (string, error) { return "", fmt.Errorf("unknown") })
		counted("indeterminate duplicate", 1, func() { op.Do(invoked(t), request("acme", "c"), mustNot) })
		counted("first execution with durable begin", 3, func() {
			durable.Do(invoked(t), request("acme", "d"), func(ctx context.Context) (string, error) {
				return "", idem.AttemptFrom(ctx).Begin(ctx, "with a note")
			})
		})
	})
}
