package kmsenc_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// eventually waits for the garbage collector to find out what is not used any more.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 200 {
		runtime.GC()
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// A data key is overwritten when it is evicted and nobody uses it: under a prepared seal function it never is, and a seal
// function that was never called, as after a claim that was refused, does not keep it.
func TestDataKeysAreOverwrittenWhenTheLastUserIsGone(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	for range 10 {
		prepare(t, s, here) // and forgotten
	}
	f := prepare(t, s, here)
	sealed := sealAt(t, s, here, "a result")
	mustOpen(t, s, here, sealed, "a result")
	keys, _ := s.Held()
	s.Forget()
	for range 3 {
		runtime.GC()
	}
	if keys[0].Wiped() {
		t.Fatal("overwritten under a prepared seal function")
	}
	late, err := f(nil, here.binding(), []byte("late"))
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, s, here, late, "late")
	runtime.KeepAlive(f)
	f = nil
	s.Forget()
	eventually(t, "the data key is overwritten", keys[0].Wiped)
}

// Where no seal function can be left, it is overwritten in the moment of its eviction.
func TestOpeningKeysAreOverwrittenAtOnce(t *testing.T) {
	k, arn := newKMS(t)
	sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
	s := newSealer(t, k, arn, nil)
	mustOpen(t, s, here, sealed, "a result")
	_, keys := s.Held()
	s.Forget()
	if !keys[0].Wiped() {
		t.Error("still there")
	}
}

func TestAKeyIsReplacedWhenItIsUsedUp(t *testing.T) {
	spend := map[string]func(k *kmsenc.DataKey){
		"messages": func(k *kmsenc.DataKey) { k.SpendMessages(2) },
		"bytes":    func(k *kmsenc.DataKey) { k.SpendBytes(2) },
	}
	for name, spend := range spend {
		t.Run(name, func(t *testing.T) {
			k, arn := newKMS(t)
			s := newSealer(t, k, arn, nil)
			f := prepare(t, s, here)
			keys, _ := s.Held()
			k.Fail(kmstest.Fault{Err: kmstest.Throttled(), Times: 1}) // worn, and KMS is throttling: it serves
			spend(keys[0])
			prepare(t, s, here)
			mustCount(t, k, "GenerateDataKey", 2)
			for range 3 { // an attempt seals its notes and its result, whatever the count
				if _, err := f(nil, here.binding(), []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			prepare(t, s, here)
			mustCount(t, k, "GenerateDataKey", 3)
			if now, _ := s.Held(); now[0] == keys[0] {
				t.Error("spent, and still there")
			}
		})
	}
}

// A worn key is replaced before it is spent, while it serves.
func TestAWornKeyIsReplacedInTime(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	prepare(t, s, here)
	keys, _ := s.Held()
	keys[0].SpendMessages(1000)
	prepare(t, s, here)
	mustCount(t, k, "GenerateDataKey", 2)
}

func TestCachesAreBounded(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
	for i := range kmsenc.MaxScopes + kmsenc.MaxOpening {
		p := here
		p.tenant = fmt.Sprint(i)
		sealAt(t, s, p, "a result")
	}
	if sealing, opening := s.Slots(); sealing != kmsenc.MaxScopes || opening != kmsenc.MaxOpening {
		t.Errorf("%d and %d keys, want %d and %d", sealing, opening, kmsenc.MaxScopes, kmsenc.MaxOpening)
	}
}

// A slot that somebody is asking KMS for stays, or two callers would ask at once.
func TestWhatIsInFlightIsNotPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
		k.Fail(kmstest.Fault{Where: func(c map[string]string) bool { return c["tenant"] == "acme" }, Delay: 500 * time.Millisecond})
		done := make(chan error)
		ask := func() { _, err := s.Prepare(t.Context(), here.scope()); done <- err }
		go ask()
		synctest.Wait()
		for i := range kmsenc.MaxScopes + 10 {
			p := here
			p.tenant = fmt.Sprint(i)
			prepare(t, s, p)
		}
		go ask()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		mustCount(t, k, "", kmsenc.MaxScopes+10+1)
	})
}

// With data keys per tenant, one tenant's many records do not push out the others' keys.
func TestATenantHasItsShareOfTheCache(t *testing.T) {
	k, arn := newKMS(t)
	opts := &kmsenc.Options{PerTenant: true}
	other := here
	other.tenant = "umbrella"
	theirs := sealAt(t, newSealer(t, k, arn, opts), other, "theirs")
	s := newSealer(t, k, arn, opts)
	mustOpen(t, s, other, theirs, "theirs")
	for range kmsenc.MaxOpening + 10 {
		text := sealAt(t, newSealer(t, k, arn, opts), here, "ours")
		mustOpen(t, s, here, text, "ours")
	}
	if _, opening := s.Slots(); opening != kmsenc.TenantPart+1 {
		t.Errorf("%d keys, want %d", opening, kmsenc.TenantPart+1)
	}
	calls := k.Count("Decrypt")
	mustOpen(t, s, other, theirs, "theirs")
	mustCount(t, k, "Decrypt", calls)
}

// Forged records do not push out keys, nor do they use up the KMS quota.
func TestForgedRecordsCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, arn := newKMS(t)
		sealed := sealAt(t, newSealer(t, k, arn, nil), here, "a result")
		s := newSealer(t, k, arn, nil)
		mustOpen(t, s, here, sealed, "a result")
		for i := range kmsenc.MaxOpening * 2 {
			forged := flipped(sealed, (kmsenc.HeaderSize+50)*8+i%64)
			forged[kmsenc.HeaderSize+100] ^= byte(i)
			forged[kmsenc.HeaderSize+101] ^= byte(i >> 8)
			mustRefuseText(t, s, here, forged)
		}
		calls := k.Count("Decrypt")
		mustOpen(t, s, here, sealed, "a result")
		mustCount(t, k, "Decrypt", calls)
		forged := flipped(sealed, kmsenc.HeaderSize*8)
		for range 100 { // the same, for ten seconds
			mustRefuseText(t, s, here, forged)
			time.Sleep(100 * time.Millisecond)
		}
		if n := k.Count("Decrypt") - calls; n > 6 {
			t.Errorf("%d calls in ten seconds", n)
		}
	})
}

// aws-encryption-sdk#902: concurrent use of one client was a data race. 64 goroutines seal, open and evict (run with -race).
func TestConcurrentUse(t *testing.T) {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, &kmsenc.Options{PerTenant: true})
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			p := here
			p.tenant = fmt.Sprint(g % 8)
			for i := range 50 {
				f, err := s.Prepare(t.Context(), p.scope())
				if err != nil {
					t.Error(err)
					return
				}
				if i%10 == g%10 {
					s.Forget()
				}
				text, err := f(nil, p.binding(), []byte("a result"))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := openAt(t.Context(), s, p, text); err != nil || got != "a result" {
					t.Errorf("%q, %v", got, err)
				}
				if g == 0 && i%10 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
}
