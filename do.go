package idem

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Do runs fn at most once for r and answers every request with what was recorded.
//
// The claim is stored before fn runs, and its outcome before Do returns. fn runs on the caller's goroutine under a context that
// ends a reserve before ctx's deadline; [AttemptFrom] finds its handle in that context. A nil error from fn is a success. Other
// errors mean what they were classified with ([NotApplied], [Final], [Unknown]); Do returns fn's own error, without
// that word. A panic goes on after it was recorded as unknown, or as nothing where the operation marks its begin.
//
// Where fn did not run for this request, the error is a [RequestError], [InProgressError], [MismatchError],
// [IndeterminateError], [UnavailableError], [UnreadableError] or [FailedError]. Where it ran and succeeded, it is a
// [NotRecordedError] or a [LostError] if that could not be recorded, and an [UnreadableError] if its result has no JSON form
// or does not decode. [RetryAfter] says whether a retry helps. An inner guarded call's error that fn returns is fn's own.
func (o *Operation[T]) Do(ctx context.Context, r Request, fn func(context.Context) (T, error)) (Result[T], error) {
	a, err := o.engine.do(ctx, r, func(ctx context.Context) (product, error) { return made(fn(ctx)) })
	if err != nil {
		return Result[T]{}, err
	}
	return o.result(a, r)
}

// Look tells what is known about r and runs nothing: the recorded result, or one of Do's errors, or a [NotFoundError].
func (o *Operation[T]) Look(ctx context.Context, r Request) (Result[T], error) {
	a, err := o.engine.look(ctx, r)
	if err != nil {
		return Result[T]{}, err
	}
	return o.result(a, r)
}

func (o *Operation[T]) result(a answer, r Request) (Result[T], error) {
	v, err := decode[T](a.raw)
	if err != nil {
		id, _ := r.id(o.engine.name, o.engine.SingleTenant)
		return Result[T]{}, &UnreadableError{ID: id.String(), Raw: a.raw, Err: err}
	}
	return Result[T]{Value: v, Raw: a.raw, Outcome: a.outcome}, nil
}

// call is one request under way.
type call struct {
	*engine
	id          ID
	label       string // operation and digest
	fingerprint [32]byte
	request     Request
	terms       terms
	seal        func(dst, binding, plaintext []byte) ([]byte, error)
	start       time.Time
	runEnd      time.Time     // the function's context ends
	end         time.Time     // the invocation ends
	reserve     time.Duration // between the two
	doubted     bool          // this request's Indeterminate event was emitted
	again       bool          // the claim runs again what may have happened

	compose func(ctx context.Context, next *Record) error // Commit: runs the function and seals its result into next
}

func (e *engine) do(ctx context.Context, r Request, fn func(context.Context) (product, error)) (answer, error) {
	c, err := e.identify(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if err := c.prepare(ctx); err != nil {
		return answer{}, err
	}
	rec, how, err := c.claim(ctx, nil)
	switch {
	case err != nil:
		return answer{}, err
	case how != Executed:
		return c.answer(ctx, rec, how)
	}
	a := &Attempt{call: c, rec: rec, fence: rec.Fence, life: rec.Life}
	c.bound(rec)
	if why := c.tooLate(ctx); why != nil { // the claim took too long
		a.over = true
		a.nothingHappened(ctx, time.Now(), Deadline)
		return answer{}, &UnavailableError{ID: c.label, Err: why}
	}
	p, err := a.run(ctx, fn)
	return a.finish(ctx, p, err)
}

// bound lets the run end before its lease does by the store's clock, which may be ahead of the caller's: on an environment that
// was thawed with its clock standing, say.
func (c *call) bound(r Record) {
	if r.At.IsZero() {
		return
	}
	if end := time.Now().Add(r.Lease.Sub(r.At) - leaseMargin); end.Before(c.end) {
		c.end, c.runEnd = end, end.Add(-c.reserve)
	}
}

// left is how much time there is until t, by the wall clock or the monotonic one, whichever says less: a freeze stops the one, and
// the other may be set.
func left(t time.Time) time.Duration {
	now := time.Now()
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}

// tooLate says why the function is not to be started any more, if so.
func (c *call) tooLate(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if left(c.runEnd) < minRun {
		return errNoTime
	}
	return nil
}

// identify checks the request. Nothing is asked of anybody.
func (e *engine) identify(ctx context.Context, r Request) (*call, error) {
	c := &call{engine: e, request: r, start: time.Now()}
	refuse := func(err error) error {
		e.emit(ctx, c.label, c.start, Event{Kind: "Refused"})
		return &RequestError{e.name, err.Error()}
	}
	var err error
	if c.id, err = r.id(e.name, e.SingleTenant); err != nil {
		return nil, refuse(err)
	}
	c.label = c.id.String()
	if c.fingerprint, err = r.fingerprint(c.id); err != nil {
		return nil, refuse(err)
	}
	return c, nil
}

// prepare gets in hand what the run will need, before anything is written: time, the table's generation, a key to seal with.
func (c *call) prepare(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	limit := c.start.Add(maxLease)
	switch {
	case !ok && c.Lease == 0:
		c.emit(ctx, c.label, c.start, Event{Kind: "Refused"})
		return &RequestError{c.name, "the context has no deadline, and Options.Lease is not set"}
	case !ok:
		deadline = c.start.Add(c.Lease)
	case deadline.After(limit):
		deadline = limit
	}
	c.reserve = reserve(c.Reserve, deadline.Sub(c.start))
	c.end, c.runEnd = deadline, deadline.Add(-c.reserve)
	if err := c.tooLate(ctx); err != nil {
		return c.unavailable(ctx, "Refused", err)
	}
	ctx, cancel := context.WithDeadline(ctx, c.runEnd)
	defer cancel()
	g, err := c.store.Generation(ctx)
	if err != nil {
		return c.unavailable(ctx, "StoreErrors", err)
	}
	c.terms = c.engine.terms(c.id, g)
	// The deadline is the Lambda service's, or else by a clock that may be wrong; by the store's clock the lease is not shorter.
	c.terms.lease = latest(deadline.Round(0), g.At.Add(deadline.Sub(c.start))).Add(leaseMargin)
	c.terms.issued = c.request.Issued
	if c.outlived(g) {
		c.emit(ctx, c.label, c.start, Event{Kind: "Refused"})
		return &RequestError{c.name, "Request.Issued is longer ago than Options.Retain: the key may have been used and forgotten"}
	}
	if c.seal, err = c.sealer.Prepare(ctx, scope(c.id)); err != nil {
		return c.unavailable(ctx, "KeyErrors", err)
	}
	return nil
}

// outlived says that a record of the key may have been forgotten already. The store's clock was read a short time ago; the
// grace makes up for that, and for a caller's clock.
func (c *call) outlived(g Generation) bool {
	now := g.At
	if now.IsZero() {
		now = time.Now()
	}
	return !c.request.Issued.IsZero() && now.After(c.request.Issued.Add(c.Retain-expiryGrace))
}

func (c *call) unavailable(ctx context.Context, kind string, err error) error {
	c.emit(ctx, c.label, c.start, Event{Kind: kind, Err: err})
	return &UnavailableError{ID: c.label, Err: err}
}

// answer replays a terminal record.
func (c *call) answer(ctx context.Context, r Record, how Outcome) (answer, error) {
	var a answer
	unavailable := "StoreErrors"
	r, err := c.fetched(ctx, r)
	if err == nil {
		unavailable = "KeyErrors"
		a, err = c.replay(ctx, r, how)
	}
	switch err.(type) {
	case nil, *FailedError:
		kind := "Replayed"
		if how == Reconciled {
			kind = "Reconciled"
		}
		c.emit(ctx, c.label, c.start, Event{Kind: kind, Fence: r.Fence})
	case *UnavailableError:
		c.emit(ctx, c.label, c.start, Event{Kind: unavailable, Fence: r.Fence, Err: errors.Unwrap(err)})
	default:
		c.emit(ctx, c.label, c.start, Event{Kind: "Replayed", Fence: r.Fence, Err: errors.Unwrap(err)})
	}
	return a, err
}

// propose writes next over what was seen.
func (e *engine) propose(ctx context.Context, seen, next Record) (Record, error) {
	if seen.State == 0 {
		return e.store.Create(ctx, next)
	}
	return e.store.Swap(ctx, seen.Version, next)
}

// write returns who holds the key after next was proposed. Every write gets a version of its own. If its answer was lost, one
// read tells: either the record carries the version, or it is not as seen any more and the write, should it still arrive, will
// be refused; or it is as seen, and the error says that the write may yet be applied.
func (e *engine) write(ctx context.Context, seen, next Record, propose proposal) (Record, error) {
	holder, err := propose(ctx, seen, next)
	if err == nil || !errors.Is(err, ErrAmbiguous) {
		return holder, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	holder, lerr := e.store.Load(ctx, next.ID)
	switch {
	case lerr != nil:
		return Record{}, errors.Join(err, lerr)
	case holder.State != 0 && holder.Version == next.Version:
		return holder, nil
	case holder.State == 0 && seen.State == 0, holder.State != 0 && holder.Version == seen.Version:
		return Record{}, err
	}
	return holder, nil
}

// loadTimeout bounds the one read after a write whose answer was lost.
const loadTimeout = 500 * time.Millisecond

// newVersion never fails: crypto/rand ends the process rather than give bad bytes.
func newVersion() (v Version) {
	rand.Read(v[:])
	return v
}
