package idemtest

import (
	"fmt"
	"math"
	"strings"
)

// op is one call on one ID. Its versions are small numbers that the history gives out; 0 is absence.
type op struct {
	kind      opKind
	seen      int   // swap: the version it demands
	version   int   // create and swap: the version it writes
	got       int   // of the record that was returned
	unknown   bool  // the write may have been applied, or may yet be
	call, ret int64 // order of all calls and answers of the history
}

type opKind string

const (
	load   opKind = "load"
	create opKind = "create"
	swap   opKind = "swap"
)

func (o op) String() string {
	s := fmt.Sprintf("%d..%d %s", o.call, o.ret, o.kind)
	switch o.kind {
	case create:
		s += fmt.Sprintf(" %d", o.version)
	case swap:
		s += fmt.Sprintf(" %d->%d", o.seen, o.version)
	}
	if o.unknown {
		return s + ": unknown"
	}
	return s + fmt.Sprintf(": %d", o.got)
}

// maxOps is how many calls a history of one ID may have.
const maxOps = 64

// linearizable says that the calls on one ID, at most maxOps of them, can be put in an order that respects who answered before
// whom was called, and in which each does and answers what [idem.Store] says. It is the search of Wing and Gong, with the
// memory that Lowe added.
//
// A write takes effect at one point and is answered by what holds the ID at a later one: "the record that holds the ID
// afterwards", as a store that repeats a write whose answer was lost may find another one there. A write whose outcome is
// unknown takes effect at any point after its call, or never.
func linearizable(ops []op) bool {
	type place struct {
		holder        int
		done, applied uint64
	}
	var all uint64
	for i, o := range ops {
		if !o.unknown {
			all |= 1 << i
		}
	}
	seen := make(map[place]bool)
	var search func(p place) bool
	search = func(p place) bool {
		switch {
		case p.done&all == all:
			return true
		case seen[p]:
			return false
		}
		seen[p] = true
		first := int64(math.MaxInt64) // who was called after this answer, comes after it
		for i, o := range ops {
			if p.done&(1<<i) == 0 && !o.unknown {
				first = min(first, o.ret)
			}
		}
		for i, o := range ops {
			bit := uint64(1) << i
			if p.done&bit != 0 || o.call > first {
				continue
			}
			fits := p.applied&bit == 0 && (o.kind == create && p.holder == 0 || o.kind == swap && p.holder == o.seen && o.seen != 0)
			n := p
			switch {
			case fits:
				n.holder, n.applied = o.version, p.applied|bit
			case !o.unknown && o.got == p.holder:
				n.done |= bit
			default:
				continue
			}
			if search(n) {
				return true
			}
		}
		return false
	}
	return search(place{})
}

func describe(ops []op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}
