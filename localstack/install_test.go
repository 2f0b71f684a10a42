package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testInstallation writes a program whose content is that of a source file, and a line to a count for each time.
func testInstallation(t *testing.T) (p *project, in installation, installed func() int) {
	t.Helper()
	root := t.TempDir()
	source, count := filepath.Join(root, "source"), filepath.Join(root, "count")
	if err := os.WriteFile(source, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	p = &project{root: root, out: io.Discard}
	in = installation{
		title: "program 1", folder: p.local("program"), files: []string{source}, env: []string{"COUNT=" + count},
		steps: [][]string{{"sh", "-c", "echo >> $COUNT; mkdir rest"}, {"cp", source, "program"}},
		scrap: []string{"rest"},
		works: []string{"test", "-s", p.local("program", "program")},
	}
	return p, in, func() int {
		text, _ := os.ReadFile(count)
		return strings.Count(string(text), "\n")
	}
}

func TestEnsureInstallsOnce(t *testing.T) {
	p, in, installed := testInstallation(t)
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			if err := p.ensure(t.Context(), in); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	if got := installed(); got != 1 {
		t.Errorf("installed %d times, want once", got)
	}
	if _, err := os.Stat(filepath.Join(in.folder, "rest")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scrap: %v, want it removed", err)
	}
}

func TestEnsureInstallsAgain(t *testing.T) {
	tests := []struct {
		name   string
		change func(p *project, in *installation) error
	}{
		{"no stamp, as after a crash", func(_ *project, in *installation) error { return os.Remove(filepath.Join(in.folder, stampName)) }},
		{"another version", func(_ *project, in *installation) error {
			in.steps = append(in.steps, []string{"true", "2"})
			return nil
		}},
		{"another source", func(_ *project, in *installation) error { return os.WriteFile(in.files[0], []byte("2"), 0o644) }},
		{"does not run any more", func(_ *project, in *installation) error { return os.Truncate(filepath.Join(in.folder, "program"), 0) }},
		{"moved folder", func(p *project, in *installation) error {
			old := in.folder
			in.folder += "-moved"
			in.works = []string{"test", "-s", in.folder + "/program"}
			return os.Rename(old, in.folder)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, in, installed := testInstallation(t)
			if err := p.ensure(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if err := test.change(p, &in); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := p.ensure(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			if got := installed(); got != 2 {
				t.Errorf("installed %d times, want 2", got)
			}
		})
	}
}

func TestEnsureAfterFailure(t *testing.T) {
	p, in, installed := testInstallation(t)
	good := in.steps
	in.steps = append([][]string{{"sh", "-c", "echo no such version >&2; exit 1"}}, good...)
	err := p.ensure(t.Context(), in)
	if err == nil || !strings.Contains(err.Error(), "no such version") {
		t.Errorf("error = %v, want what the installer said", err)
	}
	in.steps = good
	if err := p.ensure(t.Context(), in); err != nil || installed() != 1 {
		t.Errorf("second try: %v, %d installations", err, installed())
	}
}

// An interrupted run must neither take a half installation for a whole one nor throw a whole one away.
func TestEnsureInterrupted(t *testing.T) {
	p, in, installed := testInstallation(t)
	whole := in.steps
	in.steps = append([][]string{{"sleep", "60"}}, whole...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := p.ensure(ctx, in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the context's", err)
	}
	if time.Since(begin) > 30*time.Second {
		t.Error("the step was not ended")
	}
	if done, _ := in.isComplete(t.Context()); done {
		t.Error("an interrupted installation counts as complete")
	}
	in.steps = whole
	if err := p.ensure(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := p.ensure(ctx, in); err == nil { // ctx is over
		t.Error("no error after the end of the context")
	}
	if done, err := in.isComplete(t.Context()); !done || err != nil || installed() != 1 {
		t.Errorf("complete = %v, %v after %d installations, want one that is left alone", done, err, installed())
	}
}
