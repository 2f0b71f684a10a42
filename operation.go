package idem

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Operation is one named effect: where its records live, how results are sealed, and what to do when an outcome is unknown.
// It is immutable and may be used concurrently.
type Operation[T any] struct{ engine *engine }

// engine is an operation without its result type.
type engine struct {
	name   string
	store  Store
	sealer Sealer
	Options
}

// Begin says what an error before [Attempt.Begin] means.
type Begin uint8

const (
	Ignored  Begin = iota // every unclassified error is unknown, wherever it comes from
	InMemory              // an error or a panic before Begin did nothing; a crash is unknown. No request more
	Durable               // a crash before Begin is known to have done nothing as well. One write more
)

// Options of one operation. A zero field means its default.
type Options struct {
	// Recover decides about records whose outcome is unknown. Default: [Hold].
	Recover Recovery

	// Begin says what an unclassified error means that comes before [Attempt.Begin]. Default: [Ignored].
	Begin Begin

	// Retain is how long an outcome is kept and replayed, at least 1 h. It should be longer than the source of requests
	// repeats them: a queue's retention plus that of its dead letter queue. Default: 24 h.
	Retain time.Duration

	// Lease is how long the function may run where the context has no deadline, at most 24 h. On Lambda it has one. Default: none, and
	// a context without deadline is refused.
	Lease time.Duration

	// Reserve is kept from the deadline for recording the outcome: the function's context ends that much earlier.
	// At most 5 min. Default: a tenth of the time there is, but at least 300 ms and at most 2 s.
	Reserve time.Duration

	// Wait is how long a request waits for the outcome of the attempt that holds its key. Default: 0, it gets an
	// [InProgressError] at once.
	Wait time.Duration

	// MaxResult is the size in bytes up to which a result is kept, at most 6 MiB, which is what Lambda answers with. A larger one is
	// completed, but its replay is an [UnreadableError]. One above 300,000 needs a Reserve in which it can be written at 1 MB/s.
	// Default: 256 KiB.
	MaxResult int

	// SingleTenant says that requests have no Tenant.
	SingleTenant bool

	// Observe is called with every decision, on the caller's goroutine. Default: none.
	Observe func(context.Context, Event)

	_ struct{}
}

// Bounds of settings.
const (
	minRetain     = time.Hour
	defaultRetain = 24 * time.Hour
	maxLease      = 24 * time.Hour
	maxReserve    = 5 * time.Minute
	leaseMargin   = 5 * time.Second
	minRun        = 100 * time.Millisecond // less is no time to run anything
	maxResult     = 6 << 20                // Lambda's
	defaultResult = 256 << 10
)

// New makes an operation. The name ([a-z0-9._-], 1 to 64 bytes) is the key space: records under another name are not seen. It is
// never a function's name, which may change. Everything that can be wrong with the settings is refused here.
func New[T any](store Store, sealer Sealer, name string, opts *Options) (*Operation[T], error) {
	e := &engine{name: name, store: store, sealer: sealer}
	if opts != nil {
		e.Options = *opts
	}
	if err := e.validate(reflect.TypeFor[T]()); err != nil {
		return nil, fmt.Errorf("idem: operation %q: %w", name, err)
	}
	e.setDefaults()
	return &Operation[T]{e}, nil
}

// Store is where the operation keeps its records.
func (o *Operation[T]) Store() Store { return o.engine.store }

// Name is the operation's name.
func (o *Operation[T]) Name() string { return o.engine.name }

func (e *engine) validate(result reflect.Type) error {
	r := e.Recover
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Retain", e.Retain}, {"Lease", e.Lease}, {"Reserve", e.Reserve}, {"Wait", e.Wait}} {
		if d.value < 0 {
			return fmt.Errorf("Options.%s is negative", d.field)
		}
	}
	switch {
	case e.store == nil:
		return errors.New("store is nil")
	case e.sealer == nil:
		return errors.New("sealer is nil: InsecureCleartext() stores results in the clear")
	case !validName(e.name):
		return errors.New("name must be 1 to 64 of a-z, 0-9, '.', '_' and '-'")
	case e.Begin > Durable:
		return fmt.Errorf("Options.Begin is %d: want Ignored, InMemory or Durable", e.Begin)
	case e.Retain != 0 && e.Retain < minRetain:
		return fmt.Errorf("Options.Retain is %v: at least %v", e.Retain, minRetain)
	case e.Reserve > maxReserve:
		return fmt.Errorf("Options.Reserve is %v: at most %v", e.Reserve, maxReserve)
	case e.Lease > maxLease:
		return fmt.Errorf("Options.Lease is %v: at most %v", e.Lease, maxLease)
	case e.Lease != 0 && e.Lease < reserve(e.Reserve, e.Lease)+minRun:
		return fmt.Errorf("Options.Lease is %v, of which %v are kept to record the outcome: too little is left to run", e.Lease, reserve(e.Reserve, e.Lease))
	case e.Lease > 0 && e.Wait >= e.Lease:
		return fmt.Errorf("Options.Wait is %v, but a request without deadline ends after the Lease of %v", e.Wait, e.Lease)
	case e.MaxResult < 0 || e.MaxResult > maxResult:
		return fmt.Errorf("Options.MaxResult is %d bytes: at most %d", e.MaxResult, maxResult)
	case time.Duration(e.MaxResult)*time.Microsecond > reserve(e.Reserve, 0):
		return fmt.Errorf("Options.MaxResult is %d bytes, which take %v to write at 1 MB/s, and the Reserve may be %v: set Options.Reserve to more", e.MaxResult, time.Duration(e.MaxResult)*time.Microsecond, reserve(e.Reserve, 0))
	case r.kind == reconcile && r.ask == nil:
		return errors.New("Options.Recover: Reconcile without a function to ask")
	case r.kind == reconcile && r.answers != result:
		return fmt.Errorf("Options.Recover: the reconciler answers %v, the operation records %v", r.answers, result)
	case r.kind == reconcile && r.settle <= 0:
		return errors.New("Options.Recover: Reconcile needs a settle time above zero; 15 minutes is good advice")
	case r.kind == rerun && r.within <= 0:
		return errors.New("Options.Recover: Rerun needs the time for which the downstream remembers keys")
	case streams(result):
		return fmt.Errorf("a result of type %v is a stream and cannot be recorded", result)
	}
	return nil
}

func (e *engine) setDefaults() {
	if e.Retain == 0 {
		e.Retain = defaultRetain
	}
	if e.MaxResult == 0 {
		e.MaxResult = defaultResult
	}
	if e.Recover.kind == hold {
		e.Recover.settle = defaultSettle
	}
}

func validName(s string) bool {
	return s != "" && len(s) <= maxOperation && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
}

// streams says that a result type is read, not recorded.
func streams(t reflect.Type) bool {
	reader := reflect.TypeFor[interface{ Read([]byte) (int, error) }]()
	return t.Implements(reader) || t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reader)
}

// reserve is what is kept of the time there is for recording the outcome.
func reserve(setting, left time.Duration) time.Duration {
	if setting > 0 {
		return setting
	}
	return max(300*time.Millisecond, min(2*time.Second, left/10))
}

// terms of this operation for one request.
func (e *engine) terms(id ID, g Generation) terms {
	return terms{id: id, generation: g, recovery: e.Recover.kind, durable: e.Begin == Durable, settle: e.Recover.settle, within: e.Recover.within, retain: e.Retain}
}
