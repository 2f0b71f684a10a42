package idemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// till is a downstream of these tests. A keyed one has its effect once per downstream key.
type till struct {
	world   *World
	keyed   bool
	charges []string
}

func (d *till) charge(ctx context.Context, key string) error {
	return d.world.Call(ctx, func() {
		if !d.keyed || !slices.Contains(d.charges, key) {
			d.charges = append(d.charges, key)
		}
	})
}

var errNothing = errors.New("nothing found")

// find is what a reconciler asks. The word says what "not found" is taken for.
func (d *till) find(word func(error) error) func(context.Context, idem.Doubt) (string, error) {
	return func(ctx context.Context, doubt idem.Doubt) (string, error) {
		found := false
		if err := d.world.Call(ctx, func() { found = slices.Contains(d.charges, doubt.DownstreamKey) }); err != nil {
			return "", err
		}
		if !found {
			return "", word(errNothing)
		}
		return "charged", nil
	}
}

// guarded is a world around a handler that charges the till.
func guarded(options func(*till) *idem.Options, handler func(ctx context.Context, d *till, a *idem.Attempt) error) func(*World) {
	return func(w *World) {
		d := &till{world: w}
		op, err := idem.New[string](w.Store, w.Sealer, "charge", options(d))
		if err != nil {
			panic(err)
		}
		w.Deliver = func(ctx context.Context) ([]byte, error) {
			r := idem.Request{Tenant: "acme", Key: "order-1", Payload: idem.AnyPayload{}}
			res, err := op.Do(ctx, r, func(ctx context.Context) (string, error) {
				return "charged", handler(ctx, d, idem.AttemptFrom(ctx))
			})
			return res.Raw, err
		}
		w.Effects = func() int { return len(d.charges) }
	}
}

func with(o idem.Options) func(*till) *idem.Options {
	return func(*till) *idem.Options { return &o }
}

func reconciling(begin idem.Begin, word func(error) error) func(*till) *idem.Options {
	return func(d *till) *idem.Options {
		return &idem.Options{Begin: begin, Recover: idem.Reconcile(15*time.Minute, d.find(word))}
	}
}

func rerunning(keyed bool) func(*till) *idem.Options {
	return func(d *till) *idem.Options {
		d.keyed = keyed
		return &idem.Options{Recover: idem.Rerun(24 * time.Hour)}
	}
}

func plain(ctx context.Context, d *till, a *idem.Attempt) error {
	return d.charge(ctx, a.DownstreamKey())
}

func beginning(ctx context.Context, d *till, a *idem.Attempt) error {
	if err := a.Begin(ctx, "about to charge"); err != nil {
		return err
	}
	return d.charge(ctx, a.DownstreamKey())
}

// sorting says of each error what it means.
func sorting(ctx context.Context, d *till, a *idem.Attempt) error {
	err := d.charge(ctx, a.DownstreamKey())
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return idem.NotApplied(err)
	}
	return err
}

func TestHandlersThatHaveOneEffect(t *testing.T) {
	for _, c := range []struct {
		name   string
		build  func(*World)
		faults int // the most; what has been seen with two need not be every time
	}{
		{"hold", guarded(with(idem.Options{}), plain), 1},
		{"hold, errors sorted", guarded(with(idem.Options{}), sorting), 1},
		{"hold, waiting", guarded(with(idem.Options{Wait: time.Second}), plain), 1},
		{"begin in memory", guarded(with(idem.Options{Begin: idem.InMemory}), beginning), 1},
		{"begin stored", guarded(with(idem.Options{Begin: idem.Durable}), beginning), 1},
		{"reconcile", guarded(reconciling(idem.Ignored, idem.NotApplied), plain), 1},
		{"reconcile, unsure", guarded(reconciling(idem.Ignored, idem.Unknown), plain), 1},
		{"reconcile, begin", guarded(reconciling(idem.Durable, idem.NotApplied), beginning), 2},
		{"rerun", guarded(rerunning(true), plain), 2},
		{"final where unsent", guarded(with(idem.Options{}), refusing), 1},
		{"an effect past World.Call", guarded(with(idem.Options{}), silent), 1},
		{"a goroutine of its own", guarded(with(idem.Options{}), apart), 1},
		{"one operation in another", nested, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || raced {
				c.faults = 1
			}
			paths, failure := explore(t, c.build, c.faults)
			if failure != "" {
				t.Errorf("after %d paths: %s", paths, failure)
			}
			t.Logf("%d paths", paths)
		})
	}
}

// apart has its effect on another goroutine.
func apart(ctx context.Context, d *till, a *idem.Attempt) (err error) {
	var wg sync.WaitGroup
	wg.Go(func() { err = d.charge(ctx, a.DownstreamKey()) })
	wg.Wait()
	return err
}

// nested guards a handler that guards its effect.
func nested(w *World) {
	d := &till{world: w}
	inner, err := idem.New[int](w.Store, w.Sealer, "inner", nil)
	if err != nil {
		panic(err)
	}
	outer, err := idem.New[string](w.Store, w.Sealer, "outer", nil)
	if err != nil {
		panic(err)
	}
	r := idem.Request{Tenant: "acme", Key: "order-1", Payload: idem.AnyPayload{}}
	w.Deliver = func(ctx context.Context) ([]byte, error) {
		res, err := outer.Do(ctx, r, func(ctx context.Context) (string, error) {
			res, err := inner.Do(ctx, r, func(ctx context.Context) (int, error) { return 7, d.charge(ctx, "k") })
			if _, again := idem.RetryAfter(err); again {
				return "", idem.NotApplied(err) // nothing of its own has happened: it may ask once more
			}
			return fmt.Sprint(res.Value), err
		})
		return res.Raw, err
	}
	w.Effects = func() int { return len(d.charges) }
}

// refusing gives up for good where nothing was sent.
func refusing(ctx context.Context, d *till, a *idem.Attempt) error {
	err := d.charge(ctx, a.DownstreamKey())
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return idem.Final(err)
	}
	return err
}

// silent has its effect past World.Call: only the calls of the store are disturbed.
func silent(_ context.Context, d *till, a *idem.Attempt) error {
	d.charges = append(d.charges, a.DownstreamKey())
	return nil
}

func TestHandlersThatAreWrongAreCaught(t *testing.T) {
	ignoring := func(word func(error) error) func(context.Context, *till, *idem.Attempt) error {
		return func(ctx context.Context, d *till, a *idem.Attempt) error {
			return word(d.charge(ctx, a.DownstreamKey()))
		}
	}
	for _, c := range []struct {
		name    string
		build   func(*World)
		faults  int // that the shortest path needs
		failure string
		path    []string
	}{
		{"says that nothing happened of a lost answer", guarded(with(idem.Options{}), ignoring(idem.NotApplied)), 1, "2 effects, want 1",
			[]string{"gets no answer to the request to the downstream, which was carried out", "delivery 2 "}},
		{"says final of a lost answer", guarded(with(idem.Options{}), ignoring(idem.Final)), 1, "was told that it failed for good", nil},
		{"has its effect before a begin in memory", guarded(with(idem.Options{Begin: idem.InMemory}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			if err := d.charge(ctx, a.DownstreamKey()); err != nil {
				return err
			}
			return a.Begin(ctx, nil)
		}), 1, "2 effects, want 1", nil},
		{"has its effect before a stored begin", guarded(with(idem.Options{Begin: idem.Durable}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			if err := d.charge(ctx, a.DownstreamKey()); err != nil {
				return err
			}
			return a.Begin(ctx, nil)
		}), 1, "2 effects, want 1", []string{"delivery 1"}},
		{"never calls its begin", guarded(with(idem.Options{Begin: idem.Durable}), plain), 1, "2 effects, want 1", nil},
		{"goes on though its begin is refused", guarded(with(idem.Options{Begin: idem.Durable}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			_ = a.Begin(ctx, nil)
			return d.charge(context.Background(), a.DownstreamKey())
		}), 1, "2 effects, want 1", []string{"pauses", "the lease is over", "goes on"}},
		{"has a reconciler that takes not found for never", guarded(reconciling(idem.Ignored, idem.NeverApplied), plain), 1, "2 effects, want 1",
			[]string{"under way", "the request to the downstream of delivery 1 arrives"}},
		{"has a reconciler that says it happened", guarded(func(*till) *idem.Options {
			return &idem.Options{Recover: idem.Reconcile(15*time.Minute, func(context.Context, idem.Doubt) (string, error) { return "charged", nil })}
		}, plain), 1, "and there was no effect", nil},
		{"runs again without a key", guarded(rerunning(false), plain), 1, "2 effects, want 1", nil},
		{"swallows the error", guarded(with(idem.Options{}), ignoring(func(error) error { return nil })), 1, "and there was no effect", nil},
		{"repeats by itself what had no answer", guarded(with(idem.Options{}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			err := d.charge(ctx, a.DownstreamKey())
			if err != nil {
				err = d.charge(ctx, a.DownstreamKey())
			}
			return err
		}), 1, "2 effects, want 1", nil},
		{"has its effect in a deferred function of its own", guarded(with(idem.Options{Begin: idem.InMemory}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			defer d.charge(ctx, a.DownstreamKey())
			return a.Note(ctx, "x")
		}), 1, "effect", nil},
		{"has two effects", guarded(with(idem.Options{}), func(ctx context.Context, d *till, a *idem.Attempt) error {
			return errors.Join(d.charge(ctx, "a"), d.charge(ctx, "b"))
		}), 0, "2 effects, want 1", nil},
		{"has none", guarded(with(idem.Options{}), func(context.Context, *till, *idem.Attempt) error { return nil }), 0, "and there was no effect", nil},
		{"never succeeds", guarded(with(idem.Options{}), func(context.Context, *till, *idem.Attempt) error { return idem.NotApplied(errNothing) }), 0, "without any fault it does not succeed", []string{"nothing found"}},
		{"never succeeds after a fault", guarded(with(idem.Options{}), func() func(context.Context, *till, *idem.Attempt) error {
			broken := false
			return func(ctx context.Context, d *till, a *idem.Attempt) error {
				if len(d.charges) == 0 && broken {
					return idem.NotApplied(errNothing)
				}
				err := d.charge(ctx, a.DownstreamKey())
				broken = broken || err != nil
				if err != nil && len(d.charges) == 0 {
					return idem.NotApplied(err)
				}
				return err
			}
		}()), 1, "none has succeeded", nil},
		{"panics by itself", guarded(with(idem.Options{}), func(context.Context, *till, *idem.Attempt) error { panic("nil map") }), 0, "without any fault it does not succeed", []string{"panics: nil map", "oneeffect_test.go"}},
		{"has no operation", func(w *World) {
			d := &till{world: w}
			w.Deliver = func(ctx context.Context) ([]byte, error) { return nil, d.charge(ctx, "k") }
			w.Effects = func() int { return len(d.charges) }
		}, 0, "2 effects, want 1", nil},
		{"answers each time something else", func(w *World) {
			guarded(with(idem.Options{}), plain)(w)
			deliver, n := w.Deliver, 0
			w.Deliver = func(ctx context.Context) ([]byte, error) {
				n++
				b, err := deliver(ctx)
				return fmt.Append(b, n), err
			}
		}, 0, "was answered", nil},
		{"has no world", func(*World) {}, 0, "did not set", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for faults := range c.faults {
				if _, failure := explore(t, c.build, faults); failure != "" {
					t.Errorf("caught with %d faults: %s", faults, failure)
				}
			}
			paths, failure := explore(t, c.build, c.faults)
			if !strings.Contains(failure, c.failure) || failure == "" {
				t.Fatalf("%d paths: %q, want %q in it", paths, failure, c.failure)
			}
			for _, line := range c.path {
				if !strings.Contains(failure, line) {
					t.Errorf("want %q in:\n%s", line, failure)
				}
			}
			t.Log(failure)
		})
	}
}
