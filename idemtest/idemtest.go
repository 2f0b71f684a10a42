// Package idemtest helps to test what is built on idem.
//
// [OneEffect] is where to start: it lets everything go wrong around your handler and shows that the effect happens once.
//
// [Memory] is a store whose clock, faults and restores a test controls, and which fails the test if a write breaks the
// protocol. [Store] is the conformance suite for stores: each sentence of the comment of [idem.Store] names its subtests.
package idemtest

import (
	"context"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// Store checks that what open returns is a store as [idem.Store] demands.
//
// open is called several times, also within one subtest: all stores it returns are on one table, each as another process
// would have it. Subtests use tenants and keys of their own and run in parallel, so the table may be a shared, real one; the
// whole suite makes less than 2,000 requests, does not sleep, and writes 16 MB.
//
// A store may offer more, for the sentences that no call of an [idem.Store] can reach: [Clock], [Meddler], [Breaker]. What
// needs one that is not offered is skipped, and says so.
func Store(t *testing.T, open func(testing.TB) idem.Store) {
	for _, s := range subtests {
		t.Run(s.name, func(t *testing.T) {
			if !s.alone {
				t.Parallel()
			}
			s.run(newSuite(t, open))
		})
	}
}

// Clock is what a store may be that has the test's clock instead of a service's. A subtest that moves it runs alone.
type Clock interface {
	Now() time.Time
	Advance(d time.Duration)
	Expire() // removes now what the store may remove
}

// Meddler is what a store may be that lets a test change what is stored, behind the store's back, into what only a newer
// version of the library would leave there.
type Meddler interface {
	// Meddle puts what is unknown to this version into the record that holds id.
	Meddle(ctx context.Context, id idem.ID, what Unknown) error
	// Kept tells whether what Meddle(id, UnknownField) added is still there.
	Kept(ctx context.Context, id idem.ID) (bool, error)
	// Remove deletes what holds id, as somebody does by hand.
	Remove(ctx context.Context, id idem.ID) error
	// Tear removes a part of the receipt that is kept beside the record that holds id. It is false if there is none.
	Tear(ctx context.Context, id idem.ID) (bool, error)
}

// Unknown is something in a stored record that this version of the library does not know.
type Unknown string

const (
	UnknownState  Unknown = "state"  // not one of the five
	UnknownFormat Unknown = "format" // newer than the one this version writes
	UnknownField  Unknown = "field"  // one more, in a format this version reads
)

// Breaker is what a store may be whose connection a test can break.
type Breaker interface {
	// Break lets the next n requests of this store fail for a passing reason: if applied, the service carries each out
	// and its answer is lost; else they never arrive. n = 0 ends it.
	Break(n int, applied bool)
}
