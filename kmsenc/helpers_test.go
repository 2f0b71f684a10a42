package kmsenc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

var _ idem.Sealer = (*kmsenc.Sealer)(nil)

// sealFunc is what Prepare returns.
type sealFunc = func(dst, binding, plaintext []byte) ([]byte, error)

// place is what a text belongs to. Its binding has the form of idem's.
type place struct {
	tenant, operation, key string
	fingerprint            byte
	kind                   byte
	fence                  uint64
}

var here = place{"acme", "charge", "order-1", 7, 1, 3}

func (p place) binding() []byte {
	var b []byte
	var key, fingerprint [32]byte
	copy(key[:], p.key)
	fingerprint[0] = p.fingerprint
	for _, part := range [...][]byte{[]byte("idem binding v1"), []byte(p.tenant), []byte(p.operation), key[:], fingerprint[:], {p.kind}} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, p.fence)
}

func (p place) scope() map[string]string {
	m := map[string]string{"operation": p.operation}
	if p.tenant != "" {
		m["tenant"] = p.tenant
	}
	return m
}

// newKMS gives a KMS with a key.
func newKMS(t testing.TB) (*kmstest.KMS, string) {
	k := kmstest.New(t)
	return k, k.CreateKey()
}

func newSealer(t testing.TB, api kmsenc.API, arn string, opts *kmsenc.Options) *kmsenc.Sealer {
	t.Helper()
	s, err := kmsenc.New(api, arn, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prepare(t testing.TB, s *kmsenc.Sealer, p place) sealFunc {
	t.Helper()
	f, err := s.Prepare(t.Context(), p.scope())
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	return f
}

func sealAt(t testing.TB, s *kmsenc.Sealer, p place, text string) []byte {
	t.Helper()
	b, err := prepare(t, s, p)(nil, p.binding(), []byte(text))
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	return b
}

func openAt(ctx context.Context, s *kmsenc.Sealer, p place, sealed []byte) (string, error) {
	b, err := s.Open(ctx, p.scope(), nil, p.binding(), sealed)
	return string(b), err
}

func mustOpen(t testing.TB, s *kmsenc.Sealer, p place, sealed []byte, want string) {
	t.Helper()
	if got, err := openAt(t.Context(), s, p, sealed); err != nil || got != want {
		t.Fatalf("Open: %q, %v; want %q", got, err, want)
	}
}

// mustFail checks that an error is an *Error of a kind, and of no other.
func mustFail(t testing.TB, err, kind error) *kmsenc.Error {
	t.Helper()
	e, ok := errors.AsType[*kmsenc.Error](err)
	if !ok || !errors.Is(err, kind) {
		t.Fatalf("got %T %v, want %v", err, err, kind)
	}
	for _, other := range []error{kmsenc.ErrUnavailable, kmsenc.ErrRefused, kmsenc.ErrTampered} {
		if other != kind && errors.Is(err, other) {
			t.Fatalf("%v is %v and %v", err, kind, other)
		}
	}
	if e.Retryable() != (kind == kmsenc.ErrUnavailable) {
		t.Fatalf("%v: Retryable is %v", err, e.Retryable())
	}
	return e
}

func mustRefuseText(t testing.TB, s *kmsenc.Sealer, p place, sealed []byte) *kmsenc.Error {
	t.Helper()
	got, err := openAt(t.Context(), s, p, sealed)
	if got != "" {
		t.Fatalf("Open gave %q with its error", got)
	}
	return mustFail(t, err, kmsenc.ErrTampered)
}

func mustCount(t testing.TB, k *kmstest.KMS, operation string, want int) {
	t.Helper()
	if got := k.Count(operation); got != want {
		t.Fatalf("%d calls of %q, want %d", got, operation, want)
	}
}

// flipped is a copy with one bit changed.
func flipped(b []byte, bit int) []byte {
	b = bytes.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}
