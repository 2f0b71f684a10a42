package kmsenc_test

import (
	"fmt"
	"testing"
)

// BenchmarkSealAndOpen is Prepare, seal and Open with warm keys. At 1 KiB they may take 8 µs and 40 allocations together, as
// TestSealAndOpenAllocateLittle checks for the latter.
func BenchmarkSealAndOpen(b *testing.B) {
	for _, n := range []int{64, 1 << 10, 64 << 10, 350 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			round := sealAndOpen(b, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	k, arn := newKMS(b)
	s := newSealer(b, k, arn, nil)
	scope, binding, text := here.scope(), here.binding(), make([]byte, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		f, err := s.Prepare(b.Context(), scope)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f(nil, binding, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	k, arn := newKMS(b)
	s := newSealer(b, k, arn, nil)
	scope, binding := here.scope(), here.binding()
	sealed := sealAt(b, s, here, string(make([]byte, 1<<10)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(b.Context(), scope, nil, binding, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSealAndOpenAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	if n := testing.AllocsPerRun(100, sealAndOpen(t, 1<<10)); n > 40 {
		t.Errorf("%v allocations, want 40 at most", n)
	} else {
		t.Logf("%v allocations", n)
	}
}

func sealAndOpen(t testing.TB, n int) func() {
	k, arn := newKMS(t)
	s := newSealer(t, k, arn, nil)
	scope, binding, text, ctx := here.scope(), here.binding(), make([]byte, n), t.Context()
	return func() {
		f, err := s.Prepare(ctx, scope)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := f(nil, binding, text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(ctx, scope, nil, binding, sealed); err != nil {
			t.Fatal(err)
		}
	}
}
