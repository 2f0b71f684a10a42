package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem"
)

// EMFOptions of [EMF]. A zero field means its default.
type EMFOptions struct {
	// Namespace of the metrics: up to 255 letters, digits, spaces and any of ".-_/#:". Default: POWERTOOLS_METRICS_NAMESPACE, or "idem".
	Namespace string

	// Service is the value of the dimension service: up to 1024 printable ASCII characters. Default: POWERTOOLS_SERVICE_NAME, or the
	// Lambda function's name, or "service_undefined".
	Service string

	_ struct{}
}

// EMF is an observer that writes metrics in CloudWatch's embedded metric format: one line of JSON for an event, in one Write, with
// nothing around it. On Lambda w is os.Stdout; a logger would put something around the line, and CloudWatch would not see a metric in
// it.
//
// Every event counts 1 in the metric of its Kind, once with the dimension service and once with service and operation. With it go
// ClaimLatency (Claimed: from the request to the function's start), RecordLatency (Completed, Failed, Released, NotRecorded, Lost and
// Conflict: from the function's end until its outcome was recorded, or was found not to be; both in milliseconds), and ResultBytes
// (Completed). The line has the record's keyDigest and the reason of a doubt as well; they are no dimensions, and cost no metrics.
//
// CloudWatch takes a line at least once, so counts may be too high and are not for billing. A line that cannot be written is lost:
// an observer cannot fail an operation. EMF reads the environment once, and refuses what CloudWatch would.
func EMF(w io.Writer, opts *EMFOptions) (func(context.Context, idem.Event), error) {
	var o EMFOptions
	if opts != nil {
		o = *opts
	}
	o.Namespace = cmp.Or(o.Namespace, os.Getenv("POWERTOOLS_METRICS_NAMESPACE"), "idem")
	o.Service = cmp.Or(o.Service, os.Getenv("POWERTOOLS_SERVICE_NAME"), os.Getenv("AWS_LAMBDA_FUNCTION_NAME"), "service_undefined")
	switch {
	case w == nil:
		return nil, errors.New("idem: observe.EMF: the writer is nil")
	case !valid(o.Namespace, 255, inNamespace) || strings.HasPrefix(o.Namespace, ":") || strings.HasPrefix(o.Namespace, "AWS/") || strings.TrimSpace(o.Namespace) == "":
		return nil, fmt.Errorf("idem: observe.EMF: Namespace %q is not one that CloudWatch takes", o.Namespace)
	case !valid(o.Service, 1024, printable) || strings.TrimSpace(o.Service) == "":
		return nil, fmt.Errorf("idem: observe.EMF: Service %q is not a dimension value that CloudWatch takes", o.Service)
	}
	e := &emf{
		w:         w,
		directive: append(appendString([]byte(`,"CloudWatchMetrics":[{"Namespace":`), o.Namespace), `,"Dimensions":[["service"]`...),
		service:   appendString([]byte(`,"service":`), o.Service),
	}
	return e.observe, nil
}

type emf struct {
	directive, service []byte

	mu   sync.Mutex // lines are written one after the other
	w    io.Writer
	line []byte
}

func (e *emf) observe(_ context.Context, ev idem.Event) {
	if ev.Kind == "" {
		return
	}
	latency := latencyOf(ev.Kind)
	e.mu.Lock()
	defer e.mu.Unlock()
	b := append(e.line[:0], `{"_aws":{"Timestamp":`...)
	b = strconv.AppendInt(b, time.Now().UnixMilli(), 10)
	b = append(b, e.directive...)
	if ev.Operation != "" { // CloudWatch takes no empty dimension
		b = append(b, `,["service","operation"]`...)
	}
	b = append(appendString(append(b, `],"Metrics":[{"Name":`...), ev.Kind), `,"Unit":"Count"}`...)
	if latency != "" {
		b = append(append(append(b, `,{"Name":"`...), latency...), `","Unit":"Milliseconds"}`...)
	}
	if ev.Kind == "Completed" {
		b = append(b, `,{"Name":"ResultBytes","Unit":"Bytes"}`...)
	}
	b = append(append(b, `]}]}`...), e.service...)
	if ev.Operation != "" {
		b = appendString(append(b, `,"operation":`...), ev.Operation)
	}
	b = append(appendString(append(b, ','), ev.Kind), `:1`...)
	if latency != "" {
		b = append(append(append(b, `,"`...), latency...), `":`...)
		b = strconv.AppendFloat(b, max(0, milliseconds(ev.Elapsed)), 'f', 3, 64)
	}
	if ev.Kind == "Completed" {
		b = strconv.AppendInt(append(b, `,"ResultBytes":`...), int64(ev.Bytes), 10)
	}
	if ev.Digest != "" {
		b = appendString(append(b, `,"keyDigest":`...), ev.Digest)
	}
	if ev.Reason != 0 {
		b = appendString(append(b, `,"reason":`...), ev.Reason.String())
	}
	e.line = append(b, "}\n"...)
	e.w.Write(e.line) // there is nobody to tell that it failed
}

// latencyOf is the metric of an event's Elapsed. An Indeterminate event has none: it may be a refusal or an outcome.
func latencyOf(kind string) string {
	switch kind {
	case "Claimed":
		return "ClaimLatency"
	case "Completed", "Failed", "Released", "NotRecorded", "Lost", "Conflict":
		return "RecordLatency"
	}
	return ""
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// appendString appends s as JSON.
func appendString(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, _ := json.Marshal(s) // a string always has a form
	return append(b, text...)
}

func plain(s string) bool {
	for k := range len(s) {
		if c := s[k]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func valid(s string, most int, is func(byte) bool) bool {
	for k := range len(s) {
		if !is(s[k]) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= most
}

func printable(c byte) bool { return c >= ' ' && c <= '~' }

func inNamespace(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(" .-_/#:", c) >= 0
}
