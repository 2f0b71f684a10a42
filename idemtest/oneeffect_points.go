package idemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/idem-go/idem"
)

// What a call gets that went wrong.
var (
	errPanic   = errors.New("idemtest: the handler panics here")
	errDead    = errors.New("idemtest: the process is dead")
	errCut     = fmt.Errorf("idemtest: the answer is lost: %w", idem.ErrAmbiguous)
	errRefused = errors.New("idemtest: the store is throttled, nothing was written")
	errTimeout = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	errDial    = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
)

// outcomes of one call that has an effect somewhere else. The first is that nothing goes wrong.
type fault int

const (
	none fault = iota
	diesBefore
	diesAfter
	diesUnderWay
	losesAfter
	losesUnderWay
	refused
	pausesBefore
	pausesAfter
	callerLeaves
	deadlinePasses
	lostOnTheWay   // the downstream only
	leavesUnderWay // the downstream only
	panics         // inside the handler only
	panicsAfter    // the downstream only
)

var (
	faultsOutside    = []fault{none, diesBefore, diesAfter, diesUnderWay, losesAfter, losesUnderWay, refused, pausesBefore, pausesAfter, callerLeaves, deadlinePasses}
	faultsInside     = append(slices.Clip(faultsOutside), panics)
	faultsDownstream = append(slices.Clip(faultsOutside), lostOnTheWay, leavesUnderWay, panics, panicsAfter)
)

var faultWords = map[fault]string{
	diesBefore:     "dies before %s",
	diesAfter:      "dies when %s was carried out",
	diesUnderWay:   "dies with %s under way",
	losesAfter:     "gets no answer to %s, which was carried out",
	losesUnderWay:  "gets no answer to %s, which is still under way",
	refused:        "has %s refused",
	pausesBefore:   "pauses before %s",
	pausesAfter:    "pauses when %s was carried out",
	callerLeaves:   "is left by its caller before %s",
	deadlinePasses: "is at its deadline before %s",
	lostOnTheWay:   "gets no answer to %s, which was lost on the way",
	panics:         "panics before %s",
	panicsAfter:    "panics after %s",
	leavesUnderWay: "is left by its caller with %s under way, which was carried out",
}

// When something late happens, in gaps from now. Before the next delivery and after it, before the lease is over and after, and, of a process, after an operator.
var (
	arrivals = [...]int{1, 3, 4, 5}
	returns  = [...]int{3, 4, 5, 8}
)

// process finds who calls. A context that is not made of the delivery's belongs to the one that has the word.
func (r *run) process(ctx context.Context) *process {
	if p, ok := ctx.Value(processKey{}).(*process); ok {
		return p
	}
	return r.current
}

// choose says what goes wrong with a call.
func (r *run) choose(p *process, what string, faults []fault) fault {
	r.mu.Lock()
	if n := slices.Index(faults, panics); n > 0 && r.script.faults > 0 && goroutine() != p.own {
		faults = faults[:n]
	}
	f := faults[r.script.fault(len(faults))]
	r.mu.Unlock()
	if f != none {
		r.say("%s "+faultWords[f], p.name, what)
	}
	return f
}

// later keeps something for a time that is chosen.
func (r *run) later(what string, when []int, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, &late{what, r.gaps + when[r.script.pick(len(when))], do})
}

// disturb carries out a call of p, with what goes wrong. carry does it, now or later; lost is what p gets instead of its answer,
// denied what it gets if the call is refused.
func disturb[T any](p *process, f fault, what string, carry func() (T, error), lost, denied error) (got T, err error) {
	r := p.run
	late := func() { r.later(what+" of "+p.name+" arrives", arrivals[:], func() { carry() }) }
	switch f {
	case diesBefore:
		p.die()
	case diesAfter:
		carry()
		p.die()
	case diesUnderWay:
		late()
		p.die()
	case losesAfter:
		carry()
		return got, lost
	case losesUnderWay:
		late()
		return got, lost
	case lostOnTheWay:
		return got, lost
	case refused:
		return got, denied
	case pausesBefore:
		p.goesOnLater(returns[:])
		return carry()
	case pausesAfter:
		got, err = carry()
		p.goesOnLater(returns[:])
		return got, err
	case callerLeaves:
		p.ctx.end(context.Canceled)
	case deadlinePasses:
		p.ctx.end(context.DeadlineExceeded)
	case leavesUnderWay:
		p.ctx.end(context.Canceled)
		carry()
		return got, context.Canceled
	case panics:
		panic(errPanic)
	case panicsAfter:
		carry()
		panic(errPanic)
	}
	return carry()
}

// goesOnLater pauses the process.
func (p *process) goesOnLater(when []int) {
	r := p.run
	r.later(p.name+" goes on", when, func() { r.goOn(p); r.check(p) })
	r.processes = append(r.processes, p)
	p.pause()
}

// call is World.Call.
func (r *run) call(ctx context.Context, serve func()) error {
	p := r.process(ctx)
	if p == nil {
		return errors.New("idemtest: World.Call outside of a delivery")
	}
	switch err := ctx.Err(); {
	case p.gone():
		return errDead
	case err != nil:
		return err
	}
	const what = "the request to the downstream"
	f := r.choose(p, what, faultsDownstream)
	if f == callerLeaves || f == deadlinePasses { // a client sends nothing then
		p.ctx.end(map[fault]error{callerLeaves: context.Canceled, deadlinePasses: context.DeadlineExceeded}[f])
		return p.ctx.Err()
	}
	_, err := disturb(p, f, what, func() (struct{}, error) { serve(); return struct{}{}, nil }, errTimeout, errDial)
	return err
}
