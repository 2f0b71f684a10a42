package idemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// results are the results that the handler gave, by operation, for the operator who has to say what happened.
type results map[string]json.RawMessage

// run is one path in one world.
type run struct {
	t       testing.TB
	parent  context.Context
	memory  *Memory
	world   *World
	control chan *process // the word comes back: the process has ended or pauses
	results results

	mu     sync.Mutex // a handler may have several goroutines
	script *script
	lines  []string
	failed string

	current    *process
	deliveries int
	gaps       int        // times at which something late may happen
	late       []*late    // still under way, in the order they were sent
	answers    [][]byte   // of deliveries that succeeded
	processes  []*process // that pause
}

// late is a call that is under way, or a process that pauses.
type late struct {
	what string
	due  int // gap
	do   func()
}

const (
	invocation = 30 * time.Second // what a delivery has
	maxRounds  = 16
)

func newRun(t testing.TB, s *script, results results) *run {
	r := &run{t: t, parent: context.Background(), script: s, results: results, control: make(chan *process)}
	r.memory = NewMemory(&watcher{TB: t, run: r})
	r.world = &World{Store: &worldStore{r}, Sealer: &worldSealer{r}, run: r}
	return r
}

// watcher takes what Memory finds wrong with a write as the path's failure.
type watcher struct {
	testing.TB
	run *run
}

func (w *watcher) Helper() {}

func (w *watcher) Errorf(format string, args ...any) { w.run.failf(format, args...) }

// play takes the path.
func (r *run) play(build func(*World)) {
	build(r.world)
	if r.world.Deliver == nil || r.world.Effects == nil {
		r.failf("build did not set World.Deliver and World.Effects")
		return
	}
	defer r.bury()
	faultless := r.script.faults == 0
	p := r.start()
	if faultless && !p.answered {
		r.failf("without any fault it does not succeed")
	}
	r.check(p)
	if r.failed != "" && p.stack != nil {
		r.say("%s", p.stack)
	}
	for round := 0; r.failed == ""; round++ {
		r.gap()
		done := len(r.answers) > 0 || r.final()
		switch {
		case done && len(r.late) == 0:
			r.check(r.start()) // and whoever comes later is told the same
			return
		case round == maxRounds:
			r.failf("after %d deliveries none has succeeded: the last %s", r.deliveries, r.last())
			return
		case round > 0:
			r.timePasses(round)
		}
		r.gap()
		if r.failed == "" {
			r.check(r.start())
		}
	}
}

// gap lets happen what is due.
func (r *run) gap() {
	r.gaps++
	for k := 0; k < len(r.late) && r.failed == ""; k++ {
		if l := r.late[k]; l.due <= r.gaps {
			r.late = append(r.late[:k:k], r.late[k+1:]...)
			k = -1 // it may have added another
			r.say("%s", l.what)
			l.do()
			r.counted()
		}
	}
}

// settle lets happen whatever is still under way: nothing is later than that.
func (r *run) settle() {
	for len(r.late) > 0 && r.failed == "" { // what goes on may leave something under way
		for _, l := range r.late {
			l.due = 0
		}
		r.gap()
	}
}

// timePasses moves the clock on to when the next delivery makes sense, or lets an operator decide.
func (r *run) timePasses(round int) {
	now := r.memory.Now()
	for _, rec := range r.memory.Records() {
		switch {
		case rec.State == idem.Pending && !now.After(rec.Lease):
			r.until(rec.Lease, "the lease is over")
		case rec.State == idem.Indeterminate && round > 2 && (round > 6 || rec.Asks == 0):
			r.operator(rec)
		case rec.State == idem.Indeterminate && rec.Asks > 0 && round < 3:
			r.until(rec.AskAfter, "the pause between two questions is over")
		case rec.State == idem.Indeterminate && rec.Asks > 0:
			r.settle()
			r.until(latest(rec.Lease.Add(rec.Settle), rec.AskAfter), "the settle time is over")
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (r *run) until(end time.Time, what string) {
	if d := end.Add(time.Second).Sub(r.memory.Now()); d > 0 {
		r.memory.Advance(d)
		r.say("%s", what)
	}
}

// operator looks at the effects and says what is true. That nothing happened can be said only when nothing can happen any more.
func (r *run) operator(rec idem.Record) {
	v := idem.Verdict{State: idem.Completed, Result: r.results[rec.ID.Operation], By: "operator", Why: "saw the effects"}
	if r.world.Effects() == 0 {
		r.settle()
		r.until(rec.Lease.Add(rec.Settle), "the settle time is over")
		if r.failed != "" || r.world.Effects() > 0 {
			return
		}
		v.State, v.Result = idem.Released, nil
	} else if v.Result == nil {
		v.Result = []byte("null")
	}
	seen, err := r.memory.Load(r.parent, rec.ID)
	if err == nil && seen.State == idem.Indeterminate { // what was late may have settled it
		_, err = idem.Resolve(r.parent, r.memory, idem.InsecureCleartext(), seen, v)
		r.say("an operator resolves it as %v", v.State)
	}
	if err != nil {
		r.failf("the operator could not: %v", err)
	}
}

// final says that a final failure is recorded.
func (r *run) final() bool {
	for _, rec := range r.memory.Records() {
		if rec.State == idem.Failed {
			return true
		}
	}
	return false
}

// check is after every delivery that ended.
func (r *run) check(p *process) {
	if !p.ended {
		return
	}
	switch {
	case p.dead:
		r.counted()
		return // whatever its code made of that
	case p.answered:
		r.say("%s succeeds", p.name)
	case p.panicked == errPanic:
		r.say("%s ends in the panic", p.name)
	case p.panicked != nil:
		r.say("%s panics: %v", p.name, p.panicked)
	case p.err != nil:
		r.say("%s ends with %s", p.name, said(p.err))
	default:
		r.say("%s ends its goroutine", p.name)
	}
	r.counted()
	failure, isFailure := errors.AsType[*idem.FailedError](p.err)
	switch n := r.world.Effects(); {
	case r.failed != "":
	case p.answered && n == 0:
		r.failf("%s succeeded, and there was no effect", p.name)
	case isFailure && n > 0:
		r.failf("%s was told that it failed for good (%s), and there was an effect", p.name, failure.Type)
	case p.answered && len(r.answers) > 0 && !bytes.Equal(r.answers[0], p.answer):
		r.failf("%s was answered %q, another one %q", p.name, p.answer, r.answers[0])
	case p.answered:
		r.answers = append(r.answers, bytes.Clone(p.answer))
	}
}

// counted is whenever the effect may have happened.
func (r *run) counted() {
	if n := r.world.Effects(); n > 1 && r.failed == "" {
		r.failf("%d effects, want 1", n)
	}
}

// bury ends what still pauses.
func (r *run) bury() {
	for _, p := range r.processes {
		p.mu.Lock()
		paused := p.paused
		p.dead = true
		p.mu.Unlock()
		if paused {
			r.goOn(p)
		}
	}
}

// said is an error of this library by its type, any other with its text.
func said(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(fmt.Sprintf("%T", e), "*idem.") {
			return fmt.Sprintf("%T", e)
		}
	}
	return fmt.Sprintf("%T: %v", err, err)
}

func (r *run) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *run) failf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == "" {
		r.failed = fmt.Sprintf(format, args...)
	}
}

func (r *run) path() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "    " + strings.Join(r.lines, "\n    ")
}

func (r *run) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return "none"
	}
	return r.lines[len(r.lines)-1]
}

// story is the failure and how it came about.
func (r *run) story() string { return r.failed + "\n" + r.path() }
