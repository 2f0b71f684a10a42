package kmsenc_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/idem-go/idem/kmsenc"
)

// The envelope of a 167-byte wrapped key, as KMS makes it, costs 275 bytes.
func TestOverheadIs275Bytes(t *testing.T) {
	k, arn := newKMS(t)
	const text = "a result"
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, text)
	e, err := kmsenc.Parse(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(e.Wrapped()); n != 167 {
		t.Fatalf("the wrapped key has %d bytes, want 167 as KMS's", n)
	}
	if got := len(sealed) - len(text); got != 275 {
		t.Errorf("overhead of %d bytes, want 275", got)
	}
}

// CVE-2020-8912 (aws-sdk-go s3crypto): who could edit the name of the algorithm chose the algorithm. Here there is one, and every
// other value of version, suite, flags and key block is refused before KMS is asked.
func TestOtherVersionSuiteFlagsOrKeyBlockIsRefusedUnread(t *testing.T) {
	k, arn := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
	fresh := newSealer(t, k, arn, nil)
	for at := range 6 {
		for v := range 256 {
			if b := bytes.Clone(sealed); b[at] != byte(v) {
				b[at] = byte(v)
				mustRefuseText(t, fresh, here, b)
			}
		}
	}
	mustCount(t, k, "Decrypt", 0)
}

// CVE-2020-8911 (aws-sdk-go s3crypto): CBC without a MAC made a padding oracle. Every text that fails to authenticate, for whatever
// reason, gives the same error.
func TestEveryForgeryGivesTheSameError(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	sealed := sealAt(t, s, here, "a result")
	elsewhere := here
	elsewhere.key = "order-2"
	want := mustRefuseText(t, s, elsewhere, sealed).Error()
	for _, at := range []int{kmsenc.HeaderSize, kmsenc.HeaderSize + 100, kmsenc.HeaderSize + 167, kmsenc.HeaderSize + 167 + 32, kmsenc.HeaderSize + 167 + 64, len(sealed) - 20, len(sealed) - 1} {
		if got := mustRefuseText(t, s, here, flipped(sealed, at*8)).Error(); got != want {
			t.Errorf("byte %d: %q, want %q", at, got, want)
		}
	}
	for _, s := range []string{"acme", "charge", "order", arn, "Exception"} {
		if strings.Contains(want, s) {
			t.Errorf("%q tells %q", want, s)
		}
	}
}

func TestEverySingleBitFlipIsRefused(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	sealed := sealAt(t, s, here, "a result")
	for bit := range len(sealed) * 8 {
		if got, err := openAt(t.Context(), s, here, flipped(sealed, bit)); err == nil || got != "" {
			t.Fatalf("bit %d of byte %d: %q, %v", bit%8, bit/8, got, err)
		}
	}
	mustOpen(t, s, here, sealed, "a result")
}

// vault#13690, GHSA-v84f-6r39-cpfc: a wrong size of nonce or text made the cipher panic.
func TestEveryTruncationAndExtensionIsRefused(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	for _, text := range []string{"", "a result"} {
		sealed := sealAt(t, s, here, text)
		for n := range len(sealed) {
			mustRefuseText(t, s, here, sealed[:n])
			mustRefuseText(t, s, here, sealed[n+1:])
		}
		mustRefuseText(t, s, here, append(bytes.Clone(sealed), 0))
		mustOpen(t, s, here, sealed, text)
	}
}

// aws-encryption-sdk#470: a message with 65,535 encrypted data keys made as many KMS calls. The format has one, and its length is
// bounded before anything is made of it.
func TestOneWrappedKeyOfBoundedLength(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	sealed := sealAt(t, s, here, "a result")
	for _, n := range []int{0, kmsenc.MaxWrapped + 1, 6144, 65535} {
		b := append([]byte{}, sealed[:14]...)
		b = append(b, byte(n>>8), byte(n))
		b = append(b, make([]byte, 80_000)...)
		mustRefuseText(t, newSealer(t, k, arn, nil), here, b)
	}
	mustCount(t, k, "Decrypt", 0)
}

// aws-encryption-sdk-javascript#81: bodies without a bound were released unverified.
func TestTooLargeTextIsRefused(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	f := prepare(t, s, here)
	_, err := f(nil, here.binding(), make([]byte, kmsenc.MaxText+1))
	mustFail(t, err, kmsenc.ErrRefused)
	sealed := sealAt(t, s, here, "a result")
	mustRefuseText(t, newSealer(t, k, arn, nil), here, append(sealed, make([]byte, kmsenc.MaxText)...))
	mustCount(t, k, "Decrypt", 0)
}

// GHSA-55xh-53m6-936r, CVE-2024-23680: plaintext was released before it was verified. Nothing comes with an error, and what the
// caller passes as dst stays as it was.
func TestErrorsReleaseNothingAndLeaveDstAlone(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	sealed := sealAt(t, s, here, "a result")
	dst := append(make([]byte, 0, 4096), "before"...)
	out, err := s.Open(t.Context(), here.scope(), dst, here.binding(), flipped(sealed, len(sealed)*8-1))
	if err == nil || out != nil {
		t.Fatalf("%q, %v", out, err)
	}
	if whole := dst[:cap(dst)]; string(dst) != "before" || !bytes.Equal(whole[6:], make([]byte, 4096-6)) {
		t.Error("dst was written to")
	}
}

// Both directions append to a copy, so that dst may share memory with what is read.
func TestAppendsAlsoWhereBuffersOverlap(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	text := append(make([]byte, 0, 4096), "a result"...)
	sealed, err := prepare(t, s, here)(text[:0], here.binding(), text)
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, s, here, sealed, "a result")
	got, err := s.Open(t.Context(), here.scope(), sealed[:0], here.binding(), sealed)
	if err != nil || string(got) != "a result" {
		t.Fatalf("%q, %v", got, err)
	}
	got, err = s.Open(t.Context(), here.scope(), []byte("before "), here.binding(), sealed)
	if err != nil || string(got) != "before a result" {
		t.Fatalf("%q, %v", got, err)
	}
	sealed, err = prepare(t, s, here)([]byte("before "), here.binding(), []byte("x"))
	if err != nil || !bytes.HasPrefix(sealed, []byte("before KE")) {
		t.Fatalf("%q, %v", sealed, err)
	}
}

// CVE-2022-2582 (aws-sdk-go s3crypto): a digest of the plaintext beside the ciphertext let it be guessed. Equal texts under equal
// bindings share nothing but the wrapped key.
func TestNothingInTheEnvelopeDependsOnTheText(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	a, b := sealAt(t, s, here, "a result"), sealAt(t, s, here, "a result")
	after := kmsenc.HeaderSize + 167
	if !bytes.Equal(a[:after], b[:after]) {
		t.Error("one data key, and two wrapped keys")
	}
	for i := after; i+8 <= len(a); i++ {
		if bytes.Contains(b[after:], a[i:i+8]) {
			t.Fatalf("8 bytes at %d are in both", i)
		}
	}
}

func TestBase64IsToldApart(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	b := base64.StdEncoding.EncodeToString(sealAt(t, s, here, "a result"))
	if e := mustRefuseText(t, s, here, []byte(b)); !strings.Contains(e.Error(), "base64") {
		t.Error(e)
	}
}

func TestTextsOfEverySizeOpen(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	for _, n := range []int{0, 1, 15, 16, 17, 1 << 10, 1 << 16, 6 << 20, kmsenc.MaxText} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mustOpen(t, s, here, sealAt(t, s, here, strings.Repeat("x", n)), strings.Repeat("x", n))
		})
	}
	mustCount(t, k, "", 1)
}

// What parses is what seals, to the byte: there are no two envelopes of the same meaning.
func FuzzParse(f *testing.F) {
	sealed, err := kmsenc.SealWith([32]byte{1}, [8]byte{2}, []byte("wrapped"), "idem", here.binding(), []byte("a result"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("IDEMCLEAR1{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := kmsenc.Parse(b)
		if err == nil && !bytes.Equal(e.Append(nil), b) {
			t.Fatal("parsed, and encodes as something else")
		}
	})
}

// Nothing but what was sealed opens, whatever the bytes are; and nothing panics.
func FuzzOpen(f *testing.F) {
	k, arn := newKMS(f)
	s := newSealer(f, k, arn, nil)
	sealed := sealAt(f, s, here, "a result")
	f.Add(sealed)
	f.Add(sealed[:len(sealed)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := openAt(t.Context(), s, here, b)
		if err == nil && !bytes.Equal(b, sealed) || err != nil && got != "" {
			t.Fatalf("%x opens as %q, %v", b, got, err)
		}
	})
}
