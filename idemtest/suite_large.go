package idemtest

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/idem-go/idem"
)

// large is a receipt that no item holds, and of a size that divides into nothing.
const large = 400<<10 + 17

// largeComeBack writes what is just small enough for one item, just too large, and the largest there is.
func largeComeBack(s *suite) {
	reader := s.open(s)
	for _, n := range []int{300 << 10, 400 << 10, large, 6 << 20} {
		r := s.full(idem.Pending)
		s.create(r)
		c := next(r)
		c.State, c.Receipt, c.Expires = idem.Completed, sealed(r.Fence, n), s.now.Add(time.Hour)
		given := slices.Clone(c.Receipt.Bytes)
		got := s.swap(r.Version, c)
		if !bytes.Equal(given, c.Receipt.Bytes) {
			s.Errorf("receipt of %d bytes: swap changed the bytes it was given", n)
		}
		for i := range got.Receipt.Bytes { // an answer is not what is kept
			got.Receipt.Bytes[i] ^= 0xff
		}
		clear(c.Receipt.Bytes) // nor is what was given
		c.Receipt.Bytes = given
		loaded := s.from(reader, r.ID)
		s.equal("load", c, loaded)
		if loaded.Receipt.Ref == "" {
			continue
		}
		full := s.fetch(reader, loaded)
		clear(full.Receipt.Bytes)
		if !bytes.Equal(s.fetch(reader, loaded).Receipt.Bytes, given) {
			s.Errorf("receipt of %d bytes: what was fetched is what is kept", n)
		}
	}
	late := s.full(idem.Completed)
	late.Receipt = sealed(late.Fence, large)
	s.create(late)
	r := s.record(idem.Pending)
	r.ID = late.ID
	s.refused("create over a large receipt", late)(s.store.Create(s.Context(), r))
}

func passedOn(s *suite) {
	r := s.full(idem.Completed)
	r.Receipt = sealed(r.Fence, large)
	s.create(r)
	want := r.Receipt.Bytes
	step := func(what string, change func(*idem.Record)) {
		s.Helper()
		seen := s.load(r.ID)
		n := next(seen)
		change(&n)
		s.swap(seen.Version, n)
		n.Receipt.Bytes = want
		got := s.load(r.ID)
		s.equal("load after "+what, n, got)
	}
	step("a verdict", func(n *idem.Record) { n.Resolved.By = "somebody" })
	step("an earlier expiry", func(n *idem.Record) { n.Expires = n.Expires.Add(-time.Minute) })
	step("a later expiry", func(n *idem.Record) { n.Expires = n.Expires.Add(90 * 24 * time.Hour) })
	step("none", func(n *idem.Record) { n.Expires = time.Time{} })
	step("an expiry again", func(n *idem.Record) { n.Expires = s.now.Add(time.Hour) })
	step("a doubt", func(n *idem.Record) { n.State, n.Expires, n.Resolved.By = idem.Indeterminate, time.Time{}, "operator" })

	seen := s.load(r.ID) // with its Ref
	other := sealed(r.Fence, large)
	want = other.Bytes
	step("other bytes", func(n *idem.Record) {
		n.State, n.Expires, n.Receipt.Bytes = idem.Completed, s.now.Add(time.Hour), slices.Clone(other.Bytes)
	})
	want = sealed(r.Fence, 10).Bytes
	step("few bytes", func(n *idem.Record) { n.Receipt.Ref, n.Receipt.Bytes = seen.Receipt.Ref, slices.Clone(want) })
	want = nil
	step("no bytes", func(n *idem.Record) { n.Receipt = idem.Sealed{Fence: r.Fence} })
}

func tornReceipt(s *suite) {
	m := need[Meddler](s)
	r := s.full(idem.Completed)
	r.Receipt = sealed(r.Fence, large)
	s.create(r)
	torn, err := m.Tear(s.Context(), r.ID)
	switch {
	case err != nil:
		s.Fatalf("tear: %v", err)
	case !torn:
		return // one that is kept in the record cannot be torn
	}
	got := s.load(r.ID)
	full, err := s.store.Fetch(s.Context(), got)
	if final, ok := errors.AsType[retryable](err); !ok || final.Retryable() {
		s.Errorf("fetch of a torn receipt: %d bytes, error %v, want one whose Retryable() is false", len(full.Receipt.Bytes), err)
	}
	n := s.record(idem.Pending)
	n.ID = r.ID
	if got, err := s.store.Create(s.Context(), n); err != nil || got.Version != r.Version {
		s.Errorf("create over a torn receipt: %s, error %v, want the holder", show(got), err)
	}
}

func nothingToFetch(s *suite) {
	absent := s.load(s.id())
	if got := s.fetch(s.store, absent); got.State != 0 {
		s.Errorf("fetch of nothing: got %s", show(got))
	}
	for state := idem.Pending; state <= idem.Released; state++ {
		r := s.full(state)
		s.create(r)
		s.equal("fetch", r, s.fetch(s.store, s.load(r.ID)))
	}
}
