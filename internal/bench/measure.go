package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cost of one operation, on average over a block of them.
type cost struct {
	cpu    time.Duration // user and system time of this process
	wall   time.Duration
	allocs float64
	bytes  float64
}

// block runs op n times on some goroutines. What the process does besides, such as collecting what an earlier block left, is
// kept out of it as far as possible.
func block(ctx context.Context, n, goroutines int, op func(ctx context.Context, i int) error) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, used := time.Now(), cpu()
	err := spread(n, goroutines, func(i int) error { return op(ctx, i) })
	c := cost{cpu: (cpu() - used) / time.Duration(n), wall: time.Since(start) / time.Duration(n)}
	runtime.ReadMemStats(&after)
	c.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	c.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	return c, err
}

func spread(n, goroutines int, op func(i int) error) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed atomic.Pointer[error]
	)
	work := func() {
		for failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := op(i); err != nil {
				failed.Store(&err)
			}
		}
	}
	if goroutines == 1 {
		work()
	} else {
		for range goroutines {
			wg.Go(work)
		}
		wg.Wait()
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// side is one of two ways to do the same.
type side struct {
	name string
	op   func(ctx context.Context, round, i int) error
}

// rounds measures the sides in turns, so that what else the machine does hits them all: ABC ABC …, and every other round
// backwards. The first round is not counted.
func rounds(ctx context.Context, n, ops, goroutines int, sides ...side) ([][]cost, error) {
	costs := make([][]cost, len(sides))
	for round := range n + 1 {
		for k := range sides {
			if round%2 == 1 {
				k = len(sides) - 1 - k
			}
			c, err := block(ctx, ops, goroutines, func(ctx context.Context, i int) error { return sides[k].op(ctx, round, i) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sides[k].name, err)
			}
			if round > 0 {
				costs[k] = append(costs[k], c)
			}
		}
	}
	return costs, nil
}

// numbers are one quantity over all rounds.
type numbers []float64

func pick(costs []cost, f func(cost) float64) numbers {
	var n numbers
	for _, c := range costs {
		n = append(n, f(c))
	}
	return n
}

func cpuOf(c cost) float64    { return float64(c.cpu) / 1e3 } // µs
func wallOf(c cost) float64   { return float64(c.wall) / 1e3 }
func allocsOf(c cost) float64 { return c.allocs }
func bytesOf(c cost) float64  { return c.bytes / 1e3 } // kB

// over is the ratio, round by round.
func (a numbers) over(b numbers) numbers {
	var n numbers
	for k := range a {
		n = append(n, a[k]/b[k])
	}
	return n
}

func (a numbers) sorted() numbers { return slices.Sorted(slices.Values(a)) }

func (a numbers) median() float64 {
	s := a.sorted()
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// quartiles show how far the rounds are apart.
func (a numbers) quartiles() (low, high float64) {
	s := a.sorted()
	return s[len(s)/4], s[len(s)-1-len(s)/4]
}

func least[T cmp.Ordered](a []T) T { return slices.Min(a) }
