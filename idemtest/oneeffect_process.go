package idemtest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem"
)

// process is one delivery of the request, in a process of its own.
type process struct {
	run     *run
	name    string
	ctx     *callerContext
	expires time.Time     // its deadline, by the clock that the test moves
	resumed chan struct{} // while it pauses
	own     string        // goroutine: a panic on another one ends the test, as it ends a process

	mu     sync.Mutex
	dead   bool
	paused bool
	claims map[idem.ID]int    // how often it tried to create the record
	fences map[idem.ID]uint64 // under which it owns it

	// Once it has ended:
	ended    bool
	answered bool
	answer   []byte
	err      error
	panicked any
	stack    []byte
}

type processKey struct{}

// start runs the delivery until it ends or pauses.
func (r *run) start() *process {
	r.deliveries++
	p := &process{run: r, name: fmt.Sprintf("delivery %d", r.deliveries), claims: make(map[idem.ID]int), fences: make(map[idem.ID]uint64)}
	p.ctx = newCallerContext(r.parent, p, time.Now().Add(invocation))
	p.expires = r.memory.Now().Add(invocation)
	r.current = p
	go p.deliver()
	r.wait(p)
	return p
}

// deliver is the goroutine of a process.
func (p *process) deliver() {
	p.own = goroutine()
	returned := false
	defer func() {
		if !returned {
			if p.panicked = recover(); p.panicked != nil && p.panicked != errPanic {
				p.stack = debug.Stack()
			}
		}
		p.ended = true
		p.ctx.end(context.Canceled)
		p.run.control <- p
	}()
	answer, err := p.run.world.Deliver(p.ctx)
	p.answer, p.err, p.answered = answer, err, err == nil
	returned = true
}

// goroutine is the caller's, as a stack trace names it.
func goroutine() string {
	var b [32]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), " [")
	return name
}

// pause gives the word to the world until it gives it back.
func (p *process) pause() {
	p.mu.Lock()
	again := p.paused // by another goroutine of the handler
	if !again {
		p.paused, p.resumed = true, make(chan struct{})
	}
	resumed := p.resumed
	p.mu.Unlock()
	if !again {
		p.run.control <- p
	}
	<-resumed
	p.alive()
}

// goOn gives a paused process the word.
func (r *run) goOn(p *process) {
	p.mu.Lock()
	p.paused = false
	resumed := p.resumed
	p.mu.Unlock()
	if r.memory.Now().After(p.expires) {
		p.ctx.end(context.DeadlineExceeded)
	}
	r.current = p
	close(resumed)
	r.wait(p)
}

// die ends the process here. Its deferred functions run, as nobody can prevent that, and reach nothing.
func (p *process) die() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.ctx.end(context.Canceled)
	runtime.Goexit()
}

// alive returns only to a process that is not dead.
func (p *process) alive() {
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
}

// longestRun is how long a handler may run by the clock on the wall. It is not reached by one that works.
const longestRun = 20 * time.Second

// wait returns when the process has ended or pauses.
func (r *run) wait(p *process) {
	t := time.NewTimer(longestRun)
	defer t.Stop()
	select {
	case <-r.control:
	case <-t.C:
		text := fmt.Sprintf("idemtest.OneEffect: %s has not returned after %v:\n%s", p.name, longestRun, r.path())
		if r.t == nil {
			panic(text)
		}
		r.t.Fatalf("%s", text)
	}
}

// callerContext is what a delivery is called with. Unlike those of package context its deadline passes when the test says so.
type callerContext struct {
	context.Context // for values
	process         *process
	deadline        time.Time
	done            chan struct{}

	mu    sync.Mutex
	err   error
	after map[*func()]func()
}

func newCallerContext(parent context.Context, p *process, deadline time.Time) *callerContext {
	return &callerContext{Context: parent, process: p, deadline: deadline, done: make(chan struct{}), after: make(map[*func()]func())}
}

func (c *callerContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *callerContext) Done() <-chan struct{}       { return c.done }

func (c *callerContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *callerContext) Value(key any) any {
	if key == (processKey{}) {
		return c.process
	}
	return c.Context.Value(key)
}

// AfterFunc is what package context looks for in a parent. Contexts made of this one end in the same moment, not soon after.
func (c *callerContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	k := &f
	c.after[k] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[k]
		delete(c.after, k)
		return waits
	}
}

func (c *callerContext) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.done)
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for _, f := range after {
		f()
	}
}
