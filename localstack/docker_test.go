package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// fakeDocker puts a docker on the PATH that notes its arguments and, on up, starts the test binary at both ports.
func fakeDocker(t *testing.T, info string) (calls func() string) {
	t.Helper()
	folder := t.TempDir()
	script := `#!/bin/sh
echo "$@" >> ` + folder + `/calls
case "$*" in
  info*) ` + info + ` ;;
  "compose version --short") echo 2.40.0 ;;
  *" up "*)
    ` + fakeVariable + `=127.0.0.1:$IDEM_DYNAMODB_PORT ` + os.Args[0] + ` >/dev/null 2>&1 & echo $! > ` + folder + `/pids
    ` + fakeVariable + `=127.0.0.1:$IDEM_LOCALSTACK_PORT ` + os.Args[0] + ` >/dev/null 2>&1 & echo $! >> ` + folder + `/pids ;;
  *" down "*) kill $(cat ` + folder + `/pids) ;;
esac
`
	if err := os.WriteFile(folder+"/docker", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	return func() string {
		text, _ := os.ReadFile(folder + "/calls")
		return string(text)
	}
}

func TestDockerStarts(t *testing.T) {
	calls := fakeDocker(t, "echo 28.0.0")
	p := &project{root: t.TempDir(), out: &bytes.Buffer{}}
	if err := (docker{p}).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	var recorded backend
	b, err := docker{p}.Start(t.Context(), func(b backend) error { recorded = b; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Compose == "" || recorded.Compose != b.Compose || !b.alive(t.Context()) {
		t.Errorf("recorded project %q, running %q", recorded.Compose, b.Compose)
	}
	if got := b.lines(); len(got) != 2 || !strings.Contains(got[0], "DynamoDB Local 3.3.1 (DynamoDB) at ") || !strings.Contains(got[1], "LocalStack 4.14.0 (KMS) at ") {
		t.Errorf("lines = %q", got)
	}
	if err := p.stop(b); err != nil || b.alive(t.Context()) {
		t.Errorf("stop: %v, alive %v", err, b.alive(t.Context()))
	}
	compose := "compose --project-name " + b.Compose + " --file " + p.source("compose.yaml")
	for _, want := range []string{compose + " up --detach --quiet-pull\n", compose + " down --volumes --timeout 5\n"} {
		if !strings.Contains(calls(), want) {
			t.Errorf("calls %q, want %q", calls(), want)
		}
	}
}

func TestDockerProbe(t *testing.T) {
	for name, info := range map[string]string{
		"no daemon":               "echo 'Cannot connect to the Docker daemon' >&2; exit 1",
		"no daemon, older client": "true",
	} {
		fakeDocker(t, info)
		err := docker{&project{root: t.TempDir()}}.Probe(t.Context())
		if err == nil || !strings.Contains(err.Error(), "needs a running Docker engine") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type composeFile struct {
	Services map[string]struct {
		Image       string         `yaml:"image"`
		Ports       []string       `yaml:"ports"`
		Volumes     []any          `yaml:"volumes"`
		Privileged  bool           `yaml:"privileged"`
		NetworkMode string         `yaml:"network_mode"`
		Healthcheck map[string]any `yaml:"healthcheck"`
	} `yaml:"services"`
}

func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`^127\.0\.0\.1:\$\{IDEM_[A-Z]+_PORT:-\d+\}:\d+$`)
	image := regexp.MustCompile(`^[a-z/-]+:\d+\.\d+\.\d+@sha256:[0-9a-f]{64}$`)
	for name, s := range file.Services {
		if len(s.Ports) == 0 {
			t.Errorf("%s publishes no port", name)
		}
		for _, p := range s.Ports {
			if !port.MatchString(p) {
				t.Errorf("%s publishes %q, want a loopback address and a port from the environment", name, p)
			}
		}
		if !image.MatchString(s.Image) {
			t.Errorf("%s: image %q is not held by version and digest", name, s.Image)
		}
		if test, _ := s.Healthcheck["test"].([]any); len(test) != 2 {
			t.Errorf("%s has no health check", name)
		}
		if len(s.Volumes) > 0 || s.Privileged || s.NetworkMode != "" {
			t.Errorf("%s has volumes, privileges or a network of its own", name)
		}
	}
	for name, version := range map[string]string{"dynamodb": dynamoLocalVersion, "localstack": localStackVersion} {
		if !strings.Contains(file.Services[name].Image, ":"+version+"@") {
			t.Errorf("%s: image %q is not the version that is announced, %s", name, file.Services[name].Image, version)
		}
	}
	if strings.Contains(string(text), "docker.sock") {
		t.Error("a container gets the Docker socket")
	}
}
