// Demo shows, on the real Lambda runtime and a DynamoDB engine, that the payment function charges once whatever happens to
// it. It is run by make demo, which starts the engine. Every step says what happened and how many charges the provider's
// ledger has; the exit status is not 0 unless every count is right.
//
// Kills come from outside: a proxy in front of the engine and one in front of the provider end or stop the function's process at
// the named request. The provider is told not to honour idempotency keys, so that nothing but idem protects the customer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/examples/payment/psp"
	"github.com/idem-go/idem/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Println()
	for _, step := range []func(context.Context) error{
		s.first, s.replay, s.concurrent, s.mismatch, s.tenant, s.killed, s.slow, s.hung,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if s.wrong > 0 {
		return fmt.Errorf("%d checks failed", s.wrong)
	}
	fmt.Printf("\nAll right: %d orders, %d deliveries, %d charges.\n", s.expected, s.deliveries.Load(), s.expected)
	return nil
}

func order(merchant, id string, amount int64) psp.Order {
	return psp.Order{Merchant: merchant, ID: id, Amount: amount, Currency: "EUR"}
}

var shoes = order("acme", "order-1", 4999)

func (s *stage) first(ctx context.Context) error {
	s.title("First call")
	a := s.deliver(ctx, 0, shoes)
	s.original = a.body
	s.check(a.fault == "", fmt.Sprintf("the function charges: %s", a))
	text, sealed, err := s.stored(ctx)
	if err != nil {
		return err
	}
	readable := strings.Contains(text, "order-1") || strings.Contains(text, "ch_0") || strings.Contains(text, "amount")
	s.check(!readable && sealed > 0, fmt.Sprintf("the table has %d sealed bytes: neither key, nor order, nor charge can be read in it", sealed))
	return s.charges(ctx, 1)
}

func (s *stage) replay(ctx context.Context) error {
	s.title("The same order again")
	a := s.deliver(ctx, 1, shoes)
	s.check(a.body == s.original, fmt.Sprintf("another environment answers with the same %d bytes", len(a.body)))
	return s.charges(ctx, 0)
}

func (s *stage) concurrent(ctx context.Context) error {
	s.title(fmt.Sprintf("One order from %d environments at once", len(s.envs)))
	if err := s.behave(ctx, "late:1s"); err != nil {
		return err
	}
	o := order("acme", "order-2", 1250)
	answers := make([]answer, len(s.envs))
	var wg sync.WaitGroup
	for k := range s.envs {
		wg.Go(func() { answers[k] = s.deliver(ctx, k, o) })
	}
	wg.Wait()
	ran, refused := "", 0
	for _, a := range answers {
		switch a.fault {
		case "":
			ran = a.body
		case "InProgressError":
			refused++
		}
	}
	s.check(ran != "" && refused == len(s.envs)-1, fmt.Sprintf("one charges, %d are told that it is in progress", refused))
	same := 0
	for k := range s.envs {
		if s.deliver(ctx, k, o).body == ran {
			same++
		}
	}
	s.check(same == len(s.envs), fmt.Sprintf("afterwards all %d get the same bytes", len(s.envs)))
	return s.charges(ctx, 1)
}

func (s *stage) mismatch(ctx context.Context) error {
	s.title("Another amount under the same order id")
	o := shoes
	o.Amount = 1
	a := s.deliver(ctx, 0, o)
	s.check(a.fault == "MismatchError", a.String())
	return s.charges(ctx, 0)
}

func (s *stage) tenant(ctx context.Context) error {
	s.title("The same order id of another merchant")
	a := s.deliver(ctx, 0, order("zenith", "order-1", 4999))
	s.check(a.fault == "" && a.body != s.original, fmt.Sprintf("a charge of its own: %s", a))
	return s.charges(ctx, 1)
}

func (s *stage) killed(ctx context.Context) error {
	s.title("Killed between the charge and its record")
	o := order("acme", "order-3", 30000)
	kill := s.engine.Before(lab.Match{Target: "UpdateItem", N: 2}, lab.Kill(s.envs[0].Kill))
	a := s.deliver(ctx, 0, o)
	kill.Remove()
	s.check(a.fault == "Runtime.ExitError", fmt.Sprintf("kill -9 as it wants to record: Lambda says %s", a.fault))
	s.state(ctx, o, idem.Pending)
	a = s.deliver(ctx, 1, o)
	s.check(a.fault == "InProgressError", fmt.Sprintf("redelivered at once: %s, as nobody knows that it is dead", a.fault))
	return s.recovered(ctx, o)
}

func (s *stage) slow(ctx context.Context) error {
	s.title("The provider charges, and answers after the deadline")
	if err := s.behave(ctx, "late:10s"); err != nil {
		return err
	}
	o := order("acme", "order-4", 777)
	a := s.deliver(ctx, 0, o)
	s.check(a.fault != "", fmt.Sprintf("the function gives up: %s", a))
	s.state(ctx, o, idem.Indeterminate)
	return s.asked(ctx, o)
}

func (s *stage) hung(ctx context.Context) error {
	s.title("Hangs after the charge, until Lambda's timeout kills it")
	o := order("acme", "order-5", 888)
	hang := s.provider.After(lab.Match{Method: "POST", Path: "/charges", N: 1}, lab.Do(s.envs[0].Stop))
	a := s.deliver(ctx, 0, o)
	hang.Remove()
	s.check(a.fault == "Sandbox.Timedout", fmt.Sprintf("Lambda says %s and kills the process", a.fault))
	s.state(ctx, o, idem.Pending)
	return s.recovered(ctx, o)
}

// recovered waits for the lease's end, and delivers again.
func (s *stage) recovered(ctx context.Context, o psp.Order) error {
	left := time.Until(s.lease(ctx, o)) + 2*time.Second // the engine tells its time in whole seconds
	fmt.Printf("   …   %.0f s until the lease is over\n", left.Seconds())
	select {
	case <-time.After(left):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.asked(ctx, o)
}

// asked delivers an order whose outcome nobody knows: the provider is asked, not charged.
func (s *stage) asked(ctx context.Context, o psp.Order) error {
	s.provider.Forget()
	a := s.deliver(ctx, 1, o)
	finds, charges := s.provider.Count(lab.Match{Method: "GET", Path: "/charges"}), s.provider.Count(lab.Match{Method: "POST", Path: "/charges"})
	s.check(finds == 1 && charges == 0, fmt.Sprintf("redelivered: the provider is asked %d time, and charges %d times", finds, charges))
	s.check(a.fault == "" && strings.Contains(a.body, o.ID), fmt.Sprintf("the customer gets what was made: %s", a))
	s.state(ctx, o, idem.Completed)
	return s.charges(ctx, 1)
}
