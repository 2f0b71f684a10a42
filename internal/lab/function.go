package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Function is a Lambda function that was built for this machine. Any number of environments may run it.
type Function struct {
	bootstrap string
}

// Build builds the Go package pkg as a Lambda bootstrap in the directory dir, as it is built for Lambda except for the
// architecture. The environments' logs are kept in dir too.
func Build(ctx context.Context, pkg, dir string) (*Function, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lab: build %s: %w", pkg, err)
	}
	f := &Function{bootstrap: filepath.Join(dir, "bootstrap")}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", f.bootstrap, pkg)
	cmd.Env = forThisMachine()
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("lab: build %s: %w\n%s", pkg, err, out)
	}
	return f, nil
}

// forThisMachine is the environment of a go command whose result runs here, whatever the caller cross-compiles.
func forThisMachine() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}
