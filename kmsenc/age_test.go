package kmsenc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// stubborn blocks or panics in its first call.
type stubborn struct {
	kmsenc.API
	block  chan struct{}
	panics bool
	calls  atomic.Int64
}

func (s *stubborn) GenerateDataKey(ctx context.Context, in *kms.GenerateDataKeyInput, opts ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error) {
	if s.calls.Add(1) == 1 {
		if s.panics {
			panic("first call")
		}
		<-s.block
		ctx = context.WithoutCancel(ctx)
	}
	return s.API.GenerateDataKey(ctx, in, opts...)
}

// Kubernetes's caution about VM snapshots (#116155): nothing is counted that a copy would count again, and no data key is in a
// snapshot that is taken before the first request.
func TestNoDataKeyBeforeTheFirstRequest(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	mustCount(t, k, "", 0)
	if sealing, opening := s.Held(); len(sealing)+len(opening) != 0 {
		t.Error("keys in memory")
	}
}

func TestWarmRequestsMakeNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, nil)
		for range 299 {
			mustOpen(t, s, here, sealAt(t, s, here, "a result"), "a result")
			time.Sleep(time.Second)
		}
		mustCount(t, k, "", 1)
		time.Sleep(time.Second)
		sealAt(t, s, here, "a result")
		mustCount(t, k, "", 2)
	})
}

func TestFiveHundredColdCallersMakeOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		k.Fail(kmstest.Fault{Delay: 20 * time.Millisecond})
		s := newSealer(t, k, arn, nil)
		all := func(f func() error) {
			errs := make(chan error)
			for range 500 {
				go func() { errs <- f() }()
			}
			for range 500 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		}
		all(func() error { _, err := s.Prepare(t.Context(), here.scope()); return err })
		mustCount(t, k, "GenerateDataKey", 1)
		sealed := sealAt(t, s, here, "a result")
		other := newSealer(t, k, arn, nil) // another process
		all(func() error { _, err := openAt(t.Context(), other, here, sealed); return err })
		all(func() error { _, err := openAt(t.Context(), other, here, sealed); return err })
		all(func() error { _, err := openAt(t.Context(), s, here, sealed); return err })
		mustCount(t, k, "Decrypt", 1)
		mustCount(t, k, "", 2)
	})
}

// clocks are both of a machine's, in the test's hands.
type clocks struct{ wall, mono time.Duration }

func (c *clocks) read() (wall, mono time.Duration) { return c.wall, c.mono }

// vault-lambda-extension#150, DarkHours#204: Lambda's freeze stops the monotonic clock, and caches never expired. A key's age is
// what either clock says; and where the wall clock went back, nobody knows, so the key is too old.
func TestKeysAgeByEitherClock(t *testing.T) {
	const minute = time.Minute
	steps := map[string]struct {
		wall, mono []time.Duration
		calls      int
	}{
		"both":                          {[]time.Duration{29 * minute, 2 * minute}, []time.Duration{29 * minute, 2 * minute}, 2},
		"frozen for an hour":            {[]time.Duration{60 * minute}, []time.Duration{0}, 1},
		"frozen often":                  {[]time.Duration{9 * minute, 9 * minute, 9 * minute, 9 * minute}, []time.Duration{0, 0, 0, 0}, 4},
		"wall clock stands still":       {[]time.Duration{0, 0}, []time.Duration{29 * minute, 2 * minute}, 2},
		"wall clock goes back":          {[]time.Duration{-10 * minute}, []time.Duration{minute}, 1},
		"wall clock goes back a little": {[]time.Duration{-1}, []time.Duration{0}, 1},
		"back after a freeze":           {[]time.Duration{20 * minute, -19 * minute}, []time.Duration{0, 0}, 2},
		"back and forth":                {[]time.Duration{-minute, minute}, []time.Duration{0, 0}, 1},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			k, arn := newKMS(t)
			s := newSealer(t, k, arn, nil)
			c := &clocks{wall: 1000 * time.Hour}
			s.SetClock(c.read)
			sealed := sealAt(t, s, here, "a result")
			k.Fail(kmstest.Fault{Operation: "GenerateDataKey", Err: kmstest.Throttled()})
			served := true
			for i := range step.wall {
				c.wall += step.wall[i]
				c.mono += step.mono[i]
				if _, err := s.Prepare(t.Context(), here.scope()); err != nil {
					served = false
				}
			}
			if served {
				t.Error("a key of unknown or too great age still seals")
			}
			before := k.Count("Decrypt")
			mustOpen(t, s, here, sealed, "a result")
			mustCount(t, k, "Decrypt", before+1)
		})
	}
}

// A clock that stands still, or goes back while KMS is asked, makes no call more than it must.
func TestAClockSetBackDoesNotStopService(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	var back time.Duration
	s.SetClock(func() (wall, mono time.Duration) { back -= time.Second; return back, 0 }) // with every look
	for range 5 {
		sealAt(t, s, here, "a result")
	}
	if n := k.Count(""); n != 5 {
		t.Errorf("%d calls, want one for each", n)
	}
}

// DisableKey: a process that seals knows it after the soft age, and neither seals nor opens any more with what it has in memory. What
// was prepared before still seals: its effect may have happened, and has to be recorded.
func TestRevocationIsHonouredAtTheSoftAge(t *testing.T) {
	revocations := map[string]func(k *kmstest.KMS, arn string){
		"disabled":         func(k *kmstest.KMS, arn string) { k.Disable(arn) },
		"pending deletion": func(k *kmstest.KMS, arn string) { k.ScheduleDeletion(arn) },
		"material deleted": func(k *kmstest.KMS, arn string) { k.DeleteMaterial(arn) },
		"denied":           func(k *kmstest.KMS, arn string) { k.Fail(kmstest.Fault{Key: arn, Err: kmstest.Denied()}) },
	}
	for name, revoke := range revocations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := kmstest.New(t)
				arn := k.ImportKey("imported", make([]byte, 32))
				s := newSealer(t, k, arn, nil)
				sealed := sealAt(t, s, here, "a result")
				time.Sleep(5*time.Minute - time.Second)
				prepared := prepare(t, s, here)
				revoke(k, arn)
				mustOpen(t, s, here, sealed, "a result") // within the soft age
				time.Sleep(time.Second)
				_, err := s.Prepare(t.Context(), here.scope())
				if e := mustFail(t, err, kmsenc.ErrRefused); e.Key != arn || e.Call != "GenerateDataKey" {
					t.Error(e.Key, e.Call)
				}
				_, err = openAt(t.Context(), s, here, sealed)
				mustFail(t, err, kmsenc.ErrRefused)
				late, err := prepared(nil, here.binding(), []byte("late"))
				if err != nil {
					t.Fatalf("an attempt cannot record its result: %v", err)
				}
				calls := k.Count("")
				for range 100 { // refused again without a call
					_, err := s.Prepare(t.Context(), here.scope())
					mustFail(t, err, kmsenc.ErrRefused)
				}
				mustCount(t, k, "", calls)
				if name == "disabled" {
					k.Enable(arn)
					time.Sleep(2 * time.Second)
					mustOpen(t, s, here, late, "late")
					mustOpen(t, s, here, sealed, "a result")
					sealAt(t, s, here, "again")
				}
			})
		})
	}
}

// Who is denied one tenant's context is not denied the others'.
func TestADeniedTenantIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
		other := here
		other.tenant = "umbrella"
		theirs, ours := sealAt(t, s, other, "theirs"), sealAt(t, s, here, "ours")
		k.Fail(kmstest.Fault{Where: func(c map[string]string) bool { return c["tenant"] == "umbrella" }, Err: kmstest.Denied()})
		time.Sleep(5 * time.Minute)
		_, err := s.Prepare(t.Context(), other.scope())
		mustFail(t, err, kmsenc.ErrRefused)
		_, err = openAt(t.Context(), s, other, theirs)
		mustFail(t, err, kmsenc.ErrRefused)
		calls := k.Count("Decrypt")
		mustOpen(t, s, here, ours, "ours")
		mustCount(t, k, "Decrypt", calls)
		sealAt(t, s, here, "ours")
	})
}

// A process that only reads has no soft age: its keys end with the hard age.
func TestOpeningKeysEndAtTheHardAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
		s := newSealer(t, k, arn, nil)
		mustOpen(t, s, here, sealed, "a result")
		k.Disable(arn)
		time.Sleep(30*time.Minute - 1)
		mustOpen(t, s, here, sealed, "a result")
		mustCount(t, k, "Decrypt", 1)
		time.Sleep(1)
		_, err := openAt(t.Context(), s, here, sealed)
		mustFail(t, err, kmsenc.ErrRefused)
	})
}
