package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What localStack is told keeps it on the loopback address, in its own folder, and away from its maker.
func TestLocalStackKeepsToItself(t *testing.T) {
	t.Setenv("SERVICES", "dynamodb")
	t.Setenv("LOCALSTACK_AUTH_TOKEN", "secret")
	cmd := localStack(&project{root: "/project"}).command(4566, "/project/.local/data/localstack-1")
	got := environment(pairs(cmd.Env)...)
	for name, want := range map[string]string{
		"GATEWAY_LISTEN": "127.0.0.1:4566", "GATEWAY_SERVER": "hypercorn", "DNS_ADDRESS": "0", "DOCKER_BRIDGE_IP": "127.0.0.1",
		"SERVICES": "kms,sts", "STRICT_SERVICE_LOADING": "1", "OVERRIDE_IN_DOCKER": "0",
		"DISABLE_EVENTS": "1", "SKIP_SSL_CERT_DOWNLOAD": "1", "LOCALSTACK_AUTH_TOKEN": "",
	} {
		if got(name) != want {
			t.Errorf("%s = %q, want %q", name, got(name), want)
		}
	}
	for _, name := range []string{"FILESYSTEM_ROOT", "CONFIG_DIR", "HOME", "TMPDIR"} {
		if !strings.HasPrefix(got(name)+"/", cmd.Dir+"/") {
			t.Errorf("%s = %q, want it in %s", name, got(name), cmd.Dir)
		}
	}
}

// pairs makes names and values out of NAME=VALUE.
func pairs(list []string) []string {
	var all []string
	for _, element := range list {
		name, value, _ := strings.Cut(element, "=")
		all = append(all, name, value)
	}
	return all
}

func TestPython313(t *testing.T) {
	t.Setenv("PYENV_VERSION", "3.11.7")
	pyenv := `case "$PYENV_VERSION" in 3.13*) ;; *) echo "pyenv: python3.13: command not found" >&2; exit 127 ;; esac` + "\n"
	tests := []struct {
		name, python string // a script
		want         string // PYENV_VERSION that Python sees; none if it does not run
	}{
		{"runs", `echo "$PYENV_VERSION"`, "3.11.7"},
		{"runs with pyenv's variable", pyenv + `echo "$PYENV_VERSION"`, "3.13"},
		{"never runs", "exit 1", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(folder+"/python3.13", []byte("#!/bin/sh\n"+test.python+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			said, err := runTool(t.Context(), slices.Concat(python313, []string{"-c", "print(1)"}))
			if said != test.want || (err == nil) != (test.want != "") {
				t.Errorf("said %q, %v, want %q", said, err, test.want)
			}
		})
	}
	if got := os.Getenv("PYENV_VERSION"); got != "3.11.7" {
		t.Errorf("PYENV_VERSION = %q here", got)
	}
}

func TestLocalStackProbe(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/python3.13", []byte("#!/bin/sh\necho pyenv: not found >&2\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	err := localStack(&project{root: t.TempDir()}).tools[0].probe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "needs Python 3.13") || !strings.Contains(err.Error(), "not found") {
		t.Errorf("error = %v, want what to install", err)
	}
}

func TestLocalStackBesideOthers(t *testing.T) {
	local := func(engine, kind, name, url string) backend {
		return backend{Engine: engine, Services: []service{{Kind: kind, endpoint: endpoint{name, url}}}}
	}
	ministack, alone := local("ministack", "KMS", "ministack", "http://127.0.0.1:1"), local("localstack", "KMS", "localstack", "http://127.0.0.1:2")
	container := local("docker", "KMS", "localstack", "http://127.0.0.1:3")
	given := []endpoint{{"mine", "http://127.0.0.1:4"}}
	tests := []struct {
		name     string
		choice   choice
		backends []backend
		complete bool
		kms      string
	}{
		{"not asked for", choice{}, []backend{ministack}, true, "ministack=http://127.0.0.1:1"},
		{"missing", choice{also: "localstack"}, []backend{ministack}, false, "ministack=http://127.0.0.1:1"},
		{"started", choice{also: "localstack"}, []backend{ministack, alone}, true, "ministack=http://127.0.0.1:1,localstack=http://127.0.0.1:2"},
		{"brought by docker", choice{also: "localstack"}, []backend{container}, true, "localstack=http://127.0.0.1:3"},
		{"another given", choice{also: "localstack", kms: given}, []backend{ministack, alone}, true, "mine=http://127.0.0.1:4,localstack=http://127.0.0.1:2"},
		{"given", choice{kms: []endpoint{{"localstack", "http://127.0.0.1:5"}}}, []backend{ministack, alone}, true, "localstack=http://127.0.0.1:5"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.choice.complete(test.backends); got != test.complete {
				t.Errorf("complete = %v, want %v", got, test.complete)
			}
			want := variable{kmsVariable, test.kms}
			if got := test.choice.found(test.backends); !slices.Contains(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
		})
	}
}
