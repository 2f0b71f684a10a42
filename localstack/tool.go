package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// A tool has to be on the machine before an engine can be had.
type tool struct {
	command []string // succeeds iff the tool is good enough
	need    string   // what to install otherwise
}

// probe runs a tool: version managers and packagers put names on the PATH that do not run.
func (t tool) probe(ctx context.Context) error {
	if _, err := runTool(ctx, t.command); err != nil {
		return fmt.Errorf("%w: needs %s", err, t.need)
	}
	return nil
}

const toolLimit = 20 * time.Second

// runTool runs one short command and returns what it says, which is in the error if it fails. It has a process group of
// its own: a Ctrl-C at the terminal must not look as if the tool did not work.
func runTool(ctx context.Context, command []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	output, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(output))
	switch {
	case err == nil:
		return said, nil
	case limited.Err() != nil:
		return "", fmt.Errorf("%s: %w", command[0], context.Cause(limited))
	case said == "":
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	last := said[strings.LastIndexByte(said, '\n')+1:]
	return "", fmt.Errorf("%s: %w (%s)", command[0], err, last)
}
