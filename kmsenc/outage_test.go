package kmsenc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// The promise of soft and hard age: whatever KMS does, a process in use goes on sealing for at least the difference of the two,
// here 25 minutes from the worst moment on.
func TestNoSealIsLostIn25MinutesWithoutKMS(t *testing.T) {
	outages := map[string]kmstest.Fault{
		"throttled": {Err: kmstest.Throttled()},
		"failing":   {Err: kmstest.Internal()},
		"cut off":   {Err: kmstest.CutOff()},
		"hanging":   {Hang: true},
		"slow":      {Delay: 3 * time.Second},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, arn := newKMS(t)
				s := newSealer(t, k, arn, nil)
				first := sealAt(t, s, here, "a result")
				time.Sleep(5*time.Minute - time.Second) // any moment later, and the key would have been replaced
				end := k.Fail(outage)
				start, sealed := time.Now(), 0
				for time.Since(start) < 25*time.Minute {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					f, err := s.Prepare(ctx, here.scope())
					cancel()
					if err != nil {
						t.Fatalf("after %v: %v", time.Since(start), err)
					}
					text, err := f(nil, here.binding(), []byte("a result"))
					if err != nil {
						t.Fatal(err)
					}
					mustOpen(t, s, here, text, "a result")
					mustOpen(t, s, here, first, "a result")
					sealed++
					time.Sleep(time.Second)
				}
				calls := k.Count("")
				t.Logf("%d sealed, %d calls", sealed, calls)
				if calls > 150 {
					t.Errorf("%d calls in 25 minutes: one in 10 s at most", calls)
				}
				time.Sleep(2 * time.Second) // then the key is too old
				_, err := s.Prepare(t.Context(), here.scope())
				mustFail(t, err, kmsenc.ErrUnavailable)
				_, err = openAt(t.Context(), s, here, first)
				mustFail(t, err, kmsenc.ErrUnavailable)
				end()
				time.Sleep(5 * time.Second)
				mustOpen(t, s, here, first, "a result")
				sealAt(t, s, here, "a result")
			})
		})
	}
}

// A miss that fails is not repeated by every request: an outage is no reason for a storm of calls. The prototype without that made
// a call for each refused request.
func TestMissesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, nil)
		end := k.Fail(kmstest.Fault{Err: kmstest.Throttled()})
		for range 6000 { // 10 a second for 10 minutes
			_, err := s.Prepare(t.Context(), here.scope())
			mustFail(t, err, kmsenc.ErrUnavailable)
			time.Sleep(100 * time.Millisecond)
		}
		if n := k.Count(""); n < 2*600/6 || n > 2*600/3 {
			t.Errorf("%d calls in 10 minutes, want two in about 5 s", n)
		}
		end()
		time.Sleep(5 * time.Second)
		sealAt(t, s, here, "a result")
	})
}

// One refresh is under way, and only the caller that asks waits for it.
func TestOthersGoOnWithTheOldKeyDuringARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, nil)
		prepare(t, s, here)
		time.Sleep(5 * time.Minute)
		k.Fail(kmstest.Fault{Delay: 300 * time.Millisecond})
		slow := 0
		done := make(chan time.Duration)
		for range 100 {
			go func() {
				start := time.Now()
				if _, err := s.Prepare(t.Context(), here.scope()); err != nil {
					t.Error(err)
				}
				done <- time.Since(start)
			}()
		}
		for range 100 {
			if <-done > 0 {
				slow++
			}
		}
		if slow != 1 {
			t.Errorf("%d callers waited, want 1", slow)
		}
		mustCount(t, k, "GenerateDataKey", 2)
		prepare(t, s, here)
		mustCount(t, k, "GenerateDataKey", 2)
	})
}

// A refresh takes at most half a second, and at most a quarter of the time that its caller has.
func TestARefreshIsShort(t *testing.T) {
	for have, want := range map[time.Duration]time.Duration{time.Minute: 500 * time.Millisecond, 400 * time.Millisecond: 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			k, arn := newKMS(t)
			s := newSealer(t, k, arn, nil)
			prepare(t, s, here)
			time.Sleep(5 * time.Minute)
			k.Fail(kmstest.Fault{Hang: true})
			ctx, cancel := context.WithTimeout(t.Context(), have)
			defer cancel()
			start := time.Now()
			if _, err := s.Prepare(ctx, here.scope()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("with %v left it took %v, want %v", have, took, want)
			}
		})
	}
}

// The AWS Encryption SDK for Go makes its calls with context.Background. A caller whose context is over makes no call, and one
// whose context ends does not wait any longer.
func TestContextsAreObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
		s := newSealer(t, k, arn, nil)
		calls := k.Count("")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Prepare(ctx, here.scope())
		mustFail(t, err, kmsenc.ErrUnavailable)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_, err = openAt(ctx, s, here, sealed)
		mustFail(t, err, kmsenc.ErrUnavailable)
		mustCount(t, k, "", calls)

		k.Fail(kmstest.Fault{Hang: true})
		for _, f := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := s.Prepare(ctx, here.scope()); return err },
			func(ctx context.Context) error { _, err := openAt(ctx, s, here, sealed); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			start := time.Now()
			err := f(ctx)
			cancel()
			mustFail(t, err, kmsenc.ErrUnavailable)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if took := time.Since(start); took != 700*time.Millisecond {
				t.Errorf("took %v", took)
			}
		}
		start := time.Now()
		_, err = s.Prepare(t.Context(), here.scope()) // without a deadline of its own
		mustFail(t, err, kmsenc.ErrUnavailable)
		if took := time.Since(start); took < 2*time.Second || took > 2200*time.Millisecond {
			t.Errorf("took %v, want two calls of a second each", took)
		}
	})
}

// One caller's context is its own: when the one that asks gives up, another asks.
func TestACancelledCallerFailsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, nil)
		k.Fail(kmstest.Fault{Delay: 300 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		impatient := make(chan error)
		go func() { _, err := s.Prepare(ctx, here.scope()); impatient <- err }()
		synctest.Wait()
		others := make(chan error)
		for range 10 {
			go func() { _, err := s.Prepare(t.Context(), here.scope()); others <- err }()
		}
		mustFail(t, <-impatient, kmsenc.ErrUnavailable)
		for range 10 {
			if err := <-others; err != nil {
				t.Error(err)
			}
		}
		mustCount(t, k, "GenerateDataKey", 2)
	})
}

// nsmithuk/local-kms panics on a short ciphertext and closes the connection. That is no answer about the text: it is unavailable,
// and asked twice at most.
func TestBrokenConnectionsAreUnavailableNotTampered(t *testing.T) {
	k, arn := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
	k.Fail(kmstest.Fault{Err: kmstest.CutOff()})
	_, err := openAt(t.Context(), newSealer(t, k, arn, nil), here, sealed)
	mustFail(t, err, kmsenc.ErrUnavailable)
	mustCount(t, k, "Decrypt", 2)
	for _, c := range k.Calls() {
		if c.Tries != 1 {
			t.Errorf("the SDK would send it %d times", c.Tries)
		}
	}
}

// One throttled or broken call is repeated, and nobody notices.
func TestOnePassingFaultIsCovered(t *testing.T) {
	for _, err := range []error{kmstest.Throttled(), kmstest.Internal(), kmstest.CutOff()} {
		synctest.Test(t, func(t *testing.T) {
			k, arn := newKMS(t)
			k.Fail(kmstest.Fault{Err: err, Times: 1})
			sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
			k.Fail(kmstest.Fault{Err: err, Times: 1})
			mustOpen(t, newSealer(t, k, arn, nil), here, sealed, "a result")
			mustCount(t, k, "", 4)
		})
	}
}

// An implementation of the API that ignores its context blocks its own caller, and nobody else for longer than its call could take.
func TestAnAPIThatNeverReturnsDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		api := &stubborn{API: k, block: make(chan struct{})}
		s := newSealer(t, api, arn, nil)
		stuck := make(chan error)
		go func() { _, err := s.Prepare(t.Context(), here.scope()); stuck <- err }()
		synctest.Wait()
		start := time.Now()
		sealAt(t, s, here, "a result")
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("waited %v", took)
		}
		close(api.block)
		if err := <-stuck; err != nil {
			t.Error(err)
		}
		sealAt(t, s, here, "a result")
	})
}

func TestAPanicOfTheAPIBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		api := &stubborn{API: k, panics: true}
		s := newSealer(t, api, arn, nil)
		func() {
			defer func() { recover() }()
			s.Prepare(t.Context(), here.scope())
			t.Error("the panic did not go on")
		}()
		start := time.Now()
		sealAt(t, s, here, "a result")
		if took := time.Since(start); took != 0 {
			t.Errorf("the next caller waited %v", took)
		}
	})
}
