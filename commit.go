package idem

import (
	"context"
	"encoding/json"
)

// Commit is [Operation.Do] for an effect that lies in the store's own database: it is committed together with its receipt, so
// there is no lease, no doubt and nothing to recover. It is the seam for back ends, such as dynamo's Transact.
//
// fn only prepares: it has no effect of its own, and may be called although its result is then not used. write stores next over
// the record that carries the version seen (none: the zero Version) together with the caller's writes, all or nothing, and
// answers as a [Store] does. A request for a key that an ordinary attempt holds is refused as Do would.
func (o *Operation[T]) Commit(ctx context.Context, r Request, fn func(context.Context) (T, error), write func(ctx context.Context, seen Version, next Record) (Record, error)) (Result[T], error) {
	a, err := o.commit(ctx, r, func(ctx context.Context) (json.RawMessage, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return encode(v)
	}, write)
	if err != nil {
		return Result[T]{}, err
	}
	return o.result(a, r)
}

func (e *engine) commit(ctx context.Context, r Request, fn func(context.Context) (json.RawMessage, error), write func(context.Context, Version, Record) (Record, error)) (answer, error) {
	c, err := e.identify(ctx, r)
	if err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		return answer{}, err
	}
	c.terms.tx = true
	var own answer
	c.compose = func(ctx context.Context) error {
		if own.outcome != 0 {
			return nil
		}
		ctx, cancel := context.WithDeadline(ctx, c.runEnd)
		defer cancel()
		raw, err := fn(ctx)
		switch {
		case err != nil:
			return bare(err)
		case len(raw) > c.MaxResult:
			return &RequestError{c.name, "the result is larger than Options.MaxResult; nothing was written"}
		}
		own = answer{raw, Executed}
		return nil
	}
	c.commit = func(ctx context.Context, seen, next Record) (Record, error) {
		var err error
		if next.Receipt, err = c.sealed(kindResult, next.Fence, own.raw); err != nil {
			return Record{}, err
		}
		return write(ctx, seen.Version, next)
	}
	rec, how, err := c.claim(ctx)
	switch {
	case err != nil:
		return answer{}, err
	case how == Executed:
		c.emit(ctx, c.label, c.start, Event{Kind: "Completed", Fence: rec.Fence, Bytes: len(own.raw)})
		return own, nil
	}
	return c.answer(ctx, rec, how)
}
