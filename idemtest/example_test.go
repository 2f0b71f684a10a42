package idemtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// A charge whose outcome is unknown is looked up in the bank's books before anything else.
func ExampleOneEffect() {
	// In a test: func TestChargeHappensOnce(t *testing.T) { idemtest.OneEffect(t, ...
	idemtest.OneEffect(nil, func(w *idemtest.World) {
		var books []string // of the fake bank: the reference of each charge

		// The code under test: the handler, and its reconciler.
		charge := func(ctx context.Context) (string, error) {
			reference := idem.AttemptFrom(ctx).DownstreamKey()
			err := w.Call(ctx, func() { books = append(books, reference) })
			return "charged", err
		}
		find := func(ctx context.Context, d idem.Doubt) (string, error) {
			found := false
			err := w.Call(ctx, func() {
				for _, reference := range books {
					found = found || reference == d.DownstreamKey
				}
			})
			if err == nil && !found {
				err = idem.NotApplied(errors.New("the bank has no such charge"))
			}
			return "charged", err
		}

		op, err := idem.New[string](w.Store, w.Sealer, "charge", &idem.Options{Recover: idem.Reconcile(15*time.Minute, find)})
		if err != nil {
			panic(err)
		}
		w.Deliver = func(ctx context.Context) ([]byte, error) {
			res, err := op.Do(ctx, idem.Request{Tenant: "acme", Key: "order-1", Payload: idem.AnyPayload{}}, charge)
			return res.Raw, err
		}
		w.Effects = func() int { return len(books) }
	})
	fmt.Println("one effect, whatever happens")
	// Output: one effect, whatever happens
}

// What OneEffect says of a handler that takes a lost answer for "nothing happened".
func ExampleOneEffect_wrong() {
	defer func() { fmt.Println(recover()) }()
	idemtest.OneEffect(nil, func(w *idemtest.World) {
		charges := 0
		op, err := idem.New[string](w.Store, w.Sealer, "charge", nil)
		if err != nil {
			panic(err)
		}
		w.Deliver = func(ctx context.Context) ([]byte, error) {
			res, err := op.Do(ctx, idem.Request{Tenant: "acme", Key: "order-1", Payload: idem.AnyPayload{}}, func(ctx context.Context) (string, error) {
				err := w.Call(ctx, func() { charges++ })
				return "charged", idem.NotApplied(err) // wrong: a timeout does not say that
			})
			return res.Raw, err
		}
		w.Effects = func() int { return charges }
	})
	// Output:
	// idemtest.OneEffect: 2 effects, want 1
	//     delivery 1 gets no answer to the request to the downstream, which was carried out
	//     delivery 1 ends with *net.OpError: read tcp: i/o timeout
	//     delivery 2 succeeds
}
