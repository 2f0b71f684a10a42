package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/observe"
)

func newEMF(t testing.TB, w io.Writer, o *observe.EMFOptions) func(context.Context, idem.Event) {
	t.Helper()
	emf, err := observe.EMF(w, o)
	if err != nil {
		t.Fatal(err)
	}
	return emf
}

// metrics is what CloudWatch makes of a line.
type metrics struct {
	namespace  string
	dimensions [][]string
	value      map[string]float64
	unit       map[string]string
	root       map[string]any
}

// parse reads a line as CloudWatch's specification of the format has it, and refuses what that does.
func parse(t testing.TB, line string) metrics {
	t.Helper()
	fatal := func(format string, args ...any) { t.Helper(); t.Fatalf(format+": %s", append(args, line)...) }
	if !strings.HasPrefix(line, "{") || len(line) > 1<<20 {
		fatal("not one object of at most 1 MB")
	}
	dec := json.NewDecoder(strings.NewReader(line))
	m := metrics{root: make(map[string]any), value: make(map[string]float64), unit: make(map[string]string)}
	for dec.Token(); dec.More(); { // member by member: one that is there twice would be lost in a map
		name, err := dec.Token()
		var v any
		if err != nil || dec.Decode(&v) != nil || m.root[name.(string)] != nil {
			fatal("a bad or double member %v", name)
		}
		m.root[name.(string)] = v
	}
	if _, err := dec.Token(); err != nil || dec.InputOffset() != int64(len(line)) {
		fatal("something follows the object")
	}
	var meta struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	strict := json.NewDecoder(strings.NewReader(`{"_aws":` + text(m.root["_aws"]) + `}`))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&meta); err != nil || len(meta.AWS.CloudWatchMetrics) != 1 {
		fatal("metadata: %v", err)
	}
	if at := time.UnixMilli(meta.AWS.Timestamp); time.Since(at).Abs() > time.Minute {
		fatal("at %v", at)
	}
	d := meta.AWS.CloudWatchMetrics[0]
	m.namespace, m.dimensions = d.Namespace, d.Dimensions
	if len(d.Namespace) < 1 || len(d.Namespace) > 255 || len(d.Metrics) < 1 || len(d.Metrics) > 100 || len(d.Dimensions) < 1 {
		fatal("namespace, metrics or dimensions")
	}
	for _, set := range d.Dimensions {
		for _, name := range set {
			v, ok := m.root[name].(string)
			if !ok || len(set) > 30 || strings.TrimSpace(v) == "" || len(v) > 1024 || strings.ContainsFunc(v, func(r rune) bool { return r > unicode.MaxASCII }) {
				fatal("dimension %s", name)
			}
		}
	}
	for _, x := range d.Metrics {
		v, ok := m.root[x.Name].(float64)
		if !ok || len(x.Name) > 255 || !slices.Contains([]string{"Count", "Milliseconds", "Bytes"}, x.Unit) || m.unit[x.Name] != "" {
			fatal("metric %s", x.Name)
		}
		m.value[x.Name], m.unit[x.Name] = v, x.Unit
	}
	return m
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestEveryKindHasExactlyOneMetric(t *testing.T) {
	for _, kind := range append(kinds(t), "OfALaterVersion") {
		var b bytes.Buffer
		newEMF(t, &b, &observe.EMFOptions{Namespace: "Shop", Service: "payments"})(t.Context(), idem.Event{Kind: kind, Operation: "charge", Digest: "0123456789ab", Elapsed: 1500 * time.Microsecond, Bytes: 42})
		line, ok := strings.CutSuffix(b.String(), "\n")
		if !ok || strings.Contains(line, "\n") {
			t.Fatalf("%s: not one line: %q", kind, b.String())
		}
		m := parse(t, line)
		if m.namespace != "Shop" || fmt.Sprint(m.dimensions) != "[[service] [service operation]]" || m.root["service"] != "payments" || m.root["operation"] != "charge" {
			t.Errorf("%s: %s", kind, line)
		}
		var counts []string
		for name, unit := range m.unit {
			if unit == "Count" {
				counts = append(counts, name)
			}
		}
		if !slices.Equal(counts, []string{kind}) || m.value[kind] != 1 {
			t.Errorf("%s: counts %q", kind, counts)
		}
		var more map[string]float64
		switch kind {
		case "Claimed":
			more = map[string]float64{"ClaimLatency": 1.5}
		case "Completed":
			more = map[string]float64{"RecordLatency": 1.5, "ResultBytes": 42}
		case "Failed", "Released", "NotRecorded", "Lost", "Conflict":
			more = map[string]float64{"RecordLatency": 1.5}
		}
		for name, v := range more {
			if m.value[name] != v {
				t.Errorf("%s: %s is %v", kind, name, m.value[name])
			}
		}
		if len(m.value) != 1+len(more) {
			t.Errorf("%s: %v", kind, m.value)
		}
	}
}

func TestLinesOfAnOperation(t *testing.T) {
	var b bytes.Buffer
	var want []string
	play(t, observe.All(func(_ context.Context, e idem.Event) { want = append(want, e.Kind) }, newEMF(t, &b, nil)))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != len(want) || len(want) < 15 {
		t.Fatalf("%d lines, %d events", len(lines), len(want))
	}
	allowed := []string{"_aws", "service", "operation", "keyDigest", "reason", "ClaimLatency", "RecordLatency", "ResultBytes"}
	for k, line := range lines {
		m := parse(t, line)
		if m.value[want[k]] != 1 {
			t.Errorf("no %s: %s", want[k], line)
		}
		for name := range m.root {
			if name != want[k] && !slices.Contains(allowed, name) {
				t.Errorf("%s in %s", name, line)
			}
		}
	}
	noSecrets(t, b.String())
}

func TestNamesOfPowertools(t *testing.T) {
	for _, env := range []string{"POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME", "AWS_LAMBDA_FUNCTION_NAME"} {
		t.Setenv(env, "")
	}
	names := func(o *observe.EMFOptions) string {
		var b bytes.Buffer
		newEMF(t, &b, o)(t.Context(), idem.Event{Kind: "Claimed", Operation: "charge"})
		m := parse(t, strings.TrimSuffix(b.String(), "\n"))
		return fmt.Sprint(m.namespace, " ", m.root["service"])
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	expect(names(nil), "idem service_undefined")
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "pay-fn")
	expect(names(nil), "idem pay-fn")
	t.Setenv("POWERTOOLS_METRICS_NAMESPACE", "Shop EU/1")
	t.Setenv("POWERTOOLS_SERVICE_NAME", `a "quoted\ service`)
	expect(names(nil), `Shop EU/1 a "quoted\ service`)
	expect(names(&observe.EMFOptions{Namespace: "Own", Service: "own"}), "Own own")
}

func TestNamesThatCloudWatchRefuses(t *testing.T) {
	for _, o := range []observe.EMFOptions{
		{Namespace: " "}, {Namespace: ":a"}, {Namespace: "AWS/Lambda"}, {Namespace: "ä"}, {Namespace: strings.Repeat("n", 256)}, {Namespace: "a\n"},
		{Service: " "}, {Service: "ä"}, {Service: "a\nb"}, {Service: strings.Repeat("s", 1025)},
	} {
		if _, err := observe.EMF(io.Discard, &o); err == nil || !strings.HasPrefix(err.Error(), "idem: observe.EMF: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := observe.EMF(nil, nil); err == nil {
		t.Error("accepted no writer")
	}
}

// What an event has that is no event of package idem's makes no line that CloudWatch would refuse or read as another one.
func TestOddEvents(t *testing.T) {
	var b bytes.Buffer
	emf := newEMF(t, &b, nil)
	emf(t.Context(), idem.Event{})
	if b.Len() != 0 {
		t.Errorf("a line for no event: %s", b.String())
	}
	emf(t.Context(), idem.Event{Kind: "Claimed", Elapsed: -time.Second})
	m := parse(t, strings.TrimSuffix(b.String(), "\n"))
	if fmt.Sprint(m.dimensions) != "[[service]]" || m.value["ClaimLatency"] != 0 {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	emf(t.Context(), idem.Event{Kind: "Claimed", Operation: "a\",\"b\n", Digest: "\\", Reason: 200})
	m = parse(t, strings.TrimSuffix(b.String(), "\n"))
	if m.root["operation"] != "a\",\"b\n" || m.root["keyDigest"] != `\` {
		t.Errorf("%s", b.String())
	}
}

// lines counts writes, and fails each.
type lines struct{ got []string }

func (l *lines) Write(b []byte) (int, error) {
	l.got = append(l.got, string(b))
	return 0, errors.New("stdout is closed")
}

func TestLinesAreWrittenWholeAndOneAfterTheOther(t *testing.T) {
	l := &lines{}
	emf := newEMF(t, l, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				emf(t.Context(), completed)
			}
		})
	}
	wg.Wait()
	if len(l.got) != 400 {
		t.Fatalf("%d writes", len(l.got))
	}
	for _, line := range l.got {
		parse(t, strings.TrimSuffix(line, "\n"))
	}
}

func BenchmarkEMF(b *testing.B) {
	emf := newEMF(b, io.Discard, nil)
	b.ReportAllocs()
	for b.Loop() {
		emf(b.Context(), completed)
	}
}

// What the observers may cost: 10 allocations an event.
func TestAllocations(t *testing.T) {
	emf := newEMF(t, io.Discard, nil)
	if n := testing.AllocsPerRun(100, func() { emf(t.Context(), completed) }); n > 10 {
		t.Errorf("EMF: %v allocations", n)
	}
	log := observe.Log(slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if n := testing.AllocsPerRun(100, func() { log(t.Context(), completed) }); n > 10 {
		t.Errorf("Log: %v allocations", n)
	}
}
