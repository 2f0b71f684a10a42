package kmstest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"maps"
	"slices"
)

// A ciphertext is a header of 107 bytes (version, tags of key and material, zeros), then nonce, ciphertext and tag of
// AES-256-GCM. A wrapped 256-bit data key has 167 bytes, as in AWS's examples. Header and encryption context are
// authenticated.
const (
	tagSize    = 16
	headerSize = 107
	minBlob    = headerSize + 12 + 16
	maxBlob    = 6144 // of the service
)

type header [headerSize]byte

func newHeader(k *key, m [materialSize]byte) (h header) {
	h[0] = 1
	id := tagOf("key", []byte(k.id))
	copy(h[1:], id[:])
	tag := materialTag(m)
	copy(h[1+tagSize:], tag[:])
	return h
}

func (h header) key() [tagSize]byte      { return [tagSize]byte(h[1:]) }
func (h header) material() [tagSize]byte { return [tagSize]byte(h[1+tagSize:]) }

// wrap encrypts under the key's current material.
func (k *key) wrap(plaintext []byte, context map[string]string) []byte {
	m := k.material.current()
	h := newHeader(k, m)
	return aead(m).Seal(h[:], nil, plaintext, authenticated(h, context))
}

// unwrap decrypts with whichever material it was.
func (k *key) unwrap(blob []byte, context map[string]string) ([]byte, bool) {
	if len(blob) < minBlob {
		return nil, false
	}
	h := header(blob)
	m, ok := k.material.byTag(h.material())
	if !ok {
		return nil, false
	}
	p, err := aead(m).Open(nil, nil, blob[headerSize:], authenticated(h, context))
	return p, err == nil
}

func aead(m [materialSize]byte) cipher.AEAD {
	block, err := aes.NewCipher(m[:])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	g, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return g
}

// authenticated has each name and value behind its length: {"a": "bc"} is not {"ab": "c"}.
func authenticated(h header, context map[string]string) []byte {
	b := h[:]
	for _, name := range slices.Sorted(maps.Keys(context)) {
		for _, s := range [...]string{name, context[name]} {
			b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
			b = append(b, s...)
		}
	}
	return b
}
