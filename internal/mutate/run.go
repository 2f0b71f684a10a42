package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stage is one run of a package's test binary.
type stage struct {
	name  string
	args  []string
	limit time.Duration
	exact bool // it cannot fail by chance
}

var (
	// What does not depend on a rule is left out: the imports, the list of names, the README.
	quick   = stage{"tests", []string{"-test.skip=^(TestExplore.*|TestImports|TestExportedNames|TestReadme.*)$"}, time.Minute, false}
	explore = stage{"exploration", []string{"-test.run=^TestExploreInOrder$"}, 5 * time.Minute, true}
)

// stages are the runs that should notice the mutant, the quick ones first. The exploration runs step alone, without times and
// notes; its actors are its own, so it sees nothing of what Do is made of.
func (m mutant) stages() []stage {
	switch {
	case m.alone && m.explored:
		return []stage{explore}
	case m.explored:
		return []stage{quick, explore}
	}
	return []stage{quick}
}

// result is what became of a mutant.
type result struct {
	Name   string
	By     string // the test that noticed; empty if none did
	Says   string // its first line
	Millis int64
}

// errTable is a mutant that is none: it does not apply, or does not compile.
var errTable = errors.New("the table is wrong")

// try builds the tests over the mutant and runs them until one fails.
func try(ctx context.Context, root string, m mutant) (result, error) {
	r, start := result{Name: m.name}, time.Now()
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	over, err := m.overlay(root, dir)
	if err != nil {
		return r, fmt.Errorf("%w: %v", errTable, err)
	}
	binary := filepath.Join(dir, "tests")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", over, "-o", binary, m.pkg())
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return r, fmt.Errorf("%w: %q does not compile: %v\n%s", errTable, m.name, err, out)
	}
	for _, s := range m.stages() {
		if r.By, r.Says, err = s.run(ctx, binary, filepath.Join(root, m.pkg())); err != nil || r.By != "" {
			break
		}
	}
	r.Millis = time.Since(start).Milliseconds()
	return r, err
}

// run gives the test that failed and what it says. A test that fails, but not once more by itself, is left out, and the others
// are run again.
func (s stage) run(ctx context.Context, binary, dir string) (by, says string, err error) {
	var chance []string
	for {
		args := s.args
		if len(chance) > 0 {
			args = []string{"-test.skip=^(TestExplore.*|" + strings.Join(chance, "|") + ")$"}
		}
		by, says, err = s.once(ctx, binary, dir, args)
		if err != nil || by == "" || s.exact {
			return by, says, err
		}
		for range 2 {
			again, _, err := s.once(ctx, binary, dir, []string{"-test.run=^" + by + "$"})
			if err != nil || again != "" {
				return by, says, err
			}
		}
		if slices.Contains(chance, by) {
			return "", "", fmt.Errorf("%s fails though it is left out", by)
		}
		chance = append(chance, by)
	}
}

// memory is what one test process may map, in KiB: some mutants have no end.
const memory = "ulimit -v 12000000 2>/dev/null; exec \"$0\" \"$@\""

func (s stage) once(ctx context.Context, binary, dir string, args []string) (by, says string, err error) {
	one, cancel := context.WithTimeout(ctx, s.limit+10*time.Second)
	defer cancel()
	args = slices.Concat([]string{"-c", memory, binary, "-test.v", "-test.failfast", "-test.timeout=" + s.limit.String()}, args)
	cmd := exec.CommandContext(one, "sh", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "IDEM_") })
	cmd.Env = append(cmd.Env, "GOGC=50")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = cmd.Run(); err == nil {
		return "", "", nil
	}
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if by, says = failure(out.String()); by == "" {
		return "", "", fmt.Errorf("%s: %v\n%s", s.name, err, tail(out.String()))
	}
	return by, says, nil
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	started = regexp.MustCompile(`(?m)^=== RUN   (\w+)`)
	told    = regexp.MustCompile(`(?m)^\s*\w+\.go:\d+: (.*)$`)
	ended   = regexp.MustCompile(`(?m)^(panic: test timed out|panic: |fatal error: ).*$`)
)

// failure reads the output of a test binary: which test failed, or was running when the process ended.
func failure(out string) (by, says string) {
	if m := ended.FindStringIndex(out); m != nil {
		before := started.FindAllStringSubmatch(out[:m[0]], -1)
		if len(before) > 0 {
			return before[len(before)-1][1], out[m[0]:m[1]]
		}
	}
	m := failed.FindStringSubmatch(out)
	if m == nil {
		return "", ""
	}
	if line := told.FindStringSubmatch(out[strings.Index(out, "=== RUN   "+m[1]):]); line != nil {
		says = line[1]
	}
	return m[1], says
}

func tail(s string) string { return s[max(0, len(s)-2000):] }
