package idem

import (
	"context"
	"encoding/json"
	"reflect"
	"time"
)

type recovery uint8

const (
	hold recovery = iota
	reconcile
	rerun
)

// defaultSettle is used where the operation has no reconciler of its own: tools believe a "not applied" no earlier.
const defaultSettle = 15 * time.Minute

// Recovery is one operation's decision about records whose outcome is unknown. The zero value is [Hold].
type Recovery struct {
	kind           recovery
	settle, within time.Duration
	ask            func(context.Context, Doubt) (product, error)
	answers        reflect.Type
}

// Hold keeps indeterminate records until an operator resolves them.
func Hold() Recovery { return Recovery{settle: defaultSettle} }

// Rerun runs the function again although it may have happened, up to within after the first attempt and for at most 5 attempts;
// after that it holds, as it does for a key whose record a restore lost. It is only for an effect that the downstream makes
// idempotent by [Attempt.DownstreamKey], and within is at most how long the downstream remembers keys (Stripe: 24 h).
func Rerun(within time.Duration) Recovery {
	return Recovery{kind: rerun, settle: defaultSettle, within: within}
}

// Reconcile asks what happened, before the next request or a sweep goes on. What ask returns means:
//
//   - a nil error: it happened, with this result. It is recorded and everybody gets it.
//   - [Final]: it was refused for good and nothing happened. It is recorded and everybody gets it.
//   - [NeverApplied]: nothing happened and it no longer can: a request goes on to run the function.
//   - [NotApplied]: nothing was found. This is believed if the question was asked later than settle after the last lease of a
//     run that may have begun has ended: "not found" is not "never", the provider may still get a dead attempt's request.
//   - any other error: still unknown; it is asked again with increasing pauses.
//
// So settle is at least the longest time that a request of the function can be under way at the provider, and that the
// provider's answers can be behind. 15 minutes is good advice.
func Reconcile[T any](settle time.Duration, ask func(context.Context, Doubt) (T, error)) Recovery {
	r := Recovery{kind: reconcile, settle: settle, answers: reflect.TypeFor[T]()}
	if ask != nil {
		r.ask = func(ctx context.Context, d Doubt) (product, error) { return made(ask(ctx, d)) }
	}
	return r
}

// Doubt is what is known about a key whose outcome is unknown.
type Doubt struct {
	Tenant        string // empty in errors
	Reason        Reason
	Since         time.Time       // by the store's clock
	Fence         uint64          // of the attempt in doubt: a downstream that can fence may refuse everything up to it
	DownstreamKey string          // as [Attempt.DownstreamKey]
	Note          json.RawMessage // what the attempt saved, nil if nothing
	Evidence      json.RawMessage // {"result": …} or {"failure": {"type": …, "message": …}} that a replaced attempt reported too late

	// Request is the request that asks; nil in a sweep, since keys and payloads are not stored. After [Restored] nobody has
	// compared its payload with the first one's: compare it with what the downstream has.
	Request *Request

	_ struct{}
}
