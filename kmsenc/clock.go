package kmsenc

import "time"

// clock counts time that never goes slower than either clock of the machine. The monotonic clock stands still while Lambda has
// the process frozen; the wall clock can be set. Where the wall clock went back, nobody knows how long it was: then so much time
// is counted that every key is too old. Not for concurrent use.
type clock struct {
	read       func() (wall, mono time.Duration) // since any fixed moment
	wall, mono time.Duration                     // as read last
	elapsed    time.Duration
}

func newClock() clock {
	start := time.Now()
	return clock{read: func() (wall, mono time.Duration) {
		now := time.Now()
		return now.Round(0).Sub(start.Round(0)), now.Sub(start)
	}}
}

func (c *clock) now() time.Duration {
	wall, mono := c.read()
	if wall < c.wall {
		c.elapsed += maxHardAge
	} else {
		c.elapsed += max(wall-c.wall, mono-c.mono)
	}
	c.wall, c.mono = wall, mono
	return c.elapsed
}
