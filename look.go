package idem

import (
	"context"
	"time"
)

func (e *engine) look(ctx context.Context, r Request) (answer, error) {
	c, err := e.identify(ctx, r)
	if err != nil {
		return answer{}, err
	}
	g, err := c.store.Generation(ctx)
	if err != nil {
		return answer{}, c.unavailable(ctx, "StoreErrors", err)
	}
	rec, err := c.store.Load(ctx, c.id)
	if err != nil {
		return answer{}, c.unavailable(ctx, "StoreErrors", err)
	}
	c.terms = c.engine.terms(c.id, g)
	c.terms.issued, c.terms.now = r.Issued, time.Now()
	next, move, why := step(rec, want{what: claim, fingerprint: c.fingerprint}, c.terms)
	switch why {
	case known:
		return c.answer(ctx, rec, Replayed)
	case fine:
		switch move { // what a request would do with the record tells what is known of it
		case t3, t9:
			return answer{}, c.refused(ctx, next, inDoubt, nil)
		case t4:
			return answer{}, c.refused(ctx, rec, inDoubt, nil)
		case t7:
			if rec.State == Pending && rec.Begun { // Rerun
				rec = doubted(rec, Lapsed, c.terms)
			}
			if rec.State == Indeterminate {
				return answer{}, c.refused(ctx, rec, inDoubt, nil)
			}
		}
		return answer{}, &NotFoundError{c.label}
	}
	return answer{}, c.refused(ctx, rec, why, nil)
}
