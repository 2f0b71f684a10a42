package idemtest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// subtest is one behaviour.
type subtest struct {
	name  string
	alone bool // moves a clock that others look at, or looks at what others leave
	run   func(s *suite)
}

// Where a sentence of the contract is checked: contract_test.go. Which broken store a subtest catches: mutants_test.go.
var subtests = []subtest{
	{name: "an absent ID loads as the zero state", run: absentLoads},
	{name: "create stores where nothing is", run: createStores},
	{name: "create leaves a holder and returns it", run: createRefused},
	{name: "a write sent again is still one's own", run: sentAgain},
	{name: "swap stores over the version seen", run: swapStores},
	{name: "swap leaves another version and returns it", run: swapRefused},
	{name: "swap creates nothing", run: swapAbsent},
	{name: "leases and owners do not matter", run: noProtocol},

	{name: "one of many creates owns and all see it", run: oneCreates},
	{name: "one of many swaps wins and all see it", run: oneSwaps},
	{name: "histories are linearizable", run: histories},
	{name: "another process sees every answered write", run: processes},

	{name: "every field comes back", run: fieldsComeBack},
	{name: "bytes come back exactly", run: bytesComeBack},
	{name: "times and durations keep their resolution", run: resolution},
	{name: "swap leaves nothing of the old record", run: nothingLeft},
	{name: "large receipts come back", run: largeComeBack},
	{name: "a receipt passed on is kept", run: passedOn},
	{name: "a torn receipt is an error", run: tornReceipt},
	{name: "fetch leaves other records as they are", run: nothingToFetch},
	{name: "bytes are neither changed nor kept", run: bytesAlone},
	{name: "IDs that differ in one part are different", run: differentIDs},
	{name: "IDs that join to one text are different", run: joinedIDs},

	{name: "every answer tells the store's clock", run: clockTold},
	{name: "the caller's clock is not told", run: clockOfCaller},
	{name: "the clock told is that of the answer", alone: true, run: clockOfAnswer},
	{name: "only what is past its expiry is removed", alone: true, run: removal},

	{name: "the generation is told", run: generationTold},
	{name: "a write of another generation is refused", run: otherGeneration},
	{name: "what is no use once is no use again", run: noUse},
	{name: "an unknown state or format is an error", run: unknownRecord},
	{name: "swap keeps an unknown field", run: unknownField},
	{name: "a done context is answered promptly", run: doneContext},

	{name: "a passing failure is not the caller's", run: passingFailure},
	{name: "a pending write is given up soon", run: givenUpSoon},
	{name: "a lost answer is not lost", run: lostAnswer},
	{name: "what may have been applied is ambiguous", run: ambiguous},
	{name: "histories of a broken network are linearizable", run: brokenHistories},
	{name: "a failing service does not hold a done context", run: doneContextBroken},

	{name: "list filters by operation and state", alone: true, run: lists},
	{name: "a list goes on past what cannot be read", alone: true, run: listsOn},
}

// suite is one running subtest: a store, and what is fresh for it.
type suite struct {
	testing.TB
	open   func(testing.TB) idem.Store
	store  idem.Store
	gen    uint32
	now    time.Time // by the store's clock; whole seconds
	tenant string
}

func newSuite(t testing.TB, open func(testing.TB) idem.Store) *suite {
	t.Helper()
	s := &suite{TB: t, open: open, store: open(t), tenant: "idemtest-" + rand.Text()}
	g, err := s.store.Generation(t.Context())
	if err != nil {
		t.Fatalf("generation: %v", err)
	}
	s.gen = g.Number
	if s.now = s.load(s.id()).At; s.now.IsZero() {
		s.now = time.Now()
	}
	s.now = s.now.UTC().Truncate(time.Second)
	return s
}

// need returns the store as T, or skips the subtest.
func need[T any](s *suite) T {
	s.Helper()
	v, ok := s.store.(T)
	if !ok {
		s.Skipf("the store under test is no %v", reflect.TypeFor[T]())
	}
	return v
}

// id is fresh.
func (s *suite) id() idem.ID {
	id := idem.ID{Tenant: s.tenant, Operation: "idemtest"}
	rand.Read(id.Key[:])
	return id
}

// record is a fresh one, of which only what every record has is set.
func (s *suite) record(state idem.State) idem.Record {
	r := idem.Record{ID: s.id(), Version: version(), State: state, Generation: s.gen, Fence: 1, Life: 1}
	if state != idem.Pending && state != idem.Indeterminate {
		r.Expires = s.now.Add(24 * time.Hour)
	}
	return r
}

// full is a fresh record with everything set that its state may have.
func (s *suite) full(state idem.State) idem.Record {
	r := s.record(state)
	rand.Read(r.Fingerprint[:])
	r.Begun, r.Fence, r.Life = true, 1<<44+7, 1<<44+2
	r.Lease, r.Started = s.now.Add(time.Minute+123*time.Millisecond), s.now.Add(-time.Second+time.Millisecond)
	r.Attempts, r.Asks, r.Reason = 3, 4, idem.Panicked
	r.Since, r.AskAfter = s.now.Add(5*time.Millisecond), s.now.Add(time.Hour+6*time.Millisecond)
	r.Settle, r.Retain = 15*time.Minute, 36*time.Hour
	r.Note, r.Evidence = sealed(r.Fence-1, 20), sealed(r.Fence-2, 30)
	r.Resolved = idem.Resolution{By: "operator", Why: "the provider says so", At: s.now.Add(7 * time.Millisecond)}
	if state == idem.Completed || state == idem.Failed {
		r.Receipt = sealed(r.Fence, 40)
	}
	return r
}

// next is r as another write.
func next(r idem.Record) idem.Record {
	r.Version = version()
	return r
}

func version() (v idem.Version) {
	rand.Read(v[:])
	return v
}

func sealed(fence uint64, n int) idem.Sealed {
	b := make([]byte, n)
	rand.Read(b)
	return idem.Sealed{Fence: fence, Bytes: b}
}

// create stores r, which must become the holder.
func (s *suite) create(r idem.Record) idem.Record {
	s.Helper()
	return s.own(r)(s.store.Create(s.Context(), r))
}

// swap stores r over seen, and must become the holder.
func (s *suite) swap(seen idem.Version, r idem.Record) idem.Record {
	s.Helper()
	return s.own(r)(s.store.Swap(s.Context(), seen, r))
}

func (s *suite) own(r idem.Record) func(idem.Record, error) idem.Record {
	return func(got idem.Record, err error) idem.Record {
		s.Helper()
		switch {
		case err != nil:
			s.Fatalf("write of %v, %v: %v", r.ID, r.State, err)
		case got.Version != r.Version:
			s.Fatalf("write of %v, %v: the holder is %s, want one's own", r.ID, r.State, show(got))
		}
		return got
	}
}

func (s *suite) load(id idem.ID) idem.Record {
	s.Helper()
	return s.from(s.store, id)
}

// from loads from one of the stores.
func (s *suite) from(store idem.Store, id idem.ID) idem.Record {
	s.Helper()
	r, err := store.Load(s.Context(), id)
	if err != nil {
		s.Fatalf("load %v: %v", id, err)
	}
	return r
}

// fetch reads what is kept beside r.
func (s *suite) fetch(store idem.Store, r idem.Record) idem.Record {
	s.Helper()
	full, err := store.Fetch(s.Context(), r)
	if err != nil {
		s.Fatalf("fetch %v: %v", r.ID, err)
	}
	return full
}

// holds checks that want holds its ID, as it was written.
func (s *suite) holds(want idem.Record) {
	s.Helper()
	s.equal("load", want, s.load(want.ID))
}

// absent checks that nothing holds the ID.
func (s *suite) absent(id idem.ID) {
	s.Helper()
	if r := s.load(id); r.State != 0 {
		s.Errorf("load %v: got %s, want none", id, show(r))
	}
}

// refused checks an answer to a write that another record, or none, was in the way of. An error is none.
func (s *suite) refused(what string, want idem.Record) func(idem.Record, error) {
	return func(got idem.Record, err error) {
		s.Helper()
		switch {
		case err != nil:
			s.Errorf("%s: got error %v, want the holder: a refusal is not an error", what, err)
		case want.State == 0 && got.State != 0:
			s.Errorf("%s: got %s, want none", what, show(got))
		case want.State != 0:
			s.equal(what, want, got)
		}
	}
}

// notApplied checks that an error does not leave open whether the write was applied.
func (s *suite) notApplied(what string, err error) {
	s.Helper()
	switch {
	case err == nil:
		s.Errorf("%s: got no error", what)
	case errors.Is(err, idem.ErrAmbiguous):
		s.Errorf("%s: %v: ambiguous, want a plain refusal", what, err)
	}
}

func (s *suite) equal(what string, want, got idem.Record) {
	s.Helper()
	if got.Receipt.Ref != "" && len(got.Receipt.Bytes) == 0 {
		got = s.fetch(s.store, got)
	}
	for _, d := range diff(want, got) {
		s.Errorf("%s of %v, %v: %s", what, want.ID, want.State, d)
	}
}

// show names a record in a message.
func show(r idem.Record) string {
	if r.State == 0 {
		return "none"
	}
	return r.State.String() + " of version " + hex.EncodeToString(r.Version[:4])
}
