package kmsenc

import (
	"encoding/binary"
	"strings"
)

// An envelope, version 1, is, big endian:
//
//	 0  2  magic "KE"
//	 2  1  version 1
//	 3  1  suite 1: HKDF-Expand-SHA-512, AES-256-GCM with a random nonce, commits to data key and binding
//	 4  1  flags 0
//	 5  1  key block 1: a data key wrapped by KMS (2 is set aside for keys kept in the table)
//	 6  8  hint of the KMS key
//	14  2  n, the length of the wrapped key, 1 to 1,024
//	16  n  wrapped key
//	  +32  salt
//	  +32  commitment
//	  +12  nonce
//	   +m  ciphertext
//	  +16  tag
//
// With p(x) for x behind its length in 4 bytes, and | for one after the other:
//
//	hint       = SHA-256("kmsenc/1 hint\x00" | p(partition) | p(account) | p(Region, empty for mrk- keys) | p(key id)), 8 bytes of it
//	bound      = SHA-256("kmsenc/1 binding\x00" | p(namespace) | p(binding))
//	key, commitment = HKDF-Expand-SHA-512(data key, "kmsenc/1 derive\x00" | first 6 bytes | salt | bound), 32 bytes each
//	additional data = first 6 bytes | salt | commitment | bound
//
// So it has 108+n bytes more than the text in it. Nothing in it is negotiated: whatever differs from this in the first six bytes
// is refused before anything is done with the rest.
type envelope struct {
	hint             [hintSize]byte
	wrapped          []byte
	salt, commitment []byte
	body             []byte // nonce, ciphertext and tag
}

const (
	prefixV1   = "KE\x01\x01\x00\x01" // magic, version, suite, flags, key block
	hintSize   = 8
	headerSize = len(prefixV1) + hintSize + 2
	saltSize   = 32
	commitSize = 32
	nonceSize  = 12
	tagSize    = 16
	fixedSize  = headerSize + saltSize + commitSize + nonceSize + tagSize

	maxWrapped = 1 << 10  // bytes; KMS makes up to 184 of them today
	maxText    = 16 << 20 // bytes of plaintext in one envelope
)

// parse takes exactly what [envelope.append] makes. The parts share b's memory.
func parse(b []byte) (envelope, error) {
	var e envelope
	switch {
	case strings.HasPrefix(string(b[:min(len(b), 4)]), "S0UB"):
		return e, malformed("it looks like base64 of a sealed text: it is to be stored as bytes")
	case len(b) < fixedSize || string(b[:2]) != prefixV1[:2]:
		return e, malformed("")
	case string(b[:len(prefixV1)]) != prefixV1:
		return e, malformed("it has a version or form that this version of kmsenc does not know")
	}
	n := int(binary.BigEndian.Uint16(b[len(prefixV1)+hintSize:]))
	if n == 0 || n > maxWrapped || len(b) < fixedSize+n || len(b) > fixedSize+n+maxText {
		return e, malformed("")
	}
	copy(e.hint[:], b[len(prefixV1):])
	take := func(from, n int) []byte { return b[from : from+n : from+n] }
	e.wrapped = take(headerSize, n)
	e.salt = take(headerSize+n, saltSize)
	e.commitment = take(headerSize+n+saltSize, commitSize)
	at := headerSize + n + saltSize + commitSize
	e.body = take(at, len(b)-at)
	return e, nil
}

// append writes the envelope behind dst.
func (e envelope) append(dst []byte) []byte {
	dst = append(dst, prefixV1...)
	dst = append(dst, e.hint[:]...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.wrapped)))
	dst = append(dst, e.wrapped...)
	dst = append(dst, e.salt...)
	dst = append(dst, e.commitment...)
	return append(dst, e.body...)
}
