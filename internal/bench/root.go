package main

import (
	"context"
	"fmt"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
)

// rootOnly measures the root package by itself: Do over the memory store, and the memory store's own share of that.
type rootOnly struct {
	store *idemtest.Memory
	op    *idem.Operation[charge]
	seen  []idem.Record // what a first execution writes
}

func newRootOnly() (*rootOnly, error) {
	r := &rootOnly{store: idemtest.NewMemory(nil)}
	kept := &keeper{Store: r.store}
	op, err := idem.New[charge](kept, idem.InsecureCleartext(), "charge", &idem.Options{Lease: 60e9})
	if err != nil {
		return nil, err
	}
	if _, err := op.Do(context.Background(), request("kept"), charges); err != nil {
		return nil, err
	}
	r.seen = kept.written
	r.op, err = idem.New[charge](r.store, idem.InsecureCleartext(), "charge", &idem.Options{Lease: 60e9})
	return r, err
}

// keeper keeps what is written.
type keeper struct {
	idem.Store
	written []idem.Record
}

func (k *keeper) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	k.written = append(k.written, r)
	return k.Store.Create(ctx, r)
}

func (k *keeper) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	k.written = append(k.written, r)
	return k.Store.Swap(ctx, seen, r)
}

func (r *rootOnly) sides(name string) (first, firstStore, replay, replayStore side) {
	first = side{"root: first execution", func(ctx context.Context, round, i int) error {
		_, err := r.op.Do(ctx, request(fmt.Sprint(name, round, "-", i)), charges)
		return err
	}}
	firstStore = side{"memory store: its two writes", func(ctx context.Context, round, i int) error {
		claim, outcome := r.seen[0], r.seen[1]
		mark(&claim, round, i, 1)
		mark(&outcome, round, i, 2)
		if _, err := r.store.Generation(ctx); err != nil {
			return err
		}
		if _, err := r.store.Create(ctx, claim); err != nil {
			return err
		}
		_, err := r.store.Swap(ctx, claim.Version, outcome)
		return err
	}}
	replay = side{"root: replay", func(ctx context.Context, _, _ int) error {
		_, err := r.op.Do(ctx, request("kept"), charges)
		return err
	}}
	replayStore = side{"memory store: its refused write", func(ctx context.Context, round, i int) error {
		claim := r.seen[0]
		claim.Version = idem.Version{1, byte(round), byte(i), byte(i >> 8), byte(i >> 16)}
		if _, err := r.store.Generation(ctx); err != nil {
			return err
		}
		_, err := r.store.Create(ctx, claim)
		return err
	}}
	return first, firstStore, replay, replayStore
}

// mark gives a record a key and a version of its own.
func mark(r *idem.Record, round, i, n int) {
	own := [8]byte{byte(n), byte(round), byte(i), byte(i >> 8), byte(i >> 16), 7}
	copy(r.Version[8:], own[:])
	own[0] = 0
	copy(r.ID.Key[:], own[:])
}
