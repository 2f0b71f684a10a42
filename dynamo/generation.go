package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// The control item of a table. "idem adopt" writes it, this package only reads it. Its names are frozen as those of a record.
const (
	genKey = "!gen" // its partition key; no record's starts so

	genTable      = "ti" // S: TableId of the table it was written for
	genNumber     = "ge" // N: generation
	genWatermark  = "wm" // N: milliseconds; NULL or not there in generation 0, as the next two
	genQuiet      = "qs" // N: milliseconds
	genUntil      = "qu" // N: milliseconds
	genSuperseded = "su" // there, whatever it holds: another table took this one's place
)

const maxGeneration = 1<<20 - 1

const (
	recheck   = time.Minute      // what is known of the table is read again when it is older
	tolerance = 10 * time.Minute // so long a process that knows goes on while the control plane fails
	backOff   = 5 * time.Second  // between two tries to read it then
	slack     = 5 * time.Second  // the service's clock has a resolution of one second, and answers travel
)

// guard is the knowledge of which incarnation of the table this process talks to.
//
// Its age is measured by this machine's wall clock before a request is sent, because the monotonic one stands still while a Lambda
// environment is frozen; and once more by the service's clock when the answer is there, because the wall clock may be minutes
// behind after a thaw (see confirm).
type guard struct {
	mu     sync.Mutex
	known  *knowledge
	failed time.Time // by this machine's clock: the last try that failed since
	flight *flight
}

// knowledge never changes once it is there.
type knowledge struct {
	gen  idem.Generation
	here time.Time // when it was asked for, by this machine's clock; by the service's: gen.At
}

// flight is one check under way, and its result once done is closed.
type flight struct {
	done      chan struct{}
	known     *knowledge
	err       error
	abandoned bool // its caller went away; that says nothing about the table
}

// since is how much later now is by the wall clock. One that was set back tells nothing: then it is long ago.
func since(then, now time.Time) time.Duration {
	if d := now.Round(0).Sub(then.Round(0)); d >= 0 {
		return d
	}
	return math.MaxInt64
}

// Generation implements [idem.Store]. It costs no request while what is known is younger than a minute; else it reads the
// control item and describes the table, one caller for all that wait.
func (s *Store) Generation(ctx context.Context) (idem.Generation, error) {
	k, err := s.current(ctx)
	if err != nil {
		return idem.Generation{}, err
	}
	g := k.gen
	if passed := s.now().Sub(k.here); !g.At.IsZero() && passed > 0 { // by the monotonic clock, which a freeze stops: never too late
		g.At = g.At.Add(passed)
	}
	return g, nil
}

func (s *Store) current(ctx context.Context) (*knowledge, error) {
	return s.knowledge(ctx, func(k *knowledge) bool { return since(k.here, s.now()) <= recheck })
}

// ready is current with the patience of the write that waits for it.
func (s *Store) ready(ctx context.Context, p patience) (*knowledge, error) {
	for n := 1; ; n++ {
		k, err := s.current(ctx)
		if err == nil || p.attempts > 0 || !retryable(err) || sleep(ctx, p.pause(n, slow)) != nil {
			return k, err
		}
	}
}

// confirm says that an answer of this time came from a table about which enough was known when the request was sent. On an
// environment that was thawed with its clock still standing, the service's clock is the one that tells.
func (s *Store) confirm(ctx context.Context, was *knowledge, at time.Time) error {
	if at.IsZero() || was.gen.At.IsZero() {
		return nil
	}
	k, err := s.knowledge(ctx, func(k *knowledge) bool { return at.Sub(k.gen.At) <= recheck+slack })
	switch {
	case err != nil:
		return err
	case k == was && at.Sub(k.gen.At) > tolerance: // it could not be read again
		return &tableError{fmt.Sprintf("table %q could not be checked for too long", s.table), nil, true}
	case k.gen.Number != was.gen.Number:
		return &tableError{fmt.Sprintf("table %q is of generation %d now", s.table, k.gen.Number), nil, true}
	}
	return nil
}

// knowledge returns what is known, after reading it again unless it is fresh.
func (s *Store) knowledge(ctx context.Context, fresh func(*knowledge) bool) (*knowledge, error) {
	for {
		f, lead, k := s.board(fresh)
		switch {
		case k != nil:
			return k, nil
		case lead:
			s.fly(ctx, f)
		default:
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, &callError{call: "check of the table", class: answerUnsent, done: ctx.Err()}
			}
		}
		if lead || !f.abandoned {
			return f.known, f.err
		}
	}
}

// board returns what is known if that will do, or the check to wait for; lead says that the caller has to do it.
func (s *Store) board(fresh func(*knowledge) bool) (f *flight, lead bool, k *knowledge) {
	g := &s.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known != nil {
		now := s.now()
		paused := !g.failed.IsZero() && since(g.failed, now) < backOff && since(g.known.here, now) <= tolerance
		if paused || fresh(g.known) {
			return nil, false, g.known
		}
	}
	if g.flight == nil {
		g.flight = &flight{done: make(chan struct{})}
		return g.flight, true, nil
	}
	return g.flight, false, nil
}

// fly checks the table for everybody who waits.
func (s *Store) fly(ctx context.Context, f *flight) {
	f.abandoned = true // also if the API panics
	g := &s.guard
	defer func() {
		g.mu.Lock()
		g.flight = nil
		g.mu.Unlock()
		close(f.done)
	}()
	asked := s.now() // not when the answer was there: a freeze may lie between
	k, err := s.inspect(ctx)
	now := s.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	f.abandoned = err != nil && ctx.Err() != nil
	switch {
	case err == nil:
		k.here = asked
		g.known, g.failed = k, time.Time{}
	case retryable(err) && g.known != nil && since(g.known.here, now) <= tolerance:
		k, err = g.known, nil
		g.failed = now
	case !retryable(err):
		g.known = nil // the table itself says so: nothing goes out before it says otherwise
	}
	f.known, f.err = k, err
}

// tableError is a table that must not be served from.
type tableError struct {
	problem string
	err     error
	retry   bool
}

func (e *tableError) Error() string {
	if e.retry {
		return e.problem + "; a retry may help"
	}
	return e.problem + "; a retry does not help"
}

func (e *tableError) Unwrap() error   { return e.err }
func (e *tableError) Retryable() bool { return e.retry }

// inspect reads the control item and describes the table.
func (s *Store) inspect(ctx context.Context) (*knowledge, error) {
	item, at, err := s.get(ctx, genKey, claiming)
	if err != nil {
		return nil, s.explain("dynamodb:GetItem", err)
	}
	gen, id, err := parseGeneration(item)
	if err != nil {
		return nil, &tableError{fmt.Sprintf("control item %q of table %q cannot be read (%v)", genKey, s.table, err), err, false}
	}
	if _, ok := item[genSuperseded]; ok {
		return nil, s.notAdopted("another table took its place: this function still uses the old one")
	}
	table, err := s.describe(ctx)
	if err != nil {
		return nil, s.explain("dynamodb:DescribeTable", err)
	}
	if err := s.usable(table); err != nil {
		return nil, err
	}
	switch {
	case len(item) > 0 && table.TableId == nil:
		return nil, s.notAdopted("it has a control item but no TableId to compare with")
	case len(item) > 0 && *table.TableId != id:
		return nil, s.notAdopted("it was restored or copied from another table")
	case len(item) == 0 && table.RestoreSummary != nil:
		return nil, s.notAdopted("it was restored from a backup")
	}
	gen.At = at
	return &knowledge{gen: gen}, nil
}

func (s *Store) describe(ctx context.Context) (*types.TableDescription, error) {
	var table *types.TableDescription
	e := s.run(ctx, "DescribeTable", claiming, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		out, err := s.api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, opt)
		if err == nil {
			if out.Table == nil {
				return errEmptyAnswer
			}
			table = out.Table
		}
		return err
	})
	if e != nil {
		e.ambiguous = false
		return nil, e
	}
	return table, nil
}

func (s *Store) notAdopted(problem string) error {
	return &tableError{fmt.Sprintf("table %q is not adopted: %s; run: idem adopt --table %s", s.table, problem, s.table), ErrNotAdopted, false}
}

// explain says what a failed look at the table means.
func (s *Store) explain(action string, err error) error {
	e, ok := errors.AsType[*callError](err)
	if !ok {
		return err
	}
	switch e.class {
	case answerNoTable:
		return &tableError{fmt.Sprintf("table %q does not exist in this account and Region", s.table), err, false}
	case answerDenied:
		if isKMS(err) {
			return &tableError{fmt.Sprintf("the KMS key that encrypts table %q itself (not the one that seals records) is denied, disabled or deleted", s.table), err, false}
		}
		return &tableError{fmt.Sprintf("%s on table %q is denied to this function's role", action, s.table), err, false}
	}
	return &tableError{fmt.Sprintf("table %q could not be checked (%v)", s.table, err), err, e.Retryable()}
}

// usable says why a table cannot hold records.
func (s *Store) usable(t *types.TableDescription) error {
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating, "":
	case types.TableStatusCreating:
		return &tableError{fmt.Sprintf("table %q is being created or restored", s.table), nil, true}
	case types.TableStatusInaccessibleEncryptionCredentials:
		return &tableError{fmt.Sprintf("table %q is inaccessible: the KMS key that encrypts the table itself was disabled or denied; enable it within 7 days, or the table is archived", s.table), nil, false}
	default:
		return &tableError{fmt.Sprintf("table %q has status %s", s.table, t.TableStatus), nil, false}
	}
	keys := t.KeySchema
	if len(keys) != 1 || keys[0].KeyType != types.KeyTypeHash || keys[0].AttributeName == nil || *keys[0].AttributeName != attrKey {
		return &tableError{fmt.Sprintf("table %q has another key: want partition key %q, a string, and no sort key", s.table, attrKey), nil, false}
	}
	for _, a := range t.AttributeDefinitions {
		if a.AttributeName != nil && *a.AttributeName == attrKey && a.AttributeType != types.ScalarAttributeTypeS {
			return &tableError{fmt.Sprintf("table %q has another key: partition key %q is of type %s, want a string", s.table, attrKey, a.AttributeType), nil, false}
		}
	}
	return nil
}

// parseGeneration reads the control item; no item is generation 0 of any table.
func parseGeneration(item attributes) (g idem.Generation, table string, err error) {
	if len(item) == 0 {
		return g, "", nil
	}
	d := decoder{item: item}
	id, ok := item[genTable].(*types.AttributeValueMemberS)
	if !ok || id.Value == "" {
		return g, "", errDamaged(genTable)
	}
	g.Number = uint32(d.uint(genNumber, maxGeneration))
	for attr, t := range map[string]*time.Time{genWatermark: &g.Watermark, genQuiet: &g.Quiet, genUntil: &g.Until} {
		if _, ok := item[attr]; ok {
			*t = d.millis(attr)
		}
		if d.err == nil && g.Number > 0 && t.IsZero() {
			d.damaged(attr)
		}
	}
	return g, id.Value, d.err
}
