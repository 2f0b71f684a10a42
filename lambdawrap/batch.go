package lambdawrap

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// BatchError: some items of a batch failed, and the event source mapping is said not to know partial failures. The whole batch
// comes again; what was done is recorded and will not be done again.
type BatchError struct {
	Operation     string
	Failed, Total int
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("idem: %s: %d of %d items failed; what was done is recorded", e.Operation, e.Failed, e.Total)
}

var (
	errLate    = errors.New("not started: too little time is left in this invocation")
	errStopped = errors.New("not started: an earlier message of its group, or record of its shard or partition, failed in this invocation")
	errAgain   = errors.New("not started: it is twice in the batch, and failed the first time")
)

// item is one of a batch.
type item struct {
	id     string   // equal for what is the same item to the source
	group  string   // whose items run in order, and not after one that failed; empty for none
	shared []string // items with one of these in common run one after the other
	err    error
	run    func() error
}

// batch runs items. It belongs to one invocation: nothing is remembered for the next.
type batch struct {
	ctx     context.Context
	items   []item
	reserve time.Duration // no item is started with less time left
	adapt   bool          // reserve is to grow by what the slowest item took
	slowest atomic.Int64
	stop    atomic.Bool
}

// run runs the items, in order, or several lanes at a time. It returns when all that was started has ended. A panic of an
// item goes on here, after the others have ended.
func (b *batch) run(workers int) {
	if workers <= 1 {
		all := make([]int, len(b.items))
		for k := range all {
			all[k] = k
		}
		b.lane(all)
		return
	}
	var (
		lanes  = b.lanes()
		next   atomic.Int64
		wg     sync.WaitGroup
		once   sync.Once
		thrown func()
	)
	for range min(workers, len(lanes)) {
		wg.Go(func() {
			ended := false
			defer func() {
				if ended {
					return
				}
				b.stop.Store(true)
				if v := recover(); v != nil {
					once.Do(func() { thrown = func() { panic(v) } })
				} else {
					once.Do(func() { thrown = runtime.Goexit })
				}
			}()
			for k := next.Add(1); k <= int64(len(lanes)); k = next.Add(1) {
				b.lane(lanes[k-1])
			}
			ended = true
		})
	}
	wg.Wait()
	if thrown != nil {
		thrown()
	}
}

// lane runs items one after the other.
func (b *batch) lane(indexes []int) {
	stopped, failed := make(map[string]bool), make(map[string]bool) // lanes have no group and no id in common
	for _, k := range indexes {
		it := &b.items[k]
		switch {
		case it.group != "" && stopped[it.group]:
			it.err = errStopped
		case failed[it.id]:
			it.err = errAgain
		case it.err != nil: // it is known already that it cannot run
		case b.late():
			it.err = errLate
		default:
			start := time.Now()
			it.err = it.run()
			b.took(time.Since(start))
		}
		if it.err != nil {
			stopped[it.group], failed[it.id] = true, true
		}
	}
}

// late says that no more items are to be started.
func (b *batch) late() bool {
	if b.stop.Load() || b.ctx.Err() != nil {
		return true
	}
	deadline, ok := b.ctx.Deadline()
	need := b.reserve
	if b.adapt {
		need += time.Duration(b.slowest.Load())
	}
	return ok && time.Until(deadline) < need
}

func (b *batch) took(d time.Duration) {
	for {
		s := b.slowest.Load()
		if int64(d) <= s || b.slowest.CompareAndSwap(s, int64(d)) {
			return
		}
	}
}

// lanes parts the items into those that may run at the same time. Each is in the batch's order.
func (b *batch) lanes() [][]int {
	root := make([]int, len(b.items))
	find := func(k int) int {
		for root[k] != k {
			k = root[k]
		}
		return k
	}
	seen := make(map[string]int)
	for k, it := range b.items {
		root[k] = k
		for _, s := range append([]string{"id " + it.id, "group " + it.group}, it.shared...) {
			if s == "group " {
				continue
			}
			if before, ok := seen[s]; ok {
				a, z := find(before), find(k)
				root[max(a, z)] = min(a, z)
			}
			seen[s] = k
		}
	}
	var lanes [][]int
	lane := make(map[int]int)
	for k := range b.items {
		r := find(k)
		n, ok := lane[r]
		if !ok {
			n = len(lanes)
			lane[r] = n
			lanes = append(lanes, nil)
		}
		lanes[n] = append(lanes[n], k)
	}
	return lanes
}

// failures are the items that failed, each id once.
func (b *batch) failures() (indexes []int) {
	told := make(map[string]bool)
	for k, it := range b.items {
		if it.err != nil && !told[it.id] {
			told[it.id] = true
			indexes = append(indexes, k)
		}
	}
	return indexes
}
