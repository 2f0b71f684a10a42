package kmsenc

import (
	"container/list"
	"time"
)

// cache is a bounded set of slots, sealing or opening ones. Its keyring's lock guards it.
type cache struct {
	soft  time.Duration // age from which a key is replaced while it still serves; 0 is never
	limit int           // slots
	share int           // slots of one scope; 0 is all
	slots map[string]*list.Element
	order list.List // of *slot, the last used first
}

// name of a data key.
type name struct {
	id    string // in its cache
	arn   string // of the KMS key that wraps it
	scope string // keyScope.id
}

// slot is what is known of one data key: the key, that somebody is asking KMS for it, or why there is none.
type slot struct {
	name

	key    *dataKey // held
	flight *flight
	until  time.Duration // KMS is not asked before
	err    *Error        // why
	failed int           // times in a row
}

// flight is one caller's request to KMS, which others may wait for. It is the caller's own goroutine that asks, so when that
// caller gives up there is no answer, and one of the others asks instead.
type flight struct {
	done chan struct{}
	over time.Duration // when nobody believes in it any more: an API that ignores its context must not block the others
}

// slot finds or makes a slot. What is in flight is never pushed out, or two callers would ask at once.
func (c *cache) slot(n name) *slot {
	if e := c.slots[n.id]; e != nil {
		return e.Value.(*slot)
	}
	if c.share > 0 {
		c.shrink(c.share-1, func(s *slot) bool { return s.scope == n.scope })
	}
	c.shrink(c.limit-1, func(*slot) bool { return true })
	s := &slot{name: n}
	c.slots[n.id] = c.order.PushFront(s)
	return s
}

// shrink pushes out what was not used for longest, until n slots are left of those that count.
func (c *cache) shrink(n int, counts func(*slot) bool) {
	if len(c.slots) <= n {
		return
	}
	have := 0
	for e := c.order.Front(); e != nil; e = e.Next() {
		if counts(e.Value.(*slot)) {
			have++
		}
	}
	for e := c.order.Back(); e != nil && have > n; {
		s, next := e.Value.(*slot), e.Prev()
		if counts(s) && s.flight == nil {
			s.drop()
			c.order.Remove(e)
			delete(c.slots, s.id)
			have--
		}
		e = next
	}
}

// used moves a slot to the front; useless to the back, to be pushed out before any that has a key.
func (c *cache) used(s *slot) {
	if e := c.slots[s.id]; e != nil && e.Value == s {
		c.order.MoveToFront(e)
	}
}

func (c *cache) useless(s *slot) {
	if e := c.slots[s.id]; e != nil && e.Value == s {
		c.order.MoveToBack(e)
	}
}

// evict drops keys; their slots stay, with what is known of failures.
func (c *cache) evict(which func(*slot) bool) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*slot); which(s) {
			s.drop()
		}
	}
}

// put stores a key, which becomes held.
func (s *slot) put(k *dataKey) {
	k.hold()
	s.drop()
	s.key, s.err, s.until, s.failed = k, nil, 0, 0
}

func (s *slot) drop() {
	if s.key != nil {
		s.key.release()
		s.key = nil
	}
}
