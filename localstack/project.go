package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A project is the module that the back ends serve, and the .local folder in it: everything that is installed, logged,
// remembered or stored for them, so that removing that folder removes it all.
//
//	.local/ENGINE/       an installed engine and its stamp
//	.local/data/         one folder for each running engine
//	.local/log/          what engines and installers said
//	.local/run/          one file for each exec that runs
//	.local/state.json    what up has started
type project struct {
	root string
	out  io.Writer // what people read; stdout is the command's
}

// findProject finds the module root at or above the working directory.
func findProject(out io.Writer) (*project, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/idem-go/idem\n")) {
			return &project{root: folder, out: out}, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return nil, errors.New("no idem checkout at or above the working directory")
		}
		folder = parent
	}
}

// local returns a path in .local.
func (p *project) local(elements ...string) string {
	return filepath.Join(append([]string{p.root, ".local"}, elements...)...)
}

// source returns a path in localstack/.
func (p *project) source(elements ...string) string {
	return filepath.Join(append([]string{p.root, "localstack"}, elements...)...)
}

func (p *project) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// logKept is how long logs stay: an engine leaves one each time it is started.
const logKept = 7 * 24 * time.Hour

// openLog creates a log of its own for this process and removes old ones.
func (p *project) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(p.local("log"), 0o755); err != nil {
		return nil, err
	}
	if old, err := os.ReadDir(p.local("log")); err == nil {
		for _, entry := range old {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > logKept {
				os.Remove(p.local("log", entry.Name()))
			}
		}
	}
	return os.CreateTemp(p.local("log"), fmt.Sprintf("%s-%s-*.log", name, time.Now().UTC().Format("20060102-150405")))
}

// logTail returns the last lines of a log for an error message, indented, or what stands in the way.
func logTail(path string) string {
	const lines = 20
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("the end of %s:\n    %s", path, bytes.Join(all, []byte("\n    ")))
}

// writeFile replaces a file in one step: a reader sees the old one or the new one, never a part.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), path)
}
