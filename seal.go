package idem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
)

// Sealer protects what is recorded. It uses builtin types only, so that implementations need not import this package.
//
// Prepare may call a key service; it comes before the claim, so a sealer that cannot seal means that nothing was written and
// nothing ran. The seal function it returns does no I/O, stays usable as long as the attempt lives and may be called
// concurrently; it appends to dst. Open returns what seal was given, or an error.
//
// The scope tells tenant and operation and never has an empty value. The binding says which record, tenant, operation,
// fingerprint, kind and attempt the text belongs to: Open must fail where any byte of it differs from what seal was given.
//
// An error with a method Retryable() bool that returns false says that sending the same request again is no use.
type Sealer interface {
	Prepare(ctx context.Context, scope map[string]string) (seal func(dst, binding, plaintext []byte) ([]byte, error), err error)
	Open(ctx context.Context, scope map[string]string, dst, binding, sealed []byte) ([]byte, error)
}

// kind of a sealed text.
type kind uint8

const (
	kindResult kind = iota + 1
	kindFailure
	kindNote
	kindEvidence
)

// bindingV1 names what a sealed text belongs to: record, tenant, operation, fingerprint, kind, and the fence of the attempt
// that sealed it. Only what never changes while the text is kept is in it: not the state, the lease or the expiry.
// Stored texts depend on it; another form is another version, this one stays.
func bindingV1(id ID, fingerprint [32]byte, k kind, fence uint64) []byte {
	b := make([]byte, 0, 160+len(id.Tenant)+len(id.Operation))
	for _, part := range [...][]byte{[]byte("idem binding v1"), []byte(id.Tenant), []byte(id.Operation), id.Key[:], fingerprint[:], {byte(k)}} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, fence)
}

// scope is what a sealer may choose keys by.
func scope(id ID) map[string]string {
	m := map[string]string{"operation": id.Operation}
	if id.Tenant != "" {
		m["tenant"] = id.Tenant
	}
	return m
}

// insecureCleartext seals nothing.
type insecureCleartext struct{}

// clearMagic starts every text that [InsecureCleartext] wrote, so that a real sealer recognises, and refuses, it.
var clearMagic = []byte("IDEMCLEAR1")

// InsecureCleartext is a Sealer that protects nothing: whoever reads the table reads the results, whoever writes it forges
// them. It is for demonstrations and tests.
func InsecureCleartext() Sealer { return insecureCleartext{} }

func (insecureCleartext) Prepare(context.Context, map[string]string) (func(dst, binding, plaintext []byte) ([]byte, error), error) {
	return func(dst, _, plaintext []byte) ([]byte, error) {
		return append(append(dst, clearMagic...), plaintext...), nil
	}, nil
}

func (insecureCleartext) Open(_ context.Context, _ map[string]string, dst, _, sealed []byte) ([]byte, error) {
	text, ok := bytes.CutPrefix(sealed, clearMagic)
	if !ok {
		return nil, errNotClear
	}
	return append(dst, text...), nil
}

var errNotClear = errors.New("not written by InsecureCleartext")
