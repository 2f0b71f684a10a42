package kmsenc

import (
	"crypto/cipher"
	"time"
)

// What tests see of the inside: the parser, the cryptography under a given data key, the clock and the keys in memory.

type Envelope = envelope

const (
	FixedSize  = fixedSize
	HeaderSize = headerSize
	MaxWrapped = maxWrapped
	MaxText    = maxText
	MaxOpening = maxOpening
	TenantPart = tenantPart
	MaxScopes  = maxScopes
)

var (
	Parse  = parse
	Digest = digest
	Derive = derive
)

func (e Envelope) Append(dst []byte) []byte { return e.append(dst) }
func (e Envelope) Wrapped() []byte          { return e.wrapped }
func (e Envelope) Salt() []byte             { return e.salt }
func (e Envelope) Commitment() []byte       { return e.commitment }

// With gives the envelope with another body.
func (e Envelope) With(body []byte) Envelope { e.body = body; return e }

func Hint(arn string) [8]byte {
	k, err := parseARN(arn)
	if err != nil {
		panic(err)
	}
	return k.hint()
}

// OpenWith opens under a data key, without KMS.
func OpenWith(key [32]byte, sealed []byte, namespace string, binding []byte) ([]byte, error) {
	e, err := parse(sealed)
	if err != nil {
		return nil, err
	}
	return open(nil, &dataKey{secret: key}, e, digest(namespace, binding))
}

// SealWith seals under a data key, without KMS.
func SealWith(key [32]byte, hint [8]byte, wrapped []byte, namespace string, binding, text []byte) ([]byte, error) {
	return seal(nil, &dataKey{secret: key, hint: hint, wrapped: wrapped}, digest(namespace, binding), text)
}

func AEAD(key []byte) cipher.AEAD {
	g, err := aead(key)
	if err != nil {
		panic(err)
	}
	return g
}

func Authenticated(salt, commitment []byte, bound [32]byte) []byte {
	return authenticated(salt, commitment, bound)
}

// SetClock replaces both clocks.
func (s *Sealer) SetClock(read func() (wall, mono time.Duration)) { s.ring.clock.read = read }

// Held are the data keys in the caches.
func (s *Sealer) Held() (sealing, opening []*DataKey) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	keys := func(c *cache) (all []*DataKey) {
		for e := c.order.Front(); e != nil; e = e.Next() {
			if k := e.Value.(*slot).key; k != nil {
				all = append(all, k)
			}
		}
		return all
	}
	return keys(&s.ring.sealing), keys(&s.ring.opening)
}

// Slots are how many slots there are.
func (s *Sealer) Slots() (sealing, opening int) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	return len(s.ring.sealing.slots), len(s.ring.opening.slots)
}

// Forget evicts every data key.
func (s *Sealer) Forget() {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	s.ring.sealing.evict(func(*slot) bool { return true })
	s.ring.opening.evict(func(*slot) bool { return true })
}

type DataKey = dataKey

// Wiped says that the key was overwritten. To be asked only when nobody uses it.
func (k *DataKey) Wiped() bool { return k.holders.Load() == 0 && k.secret == [32]byte{} }

// Spend uses the key up, but for n messages or bytes.
func (k *DataKey) SpendMessages(left int64) { k.messages.Store(maxMessages - left) }
func (k *DataKey) SpendBytes(left int64)    { k.bytes.Store(maxBytes - left) }
