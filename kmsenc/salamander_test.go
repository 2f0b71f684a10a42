package kmsenc_test

import (
	"bytes"
	"crypto/aes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/idem-go/idem/kmsenc"
)

// CVE-2020-8897 and its like: AES-GCM alone does not commit to its key, so one ciphertext can be made to open under two. Here the
// forger even chooses both data keys; GCM accepts, the commitment does not.
func TestOneTextDoesNotOpenUnderTwoDataKeys(t *testing.T) {
	one, two := [32]byte{1}, [32]byte{2}
	bound := kmsenc.Digest("idem", here.binding())
	sealed, err := kmsenc.SealWith(one, [8]byte{}, []byte("wrapped"), "idem", here.binding(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := kmsenc.Parse(sealed)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([][]byte, 2)
	for i, k := range []*[32]byte{&one, &two} {
		if keys[i], err = kmsenc.Derive(k, e.Salt(), bound); err != nil {
			t.Fatal(err)
		}
	}
	aad := kmsenc.Authenticated(e.Salt(), e.Commitment(), bound)
	nonce := make([]byte, 12)
	rand.Read(nonce)
	body := append(nonce, salamander(keys[0][:32], keys[1][:32], nonce, aad, 8)...)
	var texts [][]byte
	for i, k := range keys {
		text, err := kmsenc.AEAD(k[:32]).Open(nil, nil, body, aad)
		if err != nil {
			t.Fatalf("GCM refuses key %d: the forgery is not one", i+1)
		}
		texts = append(texts, text)
	}
	if bytes.Equal(texts[0], texts[1]) {
		t.Fatal("the same plaintext twice")
	}
	forged := e.With(body).Append(nil)
	if _, err := kmsenc.OpenWith(one, forged, "idem", here.binding()); err != nil {
		t.Fatalf("under its own key: %v", err)
	}
	if _, err := kmsenc.OpenWith(two, forged, "idem", here.binding()); !errors.Is(err, kmsenc.ErrTampered) {
		t.Fatalf("under the other key: %v", err)
	}
}

// element is one of GF(2^128) in GCM's bit order.
type element struct{ hi, lo uint64 }

func load(b []byte) element {
	return element{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func (a element) add(b element) element { return element{a.hi ^ b.hi, a.lo ^ b.lo} }

func (a element) mul(b element) (z element) {
	for i := range 128 {
		bit := a.hi >> (63 - i&63) & 1
		if i >= 64 {
			bit = a.lo >> (127 - i) & 1
		}
		if bit == 1 {
			z = z.add(b)
		}
		odd := b.lo & 1
		b = element{b.hi >> 1, b.lo>>1 | b.hi<<63}
		b.hi ^= odd * (0xe1 << 56)
	}
	return z
}

// inverse is a to the power of 2^128-2.
func (a element) inverse() element {
	r := element{1 << 63, 0}
	for i := 127; i >= 0; i-- {
		r = r.mul(r)
		if i > 0 {
			r = r.mul(a)
		}
	}
	return r
}

// salamander makes a ciphertext with tag that GCM accepts under two keys: its last block is chosen so that both tags are equal.
func salamander(one, two, nonce, aad []byte, blocks int) []byte {
	var text []element
	padded := append(bytes.Clone(aad), make([]byte, -len(aad)&15)...)
	for ; len(padded) > 0; padded = padded[16:] {
		text = append(text, load(padded))
	}
	body := make([]byte, 16*blocks)
	rand.Read(body[:16*(blocks-1)])
	for i := range blocks {
		text = append(text, load(body[16*i:]))
	}
	free := len(text) - 1
	text = append(text, element{uint64(len(aad)) * 8, uint64(blocks) * 128})
	tag := func(key []byte) (tag, h element) {
		block, err := aes.NewCipher(key)
		if err != nil {
			panic(err)
		}
		zero, counter := make([]byte, 16), append(bytes.Clone(nonce), 0, 0, 0, 1)
		block.Encrypt(zero, zero)
		block.Encrypt(counter, counter)
		h = load(zero)
		for _, x := range text {
			tag = tag.add(x).mul(h)
		}
		return tag.add(load(counter)), h
	}
	t1, h1 := tag(one)
	t2, h2 := tag(two)
	text[free] = t1.add(t2).mul(h1.mul(h1).add(h2.mul(h2)).inverse())
	t1, _ = tag(one)
	binary.BigEndian.PutUint64(body[16*(blocks-1):], text[free].hi)
	binary.BigEndian.PutUint64(body[16*(blocks-1)+8:], text[free].lo)
	body = binary.BigEndian.AppendUint64(body, t1.hi)
	return binary.BigEndian.AppendUint64(body, t1.lo)
}
