package kmsenc_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/idem-go/idem/kmsenc"
)

// minio#6121: a key that was not bound to the path let objects be swapped. What was sealed for one record, tenant, operation,
// fingerprint, kind, attempt or namespace opens nowhere else.
func TestTextsCannotBeMoved(t *testing.T) {
	k, arn := newKMS(t)
	moves := map[string]func(*place){
		"tenant":      func(p *place) { p.tenant = "evil" },
		"no tenant":   func(p *place) { p.tenant = "" },
		"operation":   func(p *place) { p.operation = "refund" },
		"key":         func(p *place) { p.key = "order-2" },
		"fingerprint": func(p *place) { p.fingerprint++ },
		"kind":        func(p *place) { p.kind++ },
		"fence":       func(p *place) { p.fence++ },
	}
	for _, perTenant := range []bool{false, true} {
		s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: perTenant})
		sealed := sealAt(t, s, here, "a result")
		for name, move := range moves {
			t.Run(name, func(t *testing.T) {
				p := here
				move(&p)
				mustRefuseText(t, s, p, sealed)
			})
		}
		t.Run("namespace", func(t *testing.T) {
			other := newSealer(t, k, arn, &kmsenc.Options{PerTenant: perTenant, Namespace: "dev"})
			mustRefuseText(t, other, here, sealed)
		})
		mustOpen(t, s, here, sealed, "a result")
	}
}

// The namespace is in the binding too, not only in KMS's hands: with the very data key it does not open.
func TestNamespaceIsBoundWithoutKMS(t *testing.T) {
	sealed, err := kmsenc.SealWith([32]byte{1}, [8]byte{}, []byte("wrapped"), "prod", here.binding(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kmsenc.OpenWith([32]byte{1}, sealed, "dev", here.binding()); !errors.Is(err, kmsenc.ErrTampered) {
		t.Fatal(err)
	}
	if _, err := kmsenc.OpenWith([32]byte{1}, sealed, "prod", here.binding()); err != nil {
		t.Fatal(err)
	}
}

// Emulators (local-kms, moto, LocalStack) write an encryption context without lengths, so that {a: bc} is {ab: c}. Texts that were
// joined differently differ, in the binding and in the context.
func TestShiftedBoundariesAreOtherTexts(t *testing.T) {
	if kmsenc.Digest("ab", []byte("c")) == kmsenc.Digest("a", []byte("bc")) {
		t.Error("namespace and binding run into each other")
	}
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
	p := place{tenant: "bc", operation: "a"}
	sealed := sealAt(t, s, p, "a result")
	for _, scope := range []map[string]string{
		{"operation": "ab", "tenant": "c"}, {"operation": "abc"}, {"operation": "a", "tenant": "bc\x00"}, {"operation": "atenantbc"},
	} {
		_, err := s.Open(t.Context(), scope, nil, p.binding(), sealed)
		mustFail(t, err, kmsenc.ErrTampered)
	}
	other := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true, Namespace: "idemoperationa"})
	_, err := other.Open(t.Context(), map[string]string{"operation": "a", "tenant": "bc"}, nil, p.binding(), sealed)
	mustFail(t, err, kmsenc.ErrTampered)
}

// ESDK for Go 0.1 and 0.2 wrote some characters of a context wrongly. Tenants that differ in any byte are different tenants, and one
// that is not UTF-8, which JSON would turn into another, is refused.
func TestTenantsAreBytes(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
	tenants := []string{"🙂", "a\x00b", "a", "�", "e\u0301", "\u00e9", "𝕏", "A", " a", strings.Repeat("t", 256)}
	for i, tenant := range tenants {
		p := here
		p.tenant = tenant
		sealed := sealAt(t, s, p, tenant)
		mustOpen(t, newSealer(t, k, arn, &kmsenc.Options{PerTenant: true}), p, sealed, tenant)
		p.tenant = tenants[(i+1)%len(tenants)]
		mustRefuseText(t, s, p, sealed)
	}
	calls := k.Count("")
	for _, tenant := range []string{"a\xff", "\xc3\x28", "\xed\xa0\x80", strings.Repeat("t", 257), ""} {
		_, err := s.Prepare(t.Context(), map[string]string{"operation": "charge", "tenant": tenant})
		e := mustFail(t, err, kmsenc.ErrRefused)
		if tenant != "" && strings.Contains(e.Error(), tenant) {
			t.Errorf("the error quotes the tenant: %v", e)
		}
		_, err = s.Open(t.Context(), map[string]string{"operation": "charge", "tenant": tenant}, nil, nil, sealAt(t, s, here, "x"))
		mustFail(t, err, kmsenc.ErrRefused)
	}
	if got := k.Count(""); got > calls+1 { // here's own key
		t.Errorf("%d calls for tenants that are refused", got-calls-1)
	}
}

// CVE-2025-14764 and its like (S3 Encryption Client): the data key of a message could be replaced, and one ciphertext had two
// plaintexts. Neither another record's wrapped key, nor one that an attacker gets from the same KMS key under the same encryption
// context, opens anything.
func TestWrappedKeysCannotBeReplaced(t *testing.T) {
	k, arn := newKMS(t)
	a, b := newSealer(t, k, arn, nil), newSealer(t, k, arn, nil) // two processes: two data keys
	forA, forB := sealAt(t, a, here, "a"), sealAt(t, b, here, "b")
	if bytes.Equal(forA[:kmsenc.HeaderSize+167], forB[:kmsenc.HeaderSize+167]) {
		t.Fatal("one data key for two processes")
	}
	swapped := append(bytes.Clone(forA[:kmsenc.HeaderSize+167]), forB[kmsenc.HeaderSize+167:]...)
	mustRefuseText(t, a, here, swapped)
	mustRefuseText(t, newSealer(t, k, arn, nil), here, swapped)

	attack := func(in *kms.GenerateDataKeyInput) []byte {
		out, err := k.GenerateDataKey(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		forged := append(bytes.Clone(forA[:kmsenc.HeaderSize]), out.CiphertextBlob...)
		forged[14], forged[15] = byte(len(out.CiphertextBlob)>>8), byte(len(out.CiphertextBlob))
		return append(forged, forA[kmsenc.HeaderSize+167:]...)
	}
	pairs := map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge"}
	mustRefuseText(t, a, here, attack(&kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: pairs}))
	mustRefuseText(t, a, here, attack(&kms.GenerateDataKeyInput{KeyId: &arn, NumberOfBytes: aws.Int32(16), EncryptionContext: pairs}))
	mustRefuseText(t, a, here, attack(&kms.GenerateDataKeyInput{KeyId: &arn, NumberOfBytes: aws.Int32(33), EncryptionContext: pairs}))
	maps.DeleteFunc(pairs, func(name, _ string) bool { return name == "ns" })
	mustRefuseText(t, a, here, attack(&kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: pairs}))
}

// treehugger#65, sourcegraph#20736: a cache did not know the encryption context, and so nobody checked it. A tenant that presents
// another's text while its key is cached gets nothing: with data keys per tenant KMS decides, else the binding.
func TestCachedKeysServeNoOtherTenant(t *testing.T) {
	for _, perTenant := range []bool{false, true} {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: perTenant})
		sealed := sealAt(t, s, here, "a result")
		mustOpen(t, s, here, sealed, "a result")
		evil := here
		evil.tenant = "evil"
		mustRefuseText(t, s, evil, sealed)
		want := 0
		if perTenant {
			want = 1
		}
		mustCount(t, k, "Decrypt", want)
		_, err := s.Open(t.Context(), evil.scope(), nil, here.binding(), sealed) // with the right binding, it is KMS alone
		if perTenant {
			mustFail(t, err, kmsenc.ErrTampered)
		} else if err != nil {
			t.Fatal(err)
		}
		mustOpen(t, s, here, sealed, "a result")
		mustCount(t, k, "Decrypt", want) // what KMS refused it is not asked again at once
	}
}

// CVE-2026-6550 (ESDK for Python): a shared cache skipped one client's policy. Sealers share nothing, and a text is
// authenticated also when its key is cached.
func TestSealersShareNoKeys(t *testing.T) {
	k, arn := newKMS(t)
	other := k.CreateKey()
	a := newSealer(t, k, arn, nil)
	sealed := sealAt(t, a, here, "a result")
	b := newSealer(t, k, other, nil)
	_, err := openAt(t.Context(), b, here, sealed)
	mustFail(t, err, kmsenc.ErrRefused) // not its key, whatever a has in memory
	mustCount(t, k, "Decrypt", 0)
	c := newSealer(t, k, arn, nil)
	mustOpen(t, c, here, sealed, "a result")
	mustCount(t, k, "Decrypt", 1)
	mustRefuseText(t, c, here, flipped(sealed, len(sealed)*8-1))
}

// chainifynet#15: other keys were tried although discovery was off. A text that names a key which is not allowed is refused
// without a call.
func TestUnknownKeyIsRefusedWithoutACall(t *testing.T) {
	k, arn := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
	calls := k.Count("")
	_, err := openAt(t.Context(), newSealer(t, k, k.CreateKey(), &kmsenc.Options{Retired: []string{k.CreateKey()}}), here, sealed)
	mustFail(t, err, kmsenc.ErrRefused)
	mustCount(t, k, "", calls)
}

// sourcegraph#20736, seaweedfs#10173: what a cache holds was also the caller's. Whatever callers do to what they gave or got, and
// whatever the API's implementation does to its parameters, what is cached stays as it is.
func TestNothingInTheCacheIsSharedWithCallers(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, vandal{k}, arn, nil)
	first := sealAt(t, s, here, "a result")
	kept := bytes.Clone(first)
	clear(first)
	second := sealAt(t, s, here, "another")
	if !bytes.Equal(second[:kmsenc.HeaderSize+167], kept[:kmsenc.HeaderSize+167]) {
		t.Fatal("the wrapped key changed")
	}
	mustOpen(t, s, here, kept, "a result")
	reader := newSealer(t, vandal{k}, arn, nil)
	text := bytes.Clone(kept)
	got, err := reader.Open(t.Context(), here.scope(), nil, here.binding(), text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, kept) {
		t.Error("the caller's text was changed")
	}
	clear(text)
	clear(got)
	mustOpen(t, reader, here, kept, "a result")
	mustOpen(t, reader, here, second, "another")
	mustCount(t, k, "Decrypt", 1)
}

// vandal spoils what it was given, and later what it answered.
type vandal struct{ kmsenc.API }

func (v vandal) GenerateDataKey(ctx context.Context, in *kms.GenerateDataKeyInput, opts ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error) {
	out, err := v.API.GenerateDataKey(ctx, in, opts...)
	*in.KeyId = "spoilt"
	clear(in.EncryptionContext)
	return out, err
}

func (v vandal) Decrypt(ctx context.Context, in *kms.DecryptInput, opts ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	out, err := v.API.Decrypt(ctx, in, opts...)
	*in.KeyId = "spoilt"
	clear(in.CiphertextBlob)
	clear(in.EncryptionContext)
	return out, err
}
