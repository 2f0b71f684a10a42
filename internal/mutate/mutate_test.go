package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSnippetsApply: every snippet occurs exactly once, so that the table cannot rot while the code changes.
func TestSnippetsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, m := range table() {
		if _, err := m.apply(root); err != nil {
			t.Error(err)
		}
		if names[m.name] || m.name == "" || m.rule == "" || strings.Contains(m.name, "\n") {
			t.Errorf("%q: the name is not its own, or there is no rule", m.name)
		}
		names[m.name] = true
	}
	t.Logf("%d mutants, %d argued", len(names), len(argued(table())))
}

// TestSurvivorsAreListed: the table in doc.go is the one that the tool prints.
func TestSurvivorsAreListed(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	some := argued(table())
	for _, m := range some {
		if line := "//" + strings.TrimSuffix(survivors([]mutant{m}), "\n"); !strings.Contains(string(doc), line) {
			t.Errorf("doc.go lacks:\n%s", line)
		}
	}
	if got := strings.Count(string(doc), "\n//   - "); got != len(some) {
		t.Errorf("doc.go lists %d survivors, the table has %d", got, len(some))
	}
}

func TestFailureIsRead(t *testing.T) {
	for _, c := range []struct{ out, by, says string }{
		{"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b_test.go:7: got 1\n--- FAIL: TestB (0.00s)\nFAIL\n", "TestB", "got 1"},
		{"=== RUN   TestA\n=== RUN   TestA/sub\npanic: boom\n\ngoroutine 1\n", "TestA", "panic: boom"},
		{"=== RUN   TestA\npanic: test timed out after 1m0s\n", "TestA", "panic: test timed out after 1m0s"},
		{"=== RUN   TestA\n    a_test.go:1: fine\n--- PASS: TestA (0.00s)\nPASS\n", "", ""},
		{"exec format error", "", ""},
	} {
		if by, says := failure(c.out); by != c.by || says != c.says {
			t.Errorf("got %q, %q, want %q, %q of\n%s", by, says, c.by, c.says, c.out)
		}
	}
}

func TestOverlayNamesTheMutatedFile(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	m, dir := table()[0], t.TempDir()
	name, err := m.overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(b), filepath.Join(root, m.file)) {
		t.Errorf("%s, %v", b, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "mutated.go"))
	if err != nil || !strings.Contains(string(text), m.to) || strings.Contains(string(text), m.from) {
		t.Errorf("the mutated file is not: %v", err)
	}
}
