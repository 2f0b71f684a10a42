package endtoend

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

// What one call of Do or Look on a key was told.
type seen struct {
	kind  told
	value string // of a success; of a final failure its message
}

type told int

const (
	nothing  told = iota + 1 // it says nothing about the outcome
	recorded                 // this value, by this call or before
	replayed                 // this value, before
	none                     // no outcome is recorded
	perhaps                  // this value may be recorded now, or later
)

// register is what a key holds: at most one outcome, for ever.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		held, o := state.(string), output.(seen)
		switch o.kind {
		case recorded:
			return held == "" || held == o.value, o.value
		case replayed:
			return held == o.value, held
		case none:
			return held == "", held
		case perhaps:
			if held == "" {
				return true, o.value // where it was never recorded this call is put after all others
			}
		}
		return true, held
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v: %+v", input, output) },
}

// A history that no register has is refused: else the test below would say nothing.
func TestRegisterRefuses(t *testing.T) {
	op := func(call, ret int64, o seen) porcupine.Operation {
		return porcupine.Operation{Call: call, Return: ret, Output: o}
	}
	for name, c := range map[string]struct {
		h    []porcupine.Operation
		want bool
	}{
		"one value":                     {[]porcupine.Operation{op(1, 2, seen{recorded, "a"}), op(3, 4, seen{replayed, "a"})}, true},
		"two values":                    {[]porcupine.Operation{op(1, 2, seen{recorded, "a"}), op(3, 4, seen{recorded, "b"})}, false},
		"a replay before the record":    {[]porcupine.Operation{op(1, 2, seen{replayed, "a"}), op(3, 4, seen{recorded, "a"})}, false},
		"none after the record":         {[]porcupine.Operation{op(1, 2, seen{recorded, "a"}), op(3, 4, seen{none, ""})}, false},
		"none beside the record":        {[]porcupine.Operation{op(1, 5, seen{recorded, "a"}), op(3, 4, seen{none, ""})}, true},
		"a perhaps that came late":      {[]porcupine.Operation{op(1, math.MaxInt64, seen{perhaps, "a"}), op(3, 4, seen{none, ""}), op(5, 6, seen{replayed, "a"})}, true},
		"a perhaps that never came":     {[]porcupine.Operation{op(1, math.MaxInt64, seen{perhaps, "a"}), op(3, 4, seen{recorded, "b"})}, true},
		"a perhaps that came and went":  {[]porcupine.Operation{op(1, math.MaxInt64, seen{perhaps, "a"}), op(3, 4, seen{replayed, "a"}), op(5, 6, seen{none, ""})}, false},
		"a perhaps that replaced other": {[]porcupine.Operation{op(1, math.MaxInt64, seen{perhaps, "a"}), op(3, 4, seen{recorded, "b"}), op(5, 6, seen{replayed, "a"})}, false},
	} {
		if got := porcupine.CheckOperations(register, c.h); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// crowd is many processes that send requests for a few keys while the network misbehaves.
type crowd struct {
	t     *testing.T
	start time.Time
	late  sync.WaitGroup

	mu        sync.Mutex
	effects   map[string]int       // by key
	cut       map[string]time.Time // until when a key, by the digest that is in its requests, cannot be reached
	truth     map[string]string    // what the effect's value was
	histories map[string][]porcupine.Operation
	tolds     map[string]int
}

const (
	operations = 10_000
	perKey     = 10
	processes  = 16
	settle     = 2 * time.Second // after the lease, which is 5 s longer than the invocation
	bound      = 2 * time.Minute // a machine that is busy needs more than the usual one
)

// process is one with its own connections, of whose requests one in eight goes wrong. Now and then, for up to a second, all do.
func (c *crowd) process(e engine.Engine, table string) (*idem.Operation[string], *lab.Transport) {
	network := lab.NewTransport()
	var until time.Time // of an outage; the transport asks one request at a time
	var outage *lab.Fault
	network.Inject(func(r *lab.Request) *lab.Fault {
		f := faults[rand.N(len(faults))]
		switch cut := c.cutOff(string(r.Body)); {
		case cut != nil:
			f = cut
		case time.Now().Before(until):
			f = outage
		case rand.N(300) == 0:
			until, outage = time.Now().Add(rand.N(time.Second)), f
		case rand.N(8) > 0:
			return nil
		}
		if f == lab.Late {
			c.late.Add(1)
			time.AfterFunc(rand.N(time.Second), func() { // on the wire
				defer c.late.Done()
				network.Deliver()
			})
		}
		return f
	})
	client := engine.Client(e.URL, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: network} })
	store, err := dynamo.New(client, table, &dynamo.Options{AttemptTimeout: 500 * time.Millisecond})
	if err != nil {
		c.t.Fatal(err)
	}
	op, err := idem.New[string](store, idem.InsecureCleartext(), "linear", &idem.Options{Recover: idem.Reconcile(settle, c.ask)})
	if err != nil {
		c.t.Fatal(err)
	}
	return op, network
}

// cutOff is what happens to everything that is sent for a key whose owner is cut off, if it is.
func (c *crowd) cutOff(body string) *lab.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for digest, until := range c.cut {
		if time.Now().Before(until) && strings.Contains(body, digest) {
			return [...]*lab.Fault{lab.Lost, lab.ErrorBefore, lab.NoName, lab.Throttled}[len(body)%4]
		}
	}
	return nil
}

// ask looks at the effects.
func (c *crowd) ask(_ context.Context, d idem.Doubt) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.truth[d.Request.Key]; v != "" {
		return v, nil
	}
	return "", idem.NotApplied(errors.New("not found"))
}

// handle has its effect, most of the time, and says so, most of the time.
func (c *crowd) handle(key, value string) (string, error) {
	p := rand.N(100)
	if p < 8 {
		return "", idem.NotApplied(own)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p < 12 {
		return "", idem.Final(errors.New("final " + value))
	}
	c.effects[key]++
	c.truth[key] = value
	if p > 97 {
		digest := sha256.Sum256([]byte(key))
		c.cut[base64.RawURLEncoding.EncodeToString(digest[:])] = time.Now().Add(5 * time.Second)
	}
	if p < 18 {
		return "", own
	}
	return value, nil
}

// call sends one request, or looks, and writes down what it was told.
func (c *crowd) call(op *idem.Operation[string], client int, key, value string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second+rand.N(3*time.Second))
	defer cancel()
	var (
		res   idem.Result[string]
		err   error
		looks = rand.N(8) == 0
		from  = time.Since(c.start).Nanoseconds()
	)
	if looks {
		res, err = op.Look(ctx, request("acme", key))
	} else {
		res, err = op.Do(ctx, request("acme", key), func(context.Context) (string, error) { return c.handle(key, value) })
	}
	to := time.Since(c.start).Nanoseconds()
	o := seen{nothing, ""}
	switch e := err.(type) {
	case nil:
		o = seen{recorded, res.Value}
		if res.Outcome == idem.Replayed {
			o.kind = replayed
		}
	case *idem.FailedError:
		o = seen{recorded, e.Message} // by this request's reconciler, or before
		if looks {
			o.kind = replayed
		}
	case *idem.InProgressError, *idem.IndeterminateError, *idem.NotFoundError:
		o = seen{none, ""}
	case *idem.NotRecordedError:
		o, to = seen{perhaps, value}, math.MaxInt64
	case *idem.UnavailableError:
	case *idem.LostError:
		c.t.Errorf("%s: %v", key, err)
	default:
		if err.Error() == "final "+value { // its record may not be stored
			o, to = seen{perhaps, err.Error()}, math.MaxInt64
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.histories[key] = append(c.histories[key], porcupine.Operation{ClientId: client, Input: map[bool]string{true: "look", false: "do"}[looks], Call: from, Output: o, Return: to})
	c.tolds[fmt.Sprintf("%T", err)]++
}

// Many requests at once, over a network that misbehaves: each key has one effect at most, and what everybody was told about it
// can be put in one order.
func TestLinearizableUnderFaults(t *testing.T) { engine.Each(t, linearizableUnderFaults) }

func linearizableUnderFaults(t *testing.T, e engine.Engine) {
	c := &crowd{t: t, start: time.Now(), effects: make(map[string]int), cut: make(map[string]time.Time), truth: make(map[string]string),
		histories: make(map[string][]porcupine.Operation), tolds: make(map[string]int)}
	table := e.Table(t)
	const keys = operations / perKey
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for p := range processes {
		op, network := c.process(e, table)
		defer network.CloseIdleConnections()
		for g := range 4 { // one environment may serve several invocations at once
			wg.Go(func() {
				for {
					n := int(next.Add(1)) - 1
					if n >= operations || time.Since(c.start) > bound {
						return
					}
					// Keys come in blocks, so that those who share one are there at the same time, and once more at the end.
					block := n / (8 * perKey) * 8
					key := fmt.Sprint("key-", (block+rand.N(8))%keys)
					if rand.N(5) == 0 && block > 0 {
						key = fmt.Sprint("key-", rand.N(block)%keys)
					}
					c.call(op, 4*p+g, key, fmt.Sprint("value-", n))
				}
			})
		}
	}
	wg.Wait()
	c.late.Wait()
	took := time.Since(c.start)
	total, effects := 0, 0
	for key, h := range c.histories {
		total += len(h)
		effects += c.effects[key]
		if c.effects[key] > 1 {
			t.Errorf("%s: %d effects", key, c.effects[key])
		}
		if got := porcupine.CheckOperationsTimeout(register, h, 10*time.Second); got != porcupine.Ok {
			t.Errorf("%s: %s:\n%s", key, got, describe(h))
		}
	}
	if c.tolds["*idem.NotRecordedError"] == 0 || c.tolds["*idem.UnavailableError"] == 0 {
		t.Errorf("told %v: the network did not misbehave enough", c.tolds)
	}
	t.Logf("%d calls on %d keys in %v, %d effects; told %v", total, len(c.histories), took.Round(time.Millisecond), effects, c.tolds)
	if total < operations {
		t.Errorf("only %d calls in %v, want %d", total, bound, operations)
	}
}

func describe(h []porcupine.Operation) (s string) {
	for _, o := range h {
		s += fmt.Sprintf("  %d..%d %v %+v\n", o.Call, o.Return, o.Input, o.Output)
	}
	return s
}
