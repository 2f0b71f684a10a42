package observe_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/observe"
)

// kinds is what idem.Event's comment says that there is.
func kinds(t testing.TB) []string {
	text, err := os.ReadFile("../event.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "// Kind is one of:")
	list, _, ok := strings.Cut(list, "type Event")
	list = regexp.MustCompile(`(?s)\([^)]*\)`).ReplaceAllString(list, "")
	found := regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(list, -1)
	if !ok || len(found) != 15 {
		t.Fatalf("%q", found)
	}
	return found
}

// The observers know every kind that package idem has an event of, and no other.
func TestKindsAreThoseOfPackageIdem(t *testing.T) {
	files, _ := filepath.Glob("../*.go")
	emitted := make(map[string]bool)
	literal := regexp.MustCompile(`(?:Kind:|Kind =|kind :=|kind =|unavailable :=|unavailable =|unavailable\(ctx,) "(\w+)"`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
				emitted[m[1]] = true
			}
		}
	}
	all := kinds(t)
	for kind := range emitted {
		if !slices.Contains(all, kind) {
			t.Errorf("%s is not in Event's comment", kind)
		}
	}
	for _, kind := range all {
		if !emitted[kind] {
			t.Errorf("%s is never emitted, as far as the source shows", kind)
		}
	}
}

const (
	secretTenant  = "tenant-s3cret"
	secretKey     = "key-s3cret"
	secretPayload = "payload-s3cret"
	secretResult  = "result-s3cret"
	secretError   = "error-s3cret"
)

// play makes an operation do what gives most kinds of events.
func play(t testing.TB, o func(context.Context, idem.Event)) {
	t.Helper()
	store := idemtest.NewMemory(t)
	op, err := idem.New[string](store, idem.InsecureCleartext(), "charge", &idem.Options{Observe: o})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(key, payload string, fail error) {
		op.Do(ctx, idem.Request{Tenant: secretTenant, Key: key, Payload: payload}, func(ctx context.Context) (string, error) {
			op.Do(ctx, idem.Request{Tenant: secretTenant, Key: key, Payload: payload}, func(context.Context) (string, error) { return "", nil }) // in progress
			return secretResult, fail
		})
	}
	for range 2 {
		do(secretKey, secretPayload, nil)
		do(secretKey+"-final", secretPayload, idem.Final(errors.New(secretError)))
		do(secretKey+"-released", secretPayload, idem.NotApplied(errors.New(secretError)))
		do(secretKey+"-unknown", secretPayload, errors.New(secretError))
	}
	do(secretKey, "another "+secretPayload, nil)
	do("", secretPayload, nil)
	store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("the store is down") })
	do(secretKey+"-down", secretPayload, nil)
}

func TestPlayGivesMostKinds(t *testing.T) {
	seen := make(map[string]bool)
	play(t, func(_ context.Context, e idem.Event) { seen[e.Kind] = true })
	for _, kind := range []string{"Claimed", "Completed", "Failed", "Replayed", "InProgress", "Mismatch", "Indeterminate", "Released", "Refused", "StoreErrors"} {
		if !seen[kind] {
			t.Errorf("no %s", kind)
		}
	}
}

func noSecrets(t testing.TB, text string) {
	t.Helper()
	if text == "" || strings.Contains(text, "s3cret") {
		t.Errorf("tells %s", text)
	}
}

// A function that observes links nothing but package idem.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if !slices.Contains([]string{"github.com/idem-go/idem", "github.com/idem-go/idem/observe"}, dep) && !strings.HasPrefix(dep, "github.com/go-json-experiment/json/") {
			t.Errorf("imports %s", dep)
		}
	}
}

func TestAllCallsEach(t *testing.T) {
	n := 0
	count := func(context.Context, idem.Event) { n++ }
	observe.All(count, nil, count)(t.Context(), idem.Event{Kind: "Claimed"})
	observe.All()(t.Context(), idem.Event{})
	if n != 2 {
		t.Errorf("%d calls", n)
	}
}
