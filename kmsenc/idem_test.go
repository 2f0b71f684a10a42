package kmsenc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// shop is an operation of idem on a sealer of this package.
type shop struct {
	kms   *kmstest.KMS
	key   string
	store *idemtest.Memory
	runs  int
}

func newShop(t testing.TB) *shop {
	k, arn := newKMS(t)
	return &shop{kms: k, key: arn, store: idemtest.NewMemory(t)}
}

// do is a request in a process of its own, if sealer is a new one.
func (s *shop) do(t testing.TB, sealer idem.Sealer, tenant string, during func()) (string, error) {
	t.Helper()
	op, err := idem.New[string](s.store, sealer, "charge", &idem.Options{Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, err := op.Do(t.Context(), idem.Request{Tenant: tenant, Key: "order-1", Payload: "100 EUR"}, func(context.Context) (string, error) {
		s.runs++
		if during != nil {
			during()
		}
		return "paid by " + tenant, nil
	})
	return r.Value, err
}

func (s *shop) sealer(t testing.TB) *kmsenc.Sealer { return newSealer(t, s.kms, s.key, nil) }

// KMS down before the claim: nothing is written, nothing ran, and the same request may be sent again.
func TestIdemRunsNothingWithoutAKey(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		retry bool
	}{"throttled": {kmstest.Throttled(), true}, "denied": {kmstest.Denied(), false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t)
				end := s.kms.Fail(kmstest.Fault{Err: test.err})
				_, err := s.do(t, s.sealer(t), "acme", nil)
				if u, ok := errors.AsType[*idem.UnavailableError](err); !ok {
					t.Fatalf("%T %v", u, err)
				}
				if _, retry := idem.RetryAfter(err); retry != test.retry {
					t.Errorf("retry %v", retry)
				}
				end()
				if got, err := s.do(t, s.sealer(t), "acme", nil); err != nil || got != "paid by acme" || s.runs != 1 {
					t.Errorf("%q, %v, %d runs", got, err, s.runs)
				}
			})
		})
	}
}

// KMS fails, or takes the key away, after the effect: the result is recorded all the same.
func TestIdemRecordsWithoutKMSAfterTheEffect(t *testing.T) {
	s := newShop(t)
	sealer := s.sealer(t)
	got, err := s.do(t, sealer, "acme", func() { s.kms.Disable(s.key) })
	if err != nil || got != "paid by acme" {
		t.Fatal(got, err)
	}
	s.kms.Enable(s.key)
	if got, err := s.do(t, s.sealer(t), "acme", nil); err != nil || got != "paid by acme" || s.runs != 1 {
		t.Errorf("%q, %v, %d runs", got, err, s.runs)
	}
}

// KMS down on a replay: the request may be sent again, and never runs again. A key that is refused for good makes the result
// unreadable, which is no reason to run either.
func TestIdemNeverRunsAgainForWantOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		if _, err := s.do(t, s.sealer(t), "acme", nil); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			err   error
			retry bool
		}{{kmstest.Throttled(), true}, {kmstest.CutOff(), true}, {kmstest.Denied(), false}} {
			end := s.kms.Fail(kmstest.Fault{Operation: "Decrypt", Err: test.err})
			_, err := s.do(t, s.sealer(t), "acme", nil)
			_, unavailable := errors.AsType[*idem.UnavailableError](err)
			_, unreadable := errors.AsType[*idem.UnreadableError](err)
			if _, retry := idem.RetryAfter(err); retry != test.retry || unavailable != test.retry || unreadable == test.retry {
				t.Errorf("%T %v, retry %v", err, err, retry)
			}
			end()
		}
		if got, err := s.do(t, s.sealer(t), "acme", nil); err != nil || got != "paid by acme" || s.runs != 1 {
			t.Errorf("%q, %v, %d runs", got, err, s.runs)
		}
	})
}

// Clear text that somebody put into a record is not taken for a receipt, and what was recorded in clear is read during a
// migration only.
func TestIdemRefusesAClearReceipt(t *testing.T) {
	s := newShop(t)
	if _, err := s.do(t, idem.InsecureCleartext(), "acme", nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.do(t, s.sealer(t), "acme", nil)
	if _, ok := errors.AsType[*idem.UnreadableError](err); !ok || !errors.Is(err, kmsenc.ErrTampered) {
		t.Errorf("%T %v", err, err)
	}
	migrating := newSealer(t, s.kms, s.key, &kmsenc.Options{InsecureCleartextUntil: time.Now().Add(time.Hour)})
	if got, err := s.do(t, migrating, "acme", nil); err != nil || got != "paid by acme" || s.runs != 1 {
		t.Errorf("%q, %v, %d runs", got, err, s.runs)
	}
	_, err = s.do(t, idem.InsecureCleartext(), "umbrella", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.do(t, migrating, "other", nil); err != nil {
		t.Fatal(err)
	}
	if _, err = s.do(t, idem.InsecureCleartext(), "other", nil); err == nil || strings.Contains(err.Error(), "paid") {
		t.Errorf("a process that was not migrated reads what was sealed: %v", err)
	}
}
