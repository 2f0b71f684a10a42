package idemtest

import (
	"context"
	"testing"

	"github.com/idem-go/idem"
)

// OneEffect shows that your handler, under its own operation, has its effect once, whatever happens. Start here to test what
// you build on idem: it finds the mistakes that no ordinary unit test reaches, such as an error that says "nothing happened" of a
// charge whose answer was lost, and it prints the shortest path that leads to two effects, or to none.
//
// Build makes a fresh world for each path: your operation on the world's store and sealer, a fake of your downstream, one
// delivery of one and the same request, and a count of the effects.
//
//	func TestChargeHappensOnce(t *testing.T) {
//		idemtest.OneEffect(t, func(w *idemtest.World) {
//			charges := 0 // in the books of a fake bank
//			op, err := idem.New[string](w.Store, w.Sealer, "charge", nil)
//			if err != nil {
//				t.Fatal(err)
//			}
//			w.Deliver = func(ctx context.Context) ([]byte, error) {
//				r := idem.Request{Tenant: "acme", Key: "order-1", Payload: idem.AnyPayload{}}
//				res, err := op.Do(ctx, r, func(ctx context.Context) (string, error) {
//					err := w.Call(ctx, func() { charges++ }) // the handler under test calls the fake bank
//					return "charged", err
//				})
//				return res.Raw, err
//			}
//			w.Effects = func() int { return charges }
//		})
//	}
//
// Were the error of the call returned as idem.NotApplied(err), it would say:
//
//	2 effects, want 1
//	    delivery 1 gets no answer to the request to the downstream, which was carried out
//	    delivery 1 ends with *net.OpError: read tcp: i/o timeout
//	    delivery 2 succeeds
//
// # What it does
//
// The request is delivered without a fault first, then once more for each single thing that can go wrong, then for each two of
// them (with go test -short: one). At every call of the store and of [World.Call], on the first delivery and on every one that
// recovers from it:
//
//   - The process dies: before the call, when it was carried out, or with the call still under way, to arrive later.
//   - The answer is lost, of a call that was carried out, never will be, or arrives later; or the call is refused.
//   - The process pauses and goes on later: at once, after another delivery of the request, or after its own deadline. Two
//     pauses interleave two deliveries at any two points.
//   - The caller leaves, or the deadline passes.
//   - The handler panics, inside Begin, Note and World.Call, where they are called on its own goroutine.
//   - The sealer does not answer.
//
// Then the world goes on as yours would. The request is redelivered at once, again when the lease is over, and again when the
// settle time is over; your own reconciler is asked. What is still in doubt is resolved by an operator who looks at the effects
// and tells the truth. What is late arrives before the settle time is over: that it does is your promise to [idem.Reconcile].
//
// A process that died reaches nothing any more: its deferred functions run, but the store and World.Call refuse them. One that
// paused is a zombie, and has its effect when it goes on.
//
// # What it demands
//
// Exactly one effect on every path, whatever it needs to get there; none where the answer is a final failure ([idem.Final]). A
// delivery succeeds only if the effect has happened, all that succeed answer with the same bytes, and in the end one does.
//
// It cannot know what only you do: whether your fake behaves as the real downstream, and whether settle is long enough for it.
//
// # How to write the world
//
// Let every effect, and every question of a reconciler, go through World.Call, so that it can be late or lost; without it only
// the calls of the store are disturbed. Change the fake's books only inside the function that is given to World.Call. Leave
// Options.Wait at zero, keep sleeps out of the handler, and return soon when the context is done. A [testing.TB] that is nil is
// for examples: what would fail the test panics.
func OneEffect(t testing.TB, build func(w *World)) {
	if t != nil {
		t.Helper()
	}
	faults := 2
	if testing.Testing() && testing.Short() {
		faults = 1
	}
	paths, failure := explore(t, build, faults)
	switch {
	case failure != "" && t == nil:
		panic(failure)
	case failure != "":
		t.Errorf("%s", failure)
	case t != nil:
		t.Logf("one effect on each of %d paths", paths)
	}
}

// World is one fresh world of [OneEffect]. Store and Sealer are given; Deliver and Effects are to be set.
type World struct {
	Store  idem.Store  // for the operation; a *Memory with faults
	Sealer idem.Sealer // for the operation

	// Deliver delivers the request once, through the operation or all that is around it, such as a wrapped Lambda handler. It
	// returns what the caller is answered, or an error if this delivery was not answered with the outcome: of an HTTP response
	// the status decides. Each delivery has a context of its own. Two of them never run at the same moment, but one that pauses
	// goes on when another one has ended or pauses.
	Deliver func(ctx context.Context) ([]byte, error)

	// Effects counts how often the effect has happened so far in this world.
	Effects func() int

	run *run
}

// Call is a call of your downstream as it goes over a network: serve is what the downstream does with the request. It may be
// run once, never, or only later; inside, nothing is disturbed. The error is what an HTTP client would give you:
// a *net.OpError of a dial if the request was never sent; one whose Timeout() is true if no answer came, which leaves open
// whether it was served; or the context's.
func (w *World) Call(ctx context.Context, serve func()) error {
	return w.run.call(ctx, serve)
}
