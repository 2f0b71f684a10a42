package idem

import (
	"context"
	"errors"
)

// Commit is [Operation.Do] for an effect that lies in the store's own database: it is committed together with its receipt, so
// no lease and no doubt come of it. It is the seam for back ends, such as dynamo's Transact.
//
// fn only prepares: it has no effect of its own, and may be called although its result is then not used. Its error is returned
// with nothing written, whatever it was classified with. write stores next over the record that carries the version seen
// (none: the zero Version) together with the caller's writes, all or nothing, and answers as a [Store] does. What it classifies
// as [NotApplied] is about the caller's writes, and is returned with nothing written, too.
//
// The errors are Do's. A [NotRecordedError] says that both effect and receipt may be stored, or neither: the same request
// again tells. A key that an ordinary attempt holds, or left in doubt, is refused as Do would, and no reconciler is asked.
func (o *Operation[T]) Commit(ctx context.Context, r Request, fn func(context.Context) (T, error), write func(ctx context.Context, seen Version, next Record) (Record, error)) (Result[T], error) {
	if fn == nil || write == nil {
		return Result[T]{}, &RequestError{o.Name(), "Commit needs a function and a write"}
	}
	a, err := o.engine.commit(ctx, r, func(ctx context.Context) (product, error) { return made(fn(ctx)) }, write)
	if err != nil {
		return Result[T]{}, err
	}
	return o.result(a, r)
}

func (e *engine) commit(ctx context.Context, r Request, fn func(context.Context) (product, error), write func(context.Context, Version, Record) (Record, error)) (answer, error) {
	c, err := e.identify(ctx, r)
	if err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		return answer{}, err
	}
	c.terms.tx = true
	var own *product
	c.compose = func(ctx context.Context, next *Record) error {
		if own == nil {
			running, cancel := context.WithDeadline(guarded(ctx, nil), c.runEnd)
			defer cancel()
			p, err := fn(running)
			switch {
			case err != nil && nested(ctx):
				return hidden(err)
			case err != nil:
				return bare(err)
			case p.unkept != nil:
				return &RequestError{c.name, p.unkept.Error() + "; nothing was written"}
			case len(p.raw) > c.MaxResult:
				return &RequestError{c.name, "the result is larger than Options.MaxResult; nothing was written"}
			}
			own = &p
		}
		var err error
		if next.Receipt, err = c.sealed(kindResult, next.Fence, own.raw); err != nil {
			return c.unavailable(ctx, "KeyErrors", err)
		}
		return nil
	}
	rec, how, err := c.claim(ctx, func(ctx context.Context, seen, next Record) (Record, error) { return write(ctx, seen.Version, next) })
	switch {
	case err != nil && own != nil && errors.Is(err, ErrAmbiguous):
		return answer{}, &NotRecordedError{ID: c.label, Raw: own.raw, Err: errors.Unwrap(err), both: true}
	case err != nil:
		return answer{}, err
	case how == Executed:
		c.emit(ctx, c.label, c.start, Event{Kind: "Completed", Fence: rec.Fence, Bytes: len(own.raw)})
		return answer{own.raw, Executed}, nil
	}
	return c.answer(ctx, rec, how)
}
