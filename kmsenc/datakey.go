package kmsenc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// dataKey is one data key, as KMS gave it: in clear, and wrapped. Whoever uses it holds it; it is overwritten when the last one
// lets it go, so never under a seal function that was already given out.
type dataKey struct {
	born time.Duration // by the keyring's clock, before KMS was asked

	// Of sealing keys alone:
	hint     [hintSize]byte
	wrapped  []byte
	opening  string // openingID
	messages atomic.Int64
	bytes    atomic.Int64

	holders atomic.Int64
	secret  [32]byte

	mu   sync.Mutex
	grip weak.Pointer[grip]
}

// grip is how prepared seal functions hold a data key. Nobody says when an attempt is over; that nobody can reach its seal function
// any more says it. The functions that are prepared between two runs of the garbage collector have one in common.
type grip struct{ *dataKey }

// grasp is called by holders; what it returns holds the key until it is unreachable.
func (k *dataKey) grasp() *grip {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.grip.Value()
	if g == nil {
		g = &grip{k}
		k.hold()
		k.grip = weak.Make(g)
		runtime.AddCleanup(g, (*dataKey).release, k)
	}
	return g
}

// With a key of its own for each message these are no limits of the cipher; they bound what one stolen data key opens.
const (
	maxMessages = 1 << 20
	maxBytes    = 16 << 30
)

// spent says that no further attempt gets the key; worn, that it is time for another.
func (k *dataKey) spent() bool { return k.messages.Load() >= maxMessages || k.bytes.Load() >= maxBytes }
func (k *dataKey) worn() bool {
	return k.messages.Load() >= maxMessages/8*7 || k.bytes.Load() >= maxBytes/8*7
}

// hold is called by holders, and under the keyring's lock for a key in a cache, which is a holder.
func (k *dataKey) hold() { k.holders.Add(1) }

func (k *dataKey) release() {
	if k.holders.Add(-1) == 0 {
		clear(k.secret[:])
	}
}
