package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/observe"
)

func TestLevels(t *testing.T) {
	want := map[string]string{
		"Claimed": "DEBUG", "Completed": "DEBUG", "Replayed": "INFO", "InProgress": "INFO", "Failed": "INFO", "Released": "INFO", "Reconciled": "INFO",
		"Mismatch": "WARN", "Refused": "WARN", "Indeterminate": "ERROR", "Lost": "ERROR", "Conflict": "ERROR", "NotRecorded": "ERROR", "StoreErrors": "ERROR", "KeyErrors": "ERROR",
	}
	messages := make(map[string]bool)
	for _, kind := range append(kinds(t), "OfALaterVersion") {
		var b bytes.Buffer
		observe.Log(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))(t.Context(), idem.Event{Kind: kind})
		var line struct{ Level, Msg, Event string }
		if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Event != kind || line.Msg == "" || messages[line.Msg] {
			t.Errorf("%s: %v %s", kind, err, b.String())
		}
		messages[line.Msg] = true
		if w := want[kind]; line.Level != w && !(w == "" && line.Level == "WARN") {
			t.Errorf("%s: %s, want %s", kind, line.Level, w)
		}
	}
}

func TestAttributes(t *testing.T) {
	var b bytes.Buffer
	log := observe.Log(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	log(t.Context(), idem.Event{Kind: "Completed", Operation: "charge", Digest: "0123456789ab", Fence: 7, Elapsed: 1500 * time.Microsecond, Bytes: 42})
	log(t.Context(), idem.Event{Kind: "Indeterminate", Operation: "charge", Digest: "0123456789ab", Fence: 7, Reason: idem.Panicked, Err: errors.New("throttled")})
	const want = `{"level":"DEBUG","msg":"idem: the result is recorded","event":"Completed","operation":"charge","keyDigest":"0123456789ab","fence":7,"latency":1.5,"resultBytes":42}
{"level":"ERROR","msg":"idem: nobody knows whether the effect happened","event":"Indeterminate","operation":"charge","keyDigest":"0123456789ab","fence":7,"latency":0,"reason":"panic","error":"throttled"}
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// requestID is a handler that adds what an invocation's context knows, as handlers for Lambda do.
type requestID struct{ slog.Handler }

func (h requestID) Handle(ctx context.Context, r slog.Record) error {
	id, _ := ctx.Value(requestID{}).(string)
	r.AddAttrs(slog.String("requestId", id))
	return h.Handler.Handle(ctx, r)
}

func TestHandlerGetsTheInvocationsContext(t *testing.T) {
	var b bytes.Buffer
	log := observe.Log(slog.New(requestID{slog.NewJSONHandler(&b, nil)}))
	op, err := idem.New[idem.None](idemtest.NewMemory(t), idem.InsecureCleartext(), "charge", &idem.Options{SingleTenant: true, Lease: time.Minute, Observe: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), requestID{}, "r-1")
	for range 2 {
		if _, err := op.Do(ctx, idem.Request{Key: "k", Payload: 1}, func(context.Context) (idem.None, error) { return idem.None{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	var line struct{ RequestID, Event string }
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.RequestID != "r-1" || line.Event != "Replayed" {
		t.Errorf("%v %s", err, b.String())
	}
}

func TestLogTellsNoSecrets(t *testing.T) {
	var b bytes.Buffer
	play(t, observe.Log(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	noSecrets(t, b.String())
}

func TestLogRefusesNil(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	observe.Log(nil)
}

var completed = idem.Event{Kind: "Completed", Operation: "charge", Digest: "0123456789ab", Fence: 1, Elapsed: 1234567, Bytes: 42}

func BenchmarkLog(b *testing.B) {
	for name, level := range map[string]slog.Level{"written": slog.LevelDebug, "below the level": slog.LevelError} {
		b.Run(name, func(b *testing.B) {
			log := observe.Log(slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level})))
			b.ReportAllocs()
			for b.Loop() {
				log(b.Context(), completed)
			}
		})
	}
}

func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "latency" || a.Key == "fence" {
			return slog.Attr{}
		}
		return a
	}}))
	op, err := idem.New[string](idemtest.NewMemory(nil), idem.InsecureCleartext(), "charge", &idem.Options{Lease: time.Minute, Observe: observe.Log(logger)})
	if err != nil {
		panic(err)
	}
	for range 2 {
		op.Do(context.Background(), idem.Request{Tenant: "acme", Key: "order-1", Payload: 100}, func(context.Context) (string, error) { return "paid", nil })
	}
	// Output:
	// level=INFO msg="idem: answered from the record" event=Replayed operation=charge keyDigest=b9354d074026
}
