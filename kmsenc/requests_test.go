package kmsenc_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// tink-go-awskms v2 to v3 renamed an entry of the context, and what the other wrote did not open. These names are in key policies:
// they stay. Tink's envelope encryption sends no context at all: here every call has it. opentofu#4298: a context that gets
// another entry one day needs a version, which is in it from the start.
func TestEncryptionContextsAreTheseForEver(t *testing.T) {
	for _, test := range []struct {
		opts kmsenc.Options
		at   place
		want map[string]string
	}{
		{kmsenc.Options{}, here, map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge"}},
		{kmsenc.Options{Namespace: "prod"}, here, map[string]string{"kmsenc": "1", "ns": "prod", "operation": "charge"}},
		{kmsenc.Options{PerTenant: true}, here, map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge", "tenant": "acme"}},
		{kmsenc.Options{PerTenant: true}, place{operation: "charge"}, map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge"}},
	} {
		k, arn := newKMS(t)
		old := k.CreateKey()
		sealed := sealAt(t, newSealer(t, k, old, &test.opts), test.at, "a result")
		now := test.opts
		now.Retired = []string{old}
		s := newSealer(t, k, arn, &now)
		mustOpen(t, s, test.at, sealed, "a result")
		if _, err := s.Rewrap(t.Context(), k, test.at.scope(), sealed); err != nil {
			t.Fatal(err)
		}
		calls := k.Calls()
		if len(calls) != 3 {
			t.Fatalf("%d calls", len(calls))
		}
		for _, c := range calls {
			if !maps.Equal(c.Context, test.want) || c.Operation == "ReEncrypt" && !maps.Equal(c.SourceContext, test.want) {
				t.Errorf("%s has the context %v and %v, want %v", c.Operation, c.Context, c.SourceContext, test.want)
			}
		}
	}
}

// sops#320, #435: a pointer to a loop variable made every value of a context the same, by chance of the map's order.
func TestContextsAreTheSameEveryTime(t *testing.T) {
	k, arn := newKMS(t)
	want := map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge", "tenant": "acme"}
	for range 1000 {
		sealAt(t, newSealer(t, k, arn, &kmsenc.Options{PerTenant: true}), here, "a result")
	}
	for _, c := range k.Calls() {
		if !maps.Equal(c.Context, want) {
			t.Fatalf("context %v", c.Context)
		}
	}
	mustCount(t, k, "", 1000)
}

// aws-sdk-go#1952, rabbitmq-stream-s3#367: KMS refuses an empty value, and every write stopped. An operation without tenants has no
// entry for one.
func TestNoEmptyValueIsSent(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
	mustOpen(t, s, place{operation: "charge"}, sealAt(t, s, place{operation: "charge"}, "a result"), "a result")
	for _, scope := range []map[string]string{nil, {}, {"operation": ""}, {"tenant": "acme"}, {"operation": "charge", "tenant": ""}} {
		_, err := s.Prepare(t.Context(), scope)
		mustFail(t, err, kmsenc.ErrRefused)
		_, err = s.Open(t.Context(), scope, nil, here.binding(), nil)
		mustFail(t, err, kmsenc.ErrRefused)
		_, err = s.Rewrap(t.Context(), k, scope, nil)
		mustFail(t, err, kmsenc.ErrRefused)
	}
	for _, c := range k.Calls() {
		for name, value := range c.Context {
			if value == "" {
				t.Errorf("%s is empty", name)
			}
		}
	}
}

// What KMS answers with is checked: it must be of the key that was asked for, and of the right size.
func TestWrongAnswersAreRefused(t *testing.T) {
	k, arn := newKMS(t)
	other := k.CreateKey()
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
	wrong := map[string]func(*kmstest.Answer){
		"another key":         func(a *kmstest.Answer) { a.KeyID = other },
		"no key":              func(a *kmstest.Answer) { a.KeyID = "" },
		"alias":               func(a *kmstest.Answer) { a.KeyID = "alias/idem" },
		"another Region":      func(a *kmstest.Answer) { a.KeyID = strings.Replace(arn, "eu-central-1", "eu-west-1", 1) },
		"short plaintext":     func(a *kmstest.Answer) { a.Plaintext = a.Plaintext[:16] },
		"long plaintext":      func(a *kmstest.Answer) { a.Plaintext = append(a.Plaintext, 0) },
		"no plaintext":        func(a *kmstest.Answer) { a.Plaintext = nil },
		"another's plaintext": func(a *kmstest.Answer) { a.Plaintext = make([]byte, 32) },
		"no ciphertext":       func(a *kmstest.Answer) { a.Ciphertext = nil },
		"long ciphertext":     func(a *kmstest.Answer) { a.Ciphertext = make([]byte, 1025) },
	}
	for name, change := range wrong {
		t.Run(name, func(t *testing.T) {
			defer k.Fail(kmstest.Fault{Answer: change})()
			s := newSealer(t, k, arn, nil)
			if name != "another's plaintext" { // of a new key nobody can know
				if f, err := s.Prepare(t.Context(), here.scope()); err == nil || f != nil {
					t.Error("Prepare takes it")
				}
			}
			if !strings.HasSuffix(name, "ciphertext") {
				mustRefuseText(t, newSealer(t, k, arn, nil), here, sealed)
			}
		})
	}
}

// An error says which key and which right, and never what is protected.
func TestErrorsSayWhatToDoAndNothingElse(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(k *kmstest.KMS, arn string)
		kind error
		says []string
	}{
		{"denied", func(k *kmstest.KMS, arn string) { k.Fail(kmstest.Fault{Err: kmstest.Denied()}) }, kmsenc.ErrRefused, []string{"ARN", "kms:RIGHT", "AccessDeniedException"}},
		{"disabled", func(k *kmstest.KMS, arn string) { k.Disable(arn) }, kmsenc.ErrRefused, []string{"ARN", "disabled", "DisabledException", "request 0000"}},
		{"deletion", func(k *kmstest.KMS, arn string) { k.ScheduleDeletion(arn) }, kmsenc.ErrRefused, []string{"ARN", "pending deletion"}},
		{"throttled", func(k *kmstest.KMS, arn string) { k.Fail(kmstest.Fault{Err: kmstest.Throttled()}) }, kmsenc.ErrUnavailable, []string{"throttling", "status 400"}},
		{"internal", func(k *kmstest.KMS, arn string) { k.Fail(kmstest.Fault{Err: kmstest.Internal()}) }, kmsenc.ErrUnavailable, []string{"status 500"}},
		{"cut off", func(k *kmstest.KMS, arn string) { k.Fail(kmstest.Fault{Err: kmstest.CutOff()}) }, kmsenc.ErrUnavailable, []string{"connection"}},
		{"key unavailable", apiError("KeyUnavailableException", smithy.FaultServer), kmsenc.ErrUnavailable, nil},
		{"dependency", apiError("DependencyTimeoutException", smithy.FaultServer), kmsenc.ErrUnavailable, nil},
		{"limit", apiError("RequestLimitExceeded", smithy.FaultClient), kmsenc.ErrUnavailable, []string{"throttling"}},
		{"expired credentials", apiError("ExpiredTokenException", smithy.FaultClient), kmsenc.ErrUnavailable, nil},
		{"clock skew", apiError("InvalidSignatureException", smithy.FaultClient), kmsenc.ErrUnavailable, nil},
		{"new fault of the service", apiError("SomethingNewException", smithy.FaultServer), kmsenc.ErrUnavailable, nil},
		{"new refusal", apiError("SomethingNewException", smithy.FaultClient), kmsenc.ErrRefused, []string{"ARN"}},
		{"not found", apiError("NotFoundException", smithy.FaultClient), kmsenc.ErrRefused, []string{"ARN", "no such key"}},
		{"usage", apiError("InvalidKeyUsageException", smithy.FaultClient), kmsenc.ErrRefused, []string{"symmetric"}},
		{"validation", apiError("ValidationException", smithy.FaultClient), kmsenc.ErrRefused, nil},
		{"grant token", apiError("InvalidGrantTokenException", smithy.FaultClient), kmsenc.ErrRefused, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, arn := newKMS(t)
			opts := &kmsenc.Options{PerTenant: true, Namespace: "production"}
			sealed := sealAt(t, newSealer(t, k, arn, opts), here, "a result")
			test.make(k, arn)
			for right, f := range map[string]func() error{
				"GenerateDataKey": func() error {
					_, err := newSealer(t, k, arn, opts).Prepare(t.Context(), here.scope())
					return err
				},
				"Decrypt": func() error { _, err := openAt(t.Context(), newSealer(t, k, arn, opts), here, sealed); return err },
			} {
				err := f()
				e := mustFail(t, err, test.kind)
				for _, want := range append(test.says, right) {
					want = strings.NewReplacer("ARN", arn, "RIGHT", right).Replace(want)
					if !strings.Contains(e.Error(), want) {
						t.Errorf("%q does not say %q", e, want)
					}
				}
				for _, secret := range []string{"acme", "production", "order-1", "a result", "assumed-role", "quoted"} {
					if strings.Contains(e.Error(), secret) {
						t.Errorf("%q tells %q", e, secret)
					}
				}
				if api, ok := errors.AsType[smithy.APIError](err); ok && e.Code != api.ErrorCode() {
					t.Errorf("code %q", e.Code)
				}
			}
		})
	}
}

func apiError(code string, fault smithy.ErrorFault) func(*kmstest.KMS, string) {
	return func(k *kmstest.KMS, _ string) {
		k.Fail(kmstest.Fault{Err: &smithy.GenericAPIError{Code: code, Message: "quoted", Fault: fault}})
	}
}

// The root package refuses what its own clear text is, and this package knows it by its first bytes.
func TestClearTextIsRefused(t *testing.T) {
	k, arn := newKMS(t)
	clear := clearText(t, `{"paid":true}`)
	for name, opts := range map[string]*kmsenc.Options{
		"no migration":   nil,
		"migration over": {InsecureCleartextUntil: time.Now().Add(-time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSealer(t, k, arn, opts)
			if e := mustRefuseText(t, s, here, clear); !strings.Contains(e.Error(), "clear text") {
				t.Error(e)
			}
			_, err := s.Rewrap(t.Context(), k, here.scope(), clear)
			mustFail(t, err, kmsenc.ErrTampered)
		})
	}
	mustCount(t, k, "", 0)
}

// Until its end, and not any longer, a migration reads what was clear; it never writes it.
func TestAMigrationFromClearTextHasAnEnd(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{InsecureCleartextUntil: time.Now().Add(50 * time.Millisecond)})
	clear := clearText(t, `{"paid":true}`)
	mustOpen(t, s, here, clear, `{"paid":true}`)
	mustOpen(t, s, here, clearText(t, ""), "")
	if text := sealAt(t, s, here, "a result"); strings.Contains(string(text), "a result") {
		t.Error("sealed in clear")
	}
	mustRefuseText(t, s, here, clear[:5])
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := openAt(t.Context(), s, here, clear); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no end")
		}
	}
	mustRefuseText(t, s, here, clear)
	if _, err := kmsenc.New(k, arn, &kmsenc.Options{InsecureCleartextUntil: time.Now().AddDate(1, 0, 0)}); err == nil {
		t.Error("a migration of a year")
	}
}

func clearText(t testing.TB, text string) []byte {
	t.Helper()
	f, err := idem.InsecureCleartext().Prepare(t.Context(), here.scope())
	if err != nil {
		t.Fatal(err)
	}
	b, err := f(nil, here.binding(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
