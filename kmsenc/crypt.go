package kmsenc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
)

// digest is what an envelope is bound to: namespace and binding, each behind its length.
func digest(namespace string, binding []byte) [32]byte {
	b := make([]byte, 0, 512)
	b = append(b, "kmsenc/1 binding\x00"...)
	b = appendPart(b, namespace)
	b = appendPart(b, binding)
	return sha256.Sum256(b)
}

// derive makes the key of one message and the commitment to it, 32 bytes each, out of the data key, the message's own salt and
// what it is bound to. Expand alone, as the data key is uniform (RFC 5869, 3.3). The salt of 256 random bits makes the key one of
// its own for each message, so no number of messages wears out a data key; and as the commitment comes from the same
// computation, no text opens under two data keys or two bindings, which GCM alone would allow.
func derive(dataKey *[32]byte, salt []byte, bound [32]byte) ([]byte, error) {
	info := make([]byte, 0, 128)
	info = append(info, "kmsenc/1 derive\x00"...)
	info = append(info, prefixV1...)
	info = append(info, salt...)
	info = append(info, bound[:]...)
	return hkdf.Expand(sha512.New, dataKey[:], string(info), 32+commitSize)
}

// aead is GCM that draws its nonces itself: nobody can give it one twice, and it is what FIPS 140-3 approves.
func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// authenticated is everything but the wrapped key and its hint, which [Sealer.Rewrap] replaces: a foreign wrapped key gives
// another data key, or none, and the commitment tells.
func authenticated(salt, commitment []byte, bound [32]byte) []byte {
	b := make([]byte, 0, 128)
	b = append(b, prefixV1...)
	b = append(b, salt...)
	b = append(b, commitment...)
	return append(b, bound[:]...)
}

// seal appends an envelope to a copy of dst, so that text may be anywhere, also behind dst.
func seal(dst []byte, k *dataKey, bound [32]byte, text []byte) ([]byte, error) {
	out := make([]byte, len(dst), len(dst)+fixedSize+len(k.wrapped)+len(text))
	copy(out, dst)
	var salt [saltSize]byte
	rand.Read(salt[:]) // never fails: it ends the process rather than give bad bytes
	keys, err := derive(&k.secret, salt[:], bound)
	if err != nil {
		return nil, err
	}
	defer clear(keys)
	g, err := aead(keys[:32])
	if err != nil {
		return nil, err
	}
	out = envelope{hint: k.hint, wrapped: k.wrapped, salt: salt[:], commitment: keys[32:]}.append(out)
	return g.Seal(out, nil, text, authenticated(salt[:], keys[32:], bound)), nil
}

// open appends the text to a copy of dst. Commitment and tag are checked whether or not the data key was cached, the commitment
// first: GCM never runs with a key that the text does not commit to. Both failures are the same error.
func open(dst []byte, k *dataKey, e envelope, bound [32]byte) ([]byte, error) {
	keys, err := derive(&k.secret, e.salt, bound)
	if err != nil {
		return nil, err
	}
	defer clear(keys)
	if subtle.ConstantTimeCompare(keys[32:], e.commitment) != 1 {
		return nil, tampered(nil)
	}
	g, err := aead(keys[:32])
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(dst), len(dst)+len(e.body)-nonceSize-tagSize)
	copy(out, dst)
	if out, err = g.Open(out, nil, e.body, authenticated(e.salt, e.commitment, bound)); err != nil {
		return nil, tampered(nil)
	}
	return out, nil
}
