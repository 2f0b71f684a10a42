package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is the code with one rule dropped or flipped.
type mutant struct {
	name string // what the mutant does
	rule string // what the code says instead
	from string // occurs exactly once in the file
	to   string
	why  string // nothing notices it, and why that is as it should be; empty if a test has to fail

	file     string // set by table, as the next
	explored bool   // by the exploration too
	alone    bool   // by the exploration only
}

// table is all mutants, each with its file.
func table() []mutant {
	var all []mutant
	add := func(file string, explored bool, rules ...mutant) {
		for _, m := range rules {
			m.file, m.explored = file, explored
			all = append(all, m)
		}
	}
	add("step.go", true, ownerRules...)
	add("step.go", true, verdictRules...)
	add("step.go", true, claimantRules...)
	add("step.go", true, recordRules...)
	add("step.go", false, fieldRules...)
	add("record.go", true, timeRules...)
	add("do.go", false, doRules...)
	add("claim.go", false, claimRules...)
	add("attempt.go", false, attemptRules...)
	add("finish.go", false, finishRules...)
	add("commit.go", false, commitRules...)
	add("resolve.go", false, resolveRules...)
	add("dynamo/classify.go", false, answerRules...)
	add("dynamo/classify.go", false, classifyRules...)
	add("dynamo/retry.go", false, retryRules...)
	add("dynamo/store.go", false, storeRules...)
	add("dynamo/wire.go", false, wireRules...)
	add("dynamo/errors.go", false, errorRules...)
	return all
}

// pkg is the package whose tests have to notice.
func (m mutant) pkg() string { return "./" + filepath.Dir(m.file) }

// apply gives the mutated text of the file.
func (m mutant) apply(root string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(string(b), m.from); {
	case n != 1:
		return nil, fmt.Errorf("%q: %s has its snippet %d times, want once:\n%s", m.name, m.file, n, m.from)
	case m.from == m.to:
		return nil, fmt.Errorf("%q changes nothing", m.name)
	}
	return []byte(strings.Replace(string(b), m.from, m.to, 1)), nil
}

// explorer is a test that is laid over the root package.
const explorer = "internal/mutate/testdata/explore_in_order_test.go.txt"

// overlay writes into dir what makes the go command compile the mutant, and returns the file to name with -overlay.
func (m mutant) overlay(root, dir string) (string, error) {
	replace := map[string]string{filepath.Join(root, "explore_in_order_test.go"): filepath.Join(root, explorer)}
	if m.from != "" {
		text, err := m.apply(root)
		if err != nil {
			return "", err
		}
		mutated := filepath.Join(dir, "mutated.go")
		if err := os.WriteFile(mutated, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, m.file)] = mutated
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// moduleRoot is where go.mod lies.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}
