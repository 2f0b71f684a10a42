package lab

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"sync"
)

// A Rule lets a proxy act on the requests that match and arrive after it was added. It counts its own matches.
type Rule struct {
	proxy   *Proxy
	match   Match
	actions []Action
	after   bool
	seen    int // matches so far; guarded by the proxy's mutex

	once  sync.Once
	acted chan struct{} // closed when the actions have run for the first time
	err   error         // what they answered; written before acted is closed
}

// Before adds a rule that acts before the request is forwarded: an action that ends the request keeps it from the
// upstream. The actions run in order. Rules run in the order in which they were added.
func (p *Proxy) Before(m Match, actions ...Action) *Rule { return p.add(m, actions, false) }

// After adds a rule that acts when the upstream's answer has been read whole, or the upstream has closed the
// connection without one, and before the client hears of it.
func (p *Proxy) After(m Match, actions ...Action) *Rule { return p.add(m, actions, true) }

func (p *Proxy) add(m Match, actions []Action, after bool) *Rule {
	if _, err := path.Match(m.Path, ""); err != nil {
		panic("lab: path pattern " + m.Path) // it would never match, and the test would hurt nobody
	}
	r := &Rule{proxy: p, match: m, actions: actions, after: after, acted: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Remove takes the rule away. Requests that it has matched already are not let go.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.rules = slices.DeleteFunc(r.proxy.rules, func(other *Rule) bool { return other == r })
}

// Wait returns when the rule's actions have run for the first time, with the error of that run: a Kill that killed
// nothing is one.
func (r *Rule) Wait(ctx context.Context) error {
	select {
	case <-r.acted:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An Action is one thing that a rule does.
type Action struct {
	do func(*exchange) (fate, error)
}

// Do calls f and goes on with the request; an error drops it, so that a test does not go on unhurt.
func Do(f func() error) Action {
	return Action{func(*exchange) (fate, error) {
		if err := f(); err != nil {
			return dropped, err
		}
		return forward, nil
	}}
}

// Kill calls kill and drops the request: before forwarding the upstream never sees it, after forwarding nobody hears
// of the answer.
func Kill(kill func() error) Action {
	return Action{func(*exchange) (fate, error) { return dropped, kill() }}
}

// Drop closes the client's connection without an answer.
func Drop() Action {
	return Action{func(*exchange) (fate, error) { return dropped, nil }}
}

// Answer answers in the upstream's place, with a Date of its own unless the header has one.
func Answer(status int, header http.Header, body []byte) Action {
	return Action{func(x *exchange) (fate, error) {
		x.answer = &answer{status: status, header: header.Clone(), body: body}
		return answered, nil
	}}
}

// Hold keeps the request until the gate is open, also when its client is killed meanwhile: it may be a zombie's
// request that arrives late.
func Hold(g *Gate) Action {
	return Action{func(x *exchange) (fate, error) {
		g.holding.Do(func() { close(g.held) })
		select {
		case <-g.open:
			return forward, nil
		case <-x.done:
			return dropped, errors.New("proxy closed over a held request")
		}
	}}
}

// A Gate holds requests until it is opened.
type Gate struct {
	holding, opening sync.Once
	held, open       chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{held: make(chan struct{}), open: make(chan struct{})} }

// Held is closed when the gate holds its first request.
func (g *Gate) Held() <-chan struct{} { return g.held }

// Open lets go what is held, and all that comes later.
func (g *Gate) Open() { g.opening.Do(func() { close(g.open) }) }

// A fate is what becomes of a request.
type fate int

const (
	forward  fate = iota // as if there were no rule
	dropped              // connection closed
	answered             // by an action
)

// An exchange is one request on its way through the rules.
type exchange struct {
	done   <-chan struct{} // the proxy is closed
	answer *answer
	fate   fate
}

// through runs the rules until one of them ends the request.
func (x *exchange) through(rules []*Rule) fate {
	for _, r := range rules {
		var err error
		for _, a := range r.actions {
			if x.fate, err = a.do(x); x.fate != forward {
				break
			}
		}
		r.once.Do(func() {
			r.err = err
			close(r.acted)
		})
		if x.fate != forward {
			break
		}
	}
	return x.fate
}
