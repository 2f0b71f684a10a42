package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The versions that are announced are those that the lists in this folder hold.
func TestVersions(t *testing.T) {
	p := &project{root: ".."}

	fixed := regexp.MustCompile(`^[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*$`)
	for file, want := range map[string]string{
		"ministack.txt":  "ministack==" + ministack(p).version,
		"localstack.txt": "localstack-core==" + localStack(p).version,
	} {
		requirements, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(requirements)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !fixed.MatchString(line) {
				t.Errorf("%s: %q has no fixed version", file, line)
			}
		}
		if !strings.Contains(string(requirements), "\n"+want+"\n") {
			t.Errorf("%s has no %q", file, want)
		}
	}

	text, err := os.ReadFile("dynalite/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for name, entry := range lock.Packages {
		if name != "" && entry.Integrity == "" {
			t.Errorf("package-lock.json: %s is not held by its hash", name)
		}
	}
	if got, want := lock.Packages["node_modules/dynalite"].Version, dynalite(p).version; got != want {
		t.Errorf("package-lock.json has dynalite %s, want %s", got, want)
	}
}
