package idemtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// Memory is an [idem.Store] and an [idem.Lister] in memory, for tests. It gives back what DynamoDB would: bytes of its own,
// times and durations rounded, the store's clock in every answer; and it refuses what DynamoDB would.
//
// It watches the protocol: a write that no correct protocol makes (invariants.go lists them) is applied, and fails the test.
//
// Its clock stands still. Only [Memory.Advance] moves it, so tests need no sleep.
type Memory struct {
	t testing.TB

	mu     sync.Mutex
	now    time.Time
	gen    idem.Generation
	items  map[idem.ID]*item
	beside map[string][]byte                   // large receipts, by their Ref; they outlive their record
	high   map[idem.ID]uint64                  // highest fence an ID ever had, also of what was removed or restored away
	writes map[idem.Version]uint64             // what each version was written with, refused or not: see digest
	calls  map[string]int                      // by name
	fail   func(string, idem.ID) (bool, error) // nil: no faults
}

// item is what holds an ID. It never changes, so snapshots share it.
type item struct {
	record  idem.Record
	unknown Unknown // what a newer version of the library left in it
}

var (
	_ idem.Store  = (*Memory)(nil)
	_ idem.Lister = (*Memory)(nil)
)

// NewMemory returns an empty store of generation 0. Its clock stands at the time of this call. A nil t is for examples, which
// have none: what would fail the test panics.
func NewMemory(t testing.TB) *Memory {
	return &Memory{
		t:      t,
		now:    millis(time.Now()),
		items:  make(map[idem.ID]*item),
		beside: make(map[string][]byte),
		high:   make(map[idem.ID]uint64),
		writes: make(map[idem.Version]uint64),
		calls:  make(map[string]int),
	}
}

// Create implements [idem.Store].
func (m *Memory) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	return m.write(ctx, "Create", write{create: true, record: r})
}

// Swap implements [idem.Store].
func (m *Memory) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	return m.write(ctx, "Swap", write{seen: seen, record: r})
}

// Load implements [idem.Store].
func (m *Memory) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	if _, err := m.before(ctx, "Load", id); err != nil {
		return idem.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answer(id)
}

// Fetch implements [idem.Store].
func (m *Memory) Fetch(ctx context.Context, r idem.Record) (idem.Record, error) {
	if _, err := m.before(ctx, "Fetch", r.ID); err != nil {
		return idem.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Receipt.Ref == "" {
		return r, nil
	}
	b, ok := m.beside[r.Receipt.Ref]
	if !ok {
		return idem.Record{}, refusef("fetch %v: a part of the receipt is missing", r.ID)
	}
	r.Receipt.Bytes = slices.Clone(b)
	return r, nil
}

// Generation implements [idem.Store].
func (m *Memory) Generation(ctx context.Context) (idem.Generation, error) {
	if _, err := m.before(ctx, "Generation", idem.ID{}); err != nil {
		return idem.Generation{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.gen
	g.At = m.now
	return g, nil
}

// List implements [idem.Lister], in the order of [Memory.Records].
func (m *Memory) List(ctx context.Context, operation string, states ...idem.State) iter.Seq2[idem.Record, error] {
	return func(yield func(idem.Record, error) bool) {
		if _, err := m.before(ctx, "List", idem.ID{}); err != nil {
			yield(idem.Record{}, err)
			return
		}
		for _, id := range m.ids() {
			if operation != "" && id.Operation != operation {
				continue
			}
			m.mu.Lock()
			r, err := m.answer(id)
			m.mu.Unlock()
			switch {
			case ctx.Err() != nil:
				err = fmt.Errorf("idemtest: list: %w", ctx.Err())
			case err == nil && r.State == 0: // removed since
				continue
			case err == nil && len(states) > 0 && !slices.Contains(states, r.State):
				continue
			}
			if _, unreadable := errors.AsType[refusal](err); unreadable {
				r = idem.Record{ID: id}
			} else if err != nil {
				yield(r, err)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Now is the store's clock.
func (m *Memory) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the store's clock on. Nothing expires by it: see [Memory.Expire].
func (m *Memory) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = millis(m.now.Add(d))
}

// Expire removes what is past its Expires by the store's clock, and nothing else, as DynamoDB's TTL does sooner or later.
func (m *Memory) Expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.items, func(_ idem.ID, i *item) bool {
		return !i.record.Expires.IsZero() && m.now.After(i.record.Expires)
	})
}

// Snapshot is what a [Memory] held at one time.
type Snapshot struct{ items map[idem.ID]*item }

// Snapshot returns what the store holds now, for [Memory.Restore].
func (m *Memory) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{maps.Clone(m.items)}
}

// Restore makes the store the table that was restored from s and adopted as g: every write of another generation is refused
// from now on, also one that is still under way. The clock goes on.
func (m *Memory) Restore(s Snapshot, g idem.Generation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.Watermark, g.Quiet, g.Until = millis(g.Watermark), millis(g.Quiet), millis(g.Until)
	m.items, m.gen = maps.Clone(s.items), g
	if m.items == nil {
		m.items = make(map[idem.ID]*item)
	}
}

// Records returns copies of all records that are known to this version, ordered by tenant, operation and key.
func (m *Memory) Records() []idem.Record {
	var rs []idem.Record
	for _, id := range m.ids() {
		m.mu.Lock()
		r, err := m.answer(id)
		m.mu.Unlock()
		if err == nil && r.State != 0 {
			rs = append(rs, r)
		}
	}
	return rs
}

// Calls tells how often each method of [idem.Store] and [idem.Lister] was called, by its name.
func (m *Memory) Calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.calls)
}

func (m *Memory) ids() []idem.ID {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.items))
	m.mu.Unlock()
	slices.SortFunc(ids, func(a, b idem.ID) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Key[:], b.Key[:]))
	})
	return ids
}

// write is one conditional write, as it would be on the wire.
type write struct {
	create bool
	seen   idem.Version
	record idem.Record
}

func (m *Memory) write(ctx context.Context, call string, w write) (idem.Record, error) {
	w.record = stored(w.record)
	apply, err := m.before(ctx, call, w.record.ID)
	if err != nil {
		m.mistake(call, w, apply, err)
		return idem.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.apply(w)
}

// apply carries a write out, or refuses it. m.mu is held.
func (m *Memory) apply(w write) (idem.Record, error) {
	if err := m.refuse(w.record); err != nil {
		return idem.Record{}, err
	}
	m.once(w)
	old := m.items[w.record.ID]
	switch {
	case old != nil && known(old) != nil: // falls to answer, which says so
	case w.create && old == nil, !w.create && old != nil && old.record.Version == w.seen:
		n := &item{record: m.spill(w.record)}
		if old != nil {
			n.unknown = old.unknown
			m.swapped(old.record, n.record)
		} else {
			m.written(n.record)
		}
		m.items[w.record.ID] = n
	}
	return m.answer(w.record.ID)
}

// inline is the largest receipt that stays in its record.
const inline = 4 << 10

// spill takes a large receipt out of its record. A Ref that comes with bytes is that of another receipt. m.mu is held.
func (m *Memory) spill(r idem.Record) idem.Record {
	if len(r.Receipt.Bytes) > 0 {
		r.Receipt.Ref = ""
	}
	if len(r.Receipt.Bytes) > inline {
		r.Receipt.Ref = fmt.Sprintf("%v %x", r.ID, r.Version)
		m.beside[r.Receipt.Ref], r.Receipt.Bytes = r.Receipt.Bytes, nil
	}
	return r
}

// answer is a copy of what holds the ID. m.mu is held.
func (m *Memory) answer(id idem.ID) (idem.Record, error) {
	i := m.items[id]
	if i == nil {
		return idem.Record{At: m.now}, nil
	}
	if err := known(i); err != nil {
		return idem.Record{}, err
	}
	r := i.record
	r.Receipt, r.Note, r.Evidence = clone(r.Receipt), clone(r.Note), clone(r.Evidence)
	r.At = m.now
	return r, nil
}

// stored is r as a table keeps it: see [idem.Store] on what comes back.
func stored(r idem.Record) idem.Record {
	r.Receipt, r.Note, r.Evidence = clone(r.Receipt), clone(r.Note), clone(r.Evidence)
	r.Lease, r.Started, r.Since, r.AskAfter = millis(r.Lease), millis(r.Started), millis(r.Since), millis(r.AskAfter)
	r.Resolved.At = millis(r.Resolved.At)
	r.Settle, r.Retain = r.Settle.Truncate(time.Second), r.Retain.Truncate(time.Second)
	if e := millis(r.Expires); !e.IsZero() {
		if r.Expires = e.Truncate(time.Second); r.Expires.Before(e) {
			r.Expires = r.Expires.Add(time.Second)
		}
	}
	r.At = time.Time{}
	return r
}

func millis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func clone(s idem.Sealed) idem.Sealed {
	if len(s.Bytes) == 0 {
		s.Bytes = nil
		return s
	}
	s.Bytes = slices.Clone(s.Bytes)
	return s
}
