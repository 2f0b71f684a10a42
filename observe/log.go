package observe

import (
	"context"
	"log/slog"

	"github.com/idem-go/idem"
)

// Log is an observer that logs. The level is
//
//   - Debug for the normal course: Claimed, Completed;
//   - Info for what a caller may notice: Replayed, InProgress, Failed, Released, Reconciled;
//   - Warn for what a caller did wrong: Mismatch, Refused; and for a kind that this version does not know;
//   - Error for what somebody should look at: Indeterminate, Lost, Conflict, NotRecorded, StoreErrors, KeyErrors.
//
// The attributes are event, operation, keyDigest, fence, latency (milliseconds), and where they say something reason, resultBytes and
// error. The logger's handler gets the invocation's context, so that it can add the request's id. Log panics where l is nil.
func Log(l *slog.Logger) func(context.Context, idem.Event) {
	if l == nil {
		panic("observe: Log needs a logger")
	}
	return func(ctx context.Context, e idem.Event) {
		level, message := levelOf(e.Kind)
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := append(make([]slog.Attr, 0, 8),
			slog.String("event", e.Kind), slog.String("operation", e.Operation), slog.String("keyDigest", e.Digest),
			slog.Uint64("fence", e.Fence), slog.Float64("latency", milliseconds(e.Elapsed)))
		if e.Reason != 0 {
			attrs = append(attrs, slog.String("reason", e.Reason.String()))
		}
		if e.Kind == "Completed" {
			attrs = append(attrs, slog.Int("resultBytes", e.Bytes))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		l.LogAttrs(ctx, level, message, attrs...)
	}
}

func levelOf(kind string) (slog.Level, string) {
	switch kind {
	case "Claimed":
		return slog.LevelDebug, "idem: the function is about to run"
	case "Completed":
		return slog.LevelDebug, "idem: the result is recorded"
	case "Failed":
		return slog.LevelInfo, "idem: a final failure is recorded"
	case "Replayed":
		return slog.LevelInfo, "idem: answered from the record"
	case "InProgress":
		return slog.LevelInfo, "idem: another attempt holds the key"
	case "Released":
		return slog.LevelInfo, "idem: nothing happened, the next request may run"
	case "Reconciled":
		return slog.LevelInfo, "idem: a doubt was settled"
	case "Mismatch":
		return slog.LevelWarn, "idem: the key was used with another payload"
	case "Refused":
		return slog.LevelWarn, "idem: a bad request was refused"
	case "Indeterminate":
		return slog.LevelError, "idem: nobody knows whether the effect happened"
	case "Lost":
		return slog.LevelError, "idem: a finished attempt found its key taken over"
	case "Conflict":
		return slog.LevelError, "idem: a finished attempt found another outcome recorded"
	case "NotRecorded":
		return slog.LevelError, "idem: the outcome is not known to be recorded"
	case "StoreErrors":
		return slog.LevelError, "idem: the store failed"
	case "KeyErrors":
		return slog.LevelError, "idem: the sealer failed"
	}
	return slog.LevelWarn, "idem: an event of an unknown kind"
}
