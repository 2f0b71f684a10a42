package kmsenc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

func TestOnlyAKeysARNIsAKey(t *testing.T) {
	k := kmstest.New(t)
	for _, arn := range []string{
		"arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
		"arn:aws-cn:kms:cn-north-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
		"arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab",
		"arn:aws-iso-b:kms:us-isob-east-1:111122223333:key/1",
	} {
		if _, err := kmsenc.New(k, arn, nil); err != nil {
			t.Errorf("%s: %v", arn, err)
		}
	}
	for _, arn := range []string{
		"", "alias/idem", "arn:aws:kms:eu-central-1:111122223333:alias/idem", "1234abcd-12ab-34cd-56ef-1234567890ab",
		"mrk-1234abcd12ab34cd56ef1234567890ab", "key/1", "arn:aws:kms:eu-central-1:111122223333:key/", "arn:aws:kms::111122223333:key/1",
		"arn:aws:kms:eu-central-1::key/1", "arn:aws:s3:eu-central-1:111122223333:key/1", "arn:aws:kms:eu-central-1:1111:key/1",
		"arn:aws:kms:eu-central-1:111122223333:key/1\n", " arn:aws:kms:eu-central-1:111122223333:key/1", "arn:aws:kms:eu-central-1:111122223333:key/1/2",
		"arn:aws:kms:eu-central-1:111122223333:key/*", "arn::kms:eu-central-1:111122223333:key/1", "ARN:aws:kms:eu-central-1:111122223333:key/1",
	} {
		if _, err := kmsenc.New(k, arn, nil); err == nil || !strings.HasPrefix(err.Error(), "kmsenc: the key ") {
			t.Errorf("%q: %v", arn, err)
		}
		if _, err := kmsenc.New(k, k.CreateKey(), &kmsenc.Options{Retired: []string{arn}}); err == nil || !strings.Contains(err.Error(), "Options.Retired[0]") {
			t.Errorf("retired %q: %v", arn, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	k, arn := newKMS(t)
	for field, opts := range map[string]*kmsenc.Options{
		"SoftAge":   {SoftAge: -1},
		"HardAge":   {HardAge: time.Minute}, // less than the default soft age
		"HardAge ":  {SoftAge: time.Minute, HardAge: time.Minute},
		"HardAge  ": {HardAge: 25 * time.Hour},
		"Namespace": {Namespace: strings.Repeat("n", 257)},
		"Namespac":  {Namespace: "\xff"},
		"Retired[0": {Retired: []string{arn}},
	} {
		if _, err := kmsenc.New(k, arn, opts); err == nil || !strings.Contains(err.Error(), "Options."+strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := kmsenc.New(nil, arn, nil); err == nil {
		t.Error("no API")
	}
	other := k.CreateKey()
	if _, err := kmsenc.New(k, arn, &kmsenc.Options{Retired: []string{other, other}}); err == nil {
		t.Error("retired twice")
	}
}

func TestRetiredKeysOpenAndNeverSeal(t *testing.T) {
	k, old := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, old, nil), here, "a result")
	now := k.CreateKey()
	s := newSealer(t, k, now, &kmsenc.Options{Retired: []string{k.CreateKey(), old}})
	mustOpen(t, s, here, sealed, "a result")
	mustOpen(t, s, here, sealAt(t, s, here, "another"), "another")
	for _, c := range k.Calls()[1:] {
		if want := map[string]string{"GenerateDataKey": now, "Decrypt": old}[c.Operation]; c.KeyID != want {
			t.Errorf("%s with %s, want %s", c.Operation, c.KeyID, want)
		}
	}
}

// A text that names another of the allowed keys than the one it was sealed with does not open: KMS is told the key.
func TestAWrongHintDoesNotChooseTheKey(t *testing.T) {
	k, one := newKMS(t)
	two := k.CreateKey()
	sealed := sealAt(t, newSealer(t, k, one, nil), here, "a result")
	s := newSealer(t, k, one, &kmsenc.Options{Retired: []string{two}})
	mustOpen(t, s, here, sealed, "a result") // and its data key is at hand
	hint := kmsenc.Hint(two)
	copy(sealed[6:], hint[:])
	mustRefuseText(t, s, here, sealed)
	if last := k.Calls()[len(k.Calls())-1]; last.KeyID != two || last.Err == nil || !strings.Contains(last.Err.Error(), "IncorrectKeyException") {
		t.Errorf("%+v", last)
	}
}

// A key of a multi-Region set opens what its relatives sealed. Other keys of the same id do not, and each Region's key has a state
// of its own.
func TestMultiRegionKeysOpenForEachOther(t *testing.T) {
	k := kmstest.New(t)
	primary := k.CreateMultiRegionKey()
	there, replica := k.Replicate(primary, "us-east-1")
	sealed := sealAt(t, newSealer(t, k, primary, nil), here, "a result")
	s := newSealer(t, there, replica, nil)
	mustOpen(t, s, here, sealed, "a result")
	mustOpen(t, newSealer(t, k, primary, nil), here, sealAt(t, s, here, "back"), "back")
	k.Disable(primary)
	mustOpen(t, newSealer(t, there, replica, nil), here, sealed, "a result")
	_, err := openAt(t.Context(), newSealer(t, k, primary, nil), here, sealed)
	mustFail(t, err, kmsenc.ErrRefused)

	for _, other := range []string{
		strings.Replace(primary, "aws", "aws-cn", 1), strings.Replace(primary, "111122223333", "999999999999", 1), primary + "0",
	} {
		if kmsenc.Hint(other) == kmsenc.Hint(primary) {
			t.Errorf("%s is taken for %s", other, primary)
		}
	}
	if one, two := "arn:aws:kms:eu-west-1:111122223333:key/1", "arn:aws:kms:eu-west-2:111122223333:key/1"; kmsenc.Hint(one) == kmsenc.Hint(two) {
		t.Error("keys of two Regions that are no multi-Region keys")
	}
}

// Rotation gives a key new material under the old ARN; nothing has to be done.
func TestRotationNeedsNothing(t *testing.T) {
	k, arn := newKMS(t)
	before := sealAt(t, newSealer(t, k, arn, nil), here, "before")
	k.Rotate(arn)
	s := newSealer(t, k, arn, nil)
	mustOpen(t, s, here, before, "before")
	after := sealAt(t, s, here, "after")
	k.Rotate(arn)
	mustOpen(t, newSealer(t, k, arn, nil), here, after, "after")
}

// Rewrap moves the data key and nothing else: the old key is not needed any more, and the protected part is the same to the byte.
func TestRewrapMovesToTheSealingKey(t *testing.T) {
	k, old := newKMS(t)
	writer := newSealer(t, k, old, nil)
	texts := [][]byte{sealAt(t, writer, here, "a"), sealAt(t, writer, here, "b")}
	now := k.CreateKey()
	s := newSealer(t, k, now, &kmsenc.Options{Retired: []string{old}})
	for i, text := range texts {
		moved, err := s.Rewrap(t.Context(), k, here.scope(), text)
		if err != nil {
			t.Fatal(err)
		}
		a, b := text[kmsenc.HeaderSize+167:], moved[kmsenc.HeaderSize+167:]
		if string(a) != string(b) {
			t.Error("the protected part changed")
		}
		again, err := s.Rewrap(t.Context(), k, here.scope(), moved)
		if err != nil || string(again) != string(moved) || &again[0] == &moved[0] {
			t.Errorf("rewrapped twice: %v", err)
		}
		texts[i] = moved
	}
	mustCount(t, k, "ReEncrypt", 1) // two records, one data key
	mustCount(t, k, "Decrypt", 0)
	k.ScheduleDeletion(old)
	s = newSealer(t, k, now, nil)
	mustOpen(t, s, here, texts[0], "a")
	mustOpen(t, s, here, texts[1], "b")
	mustCount(t, k, "Decrypt", 1)
}

func TestRewrapFails(t *testing.T) {
	k, old := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, old, nil), here, "a result")
	now := k.CreateKey()
	fresh := func() *kmsenc.Sealer { return newSealer(t, k, now, &kmsenc.Options{Retired: []string{old}}) }
	elsewhere := here
	elsewhere.operation = "refund"
	_, err := fresh().Rewrap(t.Context(), k, elsewhere.scope(), sealed)
	mustFail(t, err, kmsenc.ErrTampered)
	_, err = fresh().Rewrap(t.Context(), k, here.scope(), flipped(sealed, (kmsenc.HeaderSize+3)*8))
	mustFail(t, err, kmsenc.ErrTampered)
	_, err = newSealer(t, k, now, nil).Rewrap(t.Context(), k, here.scope(), sealed)
	mustFail(t, err, kmsenc.ErrRefused)
	for _, test := range []struct {
		fault kmstest.Fault
		kind  error
	}{
		{kmstest.Fault{Err: kmstest.Denied()}, kmsenc.ErrRefused},
		{kmstest.Fault{Err: kmstest.Throttled()}, kmsenc.ErrUnavailable},
		{kmstest.Fault{Answer: func(a *kmstest.Answer) { a.KeyID = old }}, kmsenc.ErrRefused},
		{kmstest.Fault{Answer: func(a *kmstest.Answer) { a.SourceKeyID = now }}, kmsenc.ErrRefused},
		{kmstest.Fault{Answer: func(a *kmstest.Answer) { a.Ciphertext = nil }}, kmsenc.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			defer k.Fail(test.fault)()
			_, err := fresh().Rewrap(t.Context(), k, here.scope(), sealed)
			e := mustFail(t, err, test.kind)
			if test.kind == kmsenc.ErrRefused && test.fault.Err != nil && (!strings.Contains(e.Error(), "kms:ReEncryptFrom") || !strings.Contains(e.Error(), old) || !strings.Contains(e.Error(), now)) {
				t.Error(e)
			}
		})
	}
}
