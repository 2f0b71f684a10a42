package lab

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The emulator is pinned: what the tests know of its answers was observed with this version.
const (
	emulatorModule  = "github.com/aws/aws-lambda-runtime-interface-emulator"
	emulatorCommand = emulatorModule + "/cmd/aws-lambda-rie"
	emulatorVersion = "v0.0.0-20261030222936-bef5c4ba774d"
)

// Emulator returns the path of the pinned aws-lambda-rie in the project's .local/bin. It is installed there if it is
// missing or of another version, one process at a time.
func Emulator(ctx context.Context) (string, error) {
	root, err := projectRoot(ctx)
	if err != nil {
		return "", fmt.Errorf("lab: emulator: %w", err)
	}
	dir := filepath.Join(root, ".local", "bin")
	path := filepath.Join(dir, "aws-lambda-rie")
	if isPinned(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("lab: emulator: %w", err)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", fmt.Errorf("lab: emulator: %w", err)
	}
	defer unlock()
	if isPinned(path) {
		return path, nil // somebody else installed it while we waited
	}
	if err := install(ctx, dir); err != nil {
		return "", fmt.Errorf("lab: emulator: %w", err)
	}
	return path, nil
}

// install builds the emulator aside and renames it into dir, so that nobody ever starts half of it.
func install(ctx context.Context, dir string) error {
	aside, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	fmt.Fprintf(os.Stderr, "lab: installing the Lambda runtime interface emulator into %s\n", dir)
	cmd := exec.CommandContext(ctx, "go", "install", emulatorCommand+"@"+emulatorVersion)
	cmd.Env = append(forThisMachine(), "GOBIN="+aside)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go install: %w", err)
	}
	built := filepath.Join(aside, "aws-lambda-rie")
	if !isPinned(built) {
		return errors.New("go install made something else")
	}
	return os.Rename(built, filepath.Join(dir, "aws-lambda-rie"))
}

func isPinned(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Main.Path == emulatorModule && info.Main.Version == emulatorVersion
}

func projectRoot(ctx context.Context) (string, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	path := string(bytes.TrimSpace(mod))
	if path == "" || path == os.DevNull {
		return "", errors.New("not inside the project")
	}
	return filepath.Dir(path), nil
}
