package kmstest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/idem-go/idem/kmsenc/kmstest"
)

// pairs makes an encryption context.
func pairs(nameValue ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(nameValue); i += 2 {
		m[nameValue[i]] = nameValue[i+1]
	}
	return m
}

func generate(t testing.TB, k *kmstest.KMS, arn string, context map[string]string) *kms.GenerateDataKeyOutput {
	t.Helper()
	out, err := k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: context})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decrypt(t testing.TB, k *kmstest.KMS, arn string, blob []byte, context map[string]string) ([]byte, error) {
	t.Helper()
	in := &kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: context}
	if arn != "" {
		in.KeyId = &arn
	}
	out, err := k.Decrypt(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Plaintext, nil
}

// mustRefuse checks the code, and that the error has the form of the SDK's.
func mustRefuse(t testing.TB, err error, code string) {
	t.Helper()
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != code {
		t.Fatalf("%v, want %s", err, code)
	}
	if r, ok := errors.AsType[*awshttp.ResponseError](err); !ok || r.RequestID == "" || r.HTTPStatusCode() < 400 {
		t.Fatalf("%v has no HTTP response", err)
	}
	if o, ok := errors.AsType[*smithy.OperationError](err); !ok || o.Service() != "KMS" {
		t.Fatalf("%v has no operation", err)
	}
}

func TestWhatIsWrappedOpens(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateKey()
	out := generate(t, k, arn, pairs("a", "b"))
	if len(out.Plaintext) != 32 || len(out.CiphertextBlob) != 167 || *out.KeyId != arn {
		t.Fatalf("%d, %d, %s", len(out.Plaintext), len(out.CiphertextBlob), *out.KeyId)
	}
	_, id, _ := strings.Cut(arn, "key/")
	for _, name := range []string{arn, id, ""} {
		if p, err := decrypt(t, k, name, out.CiphertextBlob, pairs("a", "b")); err != nil || !bytes.Equal(p, out.Plaintext) {
			t.Fatal(err)
		}
	}
	clear(out.Plaintext)
	if p, _ := decrypt(t, k, arn, out.CiphertextBlob, pairs("a", "b")); bytes.Equal(p, make([]byte, 32)) {
		t.Error("the answer is shared")
	}
}

func TestContextsAreComparedPairByPair(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateKey()
	blob := generate(t, k, arn, pairs("a", "bc", "d", "e")).CiphertextBlob
	for _, other := range []map[string]string{
		nil, pairs("a", "bc"), pairs("ab", "c", "d", "e"), pairs("a", "b", "cd", "e"), pairs("A", "bc", "d", "e"),
		pairs("a", "bc", "d", "e", "f", "g"), pairs("a", "bcde"), pairs("d", "bc", "a", "e"),
	} {
		_, err := decrypt(t, k, arn, blob, other)
		mustRefuse(t, err, "InvalidCiphertextException")
	}
	for _, bad := range []map[string]string{pairs("a", ""), pairs("", "a"), pairs("a", "\xff")} {
		_, err := decrypt(t, k, arn, blob, bad)
		mustRefuse(t, err, "ValidationException")
		_, err = k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: bad})
		mustRefuse(t, err, "ValidationException")
		_, err = k.ReEncrypt(t.Context(), &kms.ReEncryptInput{DestinationKeyId: &arn, CiphertextBlob: blob, SourceEncryptionContext: bad})
		mustRefuse(t, err, "ValidationException")
	}
}

func TestEveryAlteredCiphertextIsRefused(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateKey()
	k.CreateKey()
	blob := generate(t, k, arn, pairs("a", "b")).CiphertextBlob
	for bit := range len(blob) * 8 {
		b := bytes.Clone(blob)
		b[bit/8] ^= 1 << (bit % 8)
		_, err := decrypt(t, k, arn, b, pairs("a", "b"))
		mustRefuse(t, err, "InvalidCiphertextException")
	}
	for n := 1; n < len(blob); n++ {
		_, err := decrypt(t, k, arn, blob[:n], pairs("a", "b"))
		mustRefuse(t, err, "InvalidCiphertextException")
	}
}

func TestAnotherKeyIsIncorrect(t *testing.T) {
	k := kmstest.New(t)
	one, two := k.CreateKey(), k.CreateKey()
	blob := generate(t, k, one, nil).CiphertextBlob
	_, err := decrypt(t, k, two, blob, nil)
	mustRefuse(t, err, "IncorrectKeyException")
	_, err = k.ReEncrypt(t.Context(), &kms.ReEncryptInput{SourceKeyId: &two, DestinationKeyId: &one, CiphertextBlob: blob})
	mustRefuse(t, err, "IncorrectKeyException")
	_, err = decrypt(t, k, strings.Replace(one, "eu-central-1", "eu-west-1", 1), blob, nil)
	mustRefuse(t, err, "NotFoundException")
	_, err = decrypt(t, kmstest.New(t), "", blob, nil)
	mustRefuse(t, err, "InvalidCiphertextException")
}

func TestKeyStates(t *testing.T) {
	k := kmstest.New(t)
	arn := k.ImportKey("imported", bytes.Repeat([]byte{1}, 32))
	to := k.CreateKey()
	blob := generate(t, k, arn, nil).CiphertextBlob
	refuses := func(code string) {
		t.Helper()
		_, err := k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256})
		mustRefuse(t, err, code)
		for _, name := range []string{arn, ""} {
			_, err = decrypt(t, k, name, blob, nil)
			mustRefuse(t, err, code)
		}
		_, err = k.ReEncrypt(t.Context(), &kms.ReEncryptInput{DestinationKeyId: &to, CiphertextBlob: blob})
		mustRefuse(t, err, code)
	}
	opens := func() {
		t.Helper()
		if _, err := decrypt(t, k, arn, blob, nil); err != nil {
			t.Fatal(err)
		}
	}
	k.Disable(arn)
	refuses("DisabledException")
	k.Enable(arn)
	opens()
	k.ScheduleDeletion(arn)
	refuses("KMSInvalidStateException")
	k.CancelDeletion(arn)
	refuses("DisabledException") // emulators enable it
	k.Enable(arn)
	opens()
	k.DeleteMaterial(arn)
	refuses("KMSInvalidStateException")
	k.ImportMaterial(arn)
	opens()
}

// recorder notes what a fake reports.
type recorder struct {
	testing.TB
	errs []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

func TestWrongUseFailsTheTest(t *testing.T) {
	for name, use := range map[string]func(k *kmstest.KMS, arn string){
		"enable pending deletion": func(k *kmstest.KMS, arn string) { k.ScheduleDeletion(arn); k.Enable(arn) },
		"cancel nothing":          func(k *kmstest.KMS, arn string) { k.CancelDeletion(arn) },
		"delete AWS's material":   func(k *kmstest.KMS, arn string) { k.DeleteMaterial(arn) },
		"no such key":             func(k *kmstest.KMS, arn string) { k.Disable(arn + "0") },
		"rotate no such key":      func(k *kmstest.KMS, arn string) { k.Rotate(arn + "0") },
		"replicate a plain key":   func(k *kmstest.KMS, arn string) { k.Replicate(arn, "us-east-1") },
		"short material":          func(k *kmstest.KMS, _ string) { k.ImportKey("short", nil) },
		"twice":                   func(k *kmstest.KMS, _ string) { k.ImportKey("a", make([]byte, 32)); k.ImportKey("a", make([]byte, 32)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			k := kmstest.New(r)
			use(k, k.CreateKey())
			if len(r.errs) != 1 {
				t.Errorf("reports %q", r.errs)
			}
		})
	}
}

func TestRotationKeepsOldMaterial(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateMultiRegionKey()
	there, replica := k.Replicate(arn, "us-east-1")
	old := generate(t, k, arn, nil).CiphertextBlob
	k.Rotate(arn)
	young := generate(t, there, replica, nil).CiphertextBlob
	if bytes.Equal(old[:50], young[:50]) {
		t.Error("the same material")
	}
	for _, blob := range [][]byte{old, young} {
		for arn, k := range map[string]*kmstest.KMS{arn: k, replica: there} {
			if _, err := decrypt(t, k, arn, blob, nil); err != nil {
				t.Error(err)
			}
		}
	}
	k.Disable(arn)
	if _, err := decrypt(t, there, replica, old, nil); err != nil {
		t.Errorf("the replica has no state of its own: %v", err)
	}
}

func TestReEncrypt(t *testing.T) {
	k := kmstest.New(t)
	one, two := k.CreateKey(), k.CreateKey()
	data := generate(t, k, one, pairs("a", "b"))
	out, err := k.ReEncrypt(t.Context(), &kms.ReEncryptInput{
		CiphertextBlob: data.CiphertextBlob, SourceKeyId: &one, SourceEncryptionContext: pairs("a", "b"),
		DestinationKeyId: &two, DestinationEncryptionContext: pairs("c", "d"),
	})
	if err != nil || *out.SourceKeyId != one || *out.KeyId != two {
		t.Fatal(err)
	}
	if p, err := decrypt(t, k, two, out.CiphertextBlob, pairs("c", "d")); err != nil || !bytes.Equal(p, data.Plaintext) {
		t.Fatal(err)
	}
	_, err = decrypt(t, k, one, out.CiphertextBlob, pairs("c", "d"))
	mustRefuse(t, err, "IncorrectKeyException")
	_, err = k.ReEncrypt(t.Context(), &kms.ReEncryptInput{CiphertextBlob: data.CiphertextBlob, DestinationKeyId: &two})
	mustRefuse(t, err, "InvalidCiphertextException")
}

func TestParametersHaveTheServicesLimits(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateKey()
	for code, in := range map[string]*kms.GenerateDataKeyInput{
		"ValidationException":       {KeyId: &arn},
		"ValidationException ":      {KeyId: &arn, KeySpec: types.DataKeySpecAes256, NumberOfBytes: aws.Int32(32)},
		"ValidationException  ":     {KeyId: &arn, KeySpec: "AES_512"},
		"ValidationException   ":    {KeyId: &arn, NumberOfBytes: aws.Int32(1025)},
		"ValidationException    ":   {KeyId: &arn, NumberOfBytes: aws.Int32(0)},
		"ValidationException     ":  {KeySpec: types.DataKeySpecAes256},
		"ValidationException      ": {KeyId: &arn, KeySpec: types.DataKeySpecAes256, GrantTokens: make([]string, 11)},
		"NotFoundException":         {KeyId: aws.String("alias/none"), KeySpec: types.DataKeySpecAes256},
		"DryRunOperationException":  {KeyId: &arn, KeySpec: types.DataKeySpecAes256, DryRun: aws.Bool(true)},
	} {
		_, err := k.GenerateDataKey(t.Context(), in)
		mustRefuse(t, err, strings.TrimSpace(code))
	}
	for _, n := range []int{0, 6145} {
		_, err := decrypt(t, k, arn, make([]byte, n), nil)
		mustRefuse(t, err, "ValidationException")
	}
	_, err := k.Decrypt(t.Context(), &kms.DecryptInput{KeyId: &arn, CiphertextBlob: []byte("x"), EncryptionAlgorithm: types.EncryptionAlgorithmSpecRsaesOaepSha256})
	mustRefuse(t, err, "InvalidKeyUsageException")
	for spec, want := range map[types.DataKeySpec]int{types.DataKeySpecAes128: 16, types.DataKeySpecAes256: 32} {
		out, err := k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: spec})
		if err != nil || len(out.Plaintext) != want {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kmstest.New(t)
		one, two := k.CreateKey(), k.CreateKey()
		ask := func(ctx context.Context, arn string, context map[string]string) error {
			_, err := k.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: context})
			return err
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		k.Fail(kmstest.Fault{Err: kmstest.Throttled(), Times: 2})
		mustRefuse(t, ask(t.Context(), one, nil), "ThrottlingException")
		mustRefuse(t, ask(t.Context(), one, nil), "ThrottlingException")
		ok(ask(t.Context(), one, nil))

		end := k.Fail(kmstest.Fault{Operation: "GenerateDataKey", Key: one, Where: func(c map[string]string) bool { return c["a"] == "b" }, Err: kmstest.Denied()})
		mustRefuse(t, ask(t.Context(), one, pairs("a", "b")), "AccessDeniedException")
		ok(ask(t.Context(), one, nil))
		ok(ask(t.Context(), two, pairs("a", "b")))
		blob := generate(t, k, two, nil).CiphertextBlob
		if _, err := decrypt(t, k, two, blob, nil); err != nil {
			t.Fatal(err)
		}
		end()
		ok(ask(t.Context(), one, pairs("a", "b")))

		end = k.Fail(kmstest.Fault{Delay: time.Minute})
		start := time.Now()
		ok(ask(t.Context(), one, nil))
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ask(ctx, one, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		end()
		end = k.Fail(kmstest.Fault{Hang: true})
		hour, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !errors.Is(ask(hour, one, nil), context.DeadlineExceeded) {
			t.Error("it answers")
		}
		end()
		end = k.Fail(kmstest.Fault{Answer: func(a *kmstest.Answer) { a.KeyID, a.Plaintext = two, a.Plaintext[:5] }})
		if out := generate(t, k, one, nil); *out.KeyId != two || len(out.Plaintext) != 5 {
			t.Error(*out.KeyId)
		}
		end()
		k.Fail(kmstest.Fault{Err: kmstest.CutOff(), Times: 1})
		if _, isAPI := errors.AsType[smithy.APIError](ask(t.Context(), one, nil)); isAPI {
			t.Error("a cut answer is one of the service")
		}
		k.Fail(kmstest.Fault{Err: kmstest.Internal(), Times: 1})
		err := ask(t.Context(), one, nil)
		mustRefuse(t, err, "KMSInternalException")
		if r, _ := errors.AsType[*awshttp.ResponseError](err); r.HTTPStatusCode() != 500 {
			t.Error(r)
		}
	})
}

func TestCallsAreLogged(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateKey()
	context := pairs("a", "b")
	out, err := k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256, EncryptionContext: context},
		func(o *kms.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		t.Fatal(err)
	}
	clear(context)
	if _, err := decrypt(t, k, arn, out.CiphertextBlob, nil); err == nil {
		t.Fatal("opens")
	}
	calls := k.Calls()
	if len(calls) != 2 || k.Count("") != 2 || k.Count("Decrypt") != 1 || k.Count("ReEncrypt") != 0 {
		t.Fatalf("%+v", calls)
	}
	if c := calls[0]; c.Operation != "GenerateDataKey" || c.KeyID != arn || !maps.Equal(c.Context, pairs("a", "b")) || c.Tries != 1 || c.Err != nil {
		t.Errorf("%+v", c)
	}
	if c := calls[1]; c.Tries != 0 || c.Err == nil {
		t.Errorf("%+v", c)
	}
}

func TestConcurrentUse(t *testing.T) {
	k := kmstest.New(t)
	arn := k.CreateMultiRegionKey()
	there, replica := k.Replicate(arn, "us-east-1")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				out, err := k.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: types.DataKeySpecAes256})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := decrypt(t, there, replica, out.CiphertextBlob, nil); err != nil {
					t.Error(err)
				}
				k.Rotate(arn)
				k.Fail(kmstest.Fault{Times: 1})()
			}
		})
	}
	all.Wait()
}
