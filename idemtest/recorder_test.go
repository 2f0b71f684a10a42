package idemtest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
)

// recorder is a testing.TB that may fail.
type recorder struct {
	testing.TB
	ctx      context.Context
	mu       sync.Mutex
	messages []string
	skipped  bool
	cleanups []func()
}

// record runs f to its end, be that Fatalf, and returns what it reported.
func record(t testing.TB, f func(t *recorder)) *recorder {
	ctx, cancel := context.WithCancel(t.Context())
	r := &recorder{TB: t, ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(r)
	}()
	<-ended
	cancel()
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		c := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		c()
	}
	return r
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

// generation of the table that try uses: one that shows where it is not kept.
const generation = 3

// try runs one subtest on the stores that open makes of one memory. Clocks are those of a bubble: what waits for time does
// not take any.
func try(t *testing.T, name string, open func(*Memory) idem.Store) (r *recorder) {
	t.Helper()
	for _, sub := range subtests {
		if sub.name != name {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			m := NewMemory(&recorder{TB: t}) // a broken store breaks the protocol, too: that is not what catches it
			m.Restore(m.Snapshot(), idem.Generation{Number: generation})
			r = record(t, func(t *recorder) {
				sub.run(newSuite(t, func(testing.TB) idem.Store { return open(m) }))
			})
			time.Sleep(time.Hour) // what a broken store still waits for has ended then
		})
		return r
	}
	t.Fatalf("no subtest %q", name)
	return nil
}
