package sam_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	byDigest    = regexp.MustCompile(`^[a-z0-9./-]+:[0-9A-Za-z.-]+@sha256:[0-9a-f]{64}$`)
	byCommit    = regexp.MustCompile(`^\s*(?:- )?uses: [A-Za-z0-9-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	onLoopback  = regexp.MustCompile(`^127\.0\.0\.1:(\$\{[A-Z_]+:-[0-9]+\}|[0-9]+):([0-9]+)$`)
	makeTargets = regexp.MustCompile(`(?m)^([A-Za-z][A-Za-z-]*):`)
)

// workflows are the names of the workflow files, and what is in them.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	found := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(name)] = string(text)
	}
	return found
}

// A workflow reads this repository and nothing else, and what it runs of others is held by what cannot be moved.
func TestWorkflowsAreHeld(t *testing.T) {
	for name, text := range workflows(t) {
		w := plain(t, []byte(text))
		if got := section(w, "permissions"); len(got) != 1 || got["contents"] != "read" {
			t.Errorf("%s: permissions %v, want contents: read", name, w["permissions"])
		}
		for id, job := range section(w, "jobs") {
			if p := section(job)["permissions"]; p != nil {
				t.Errorf("%s: job %s has permissions of its own: %v", name, id, p)
			}
			if section(job)["timeout-minutes"] == nil {
				t.Errorf("%s: job %s has no timeout", name, id)
			}
			if on, _ := section(job)["runs-on"].(string); on == "" || strings.HasSuffix(on, "-latest") {
				t.Errorf("%s: job %s runs on %q", name, id, on)
			}
			steps, _ := section(job)["steps"].([]any)
			for _, step := range steps {
				if uses, _ := section(step)["uses"].(string); strings.HasPrefix(uses, "actions/checkout@") && section(step, "with")["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves the token in .git/config", name, id)
				}
			}
		}
		for _, never := range []string{"pull_request_target", "workflow_run", "secrets.", "github.event", "github.head_ref", "write-all"} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %s", name, never)
			}
		}
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, "uses:") && !byCommit.MatchString(line) {
				t.Errorf("%s: %q has no commit and version", name, strings.TrimSpace(line))
			}
		}
	}
}

// container is a service of compose.yaml or of a workflow.
type container struct {
	image       string
	ports       []string // of the container
	environment map[string]any
}

// containers checks what both kinds of file have to say, in their own words.
func containers(t *testing.T, where string, services map[string]any, environment, health string) map[string]container {
	t.Helper()
	found := map[string]container{}
	for name, s := range services {
		c := container{image: fmt.Sprint(section(s)["image"]), environment: section(s, environment)}
		if !byDigest.MatchString(c.image) {
			t.Errorf("%s: image %q is not held by its digest", where, c.image)
		}
		for _, p := range list(section(s)["ports"]) {
			m := onLoopback.FindStringSubmatch(p)
			if m == nil {
				t.Errorf("%s: port %q of %s is not on the loopback address", where, p, name)
				continue
			}
			c.ports = append(c.ports, m[2])
		}
		if text := fmt.Sprint(section(s)[health]); len(c.ports) != 1 || !strings.Contains(text, "curl") || !strings.Contains(text, "http://127.0.0.1:"+c.ports[0]+"/") {
			t.Errorf("%s: %s has no health check on its one port", where, name)
		}
		if all := fmt.Sprint(s); !strings.Contains(all, "no-new-privileges:true") || strings.Contains(all, "docker.sock") || strings.Contains(all, "--privileged") || section(s)["volumes"] != nil || section(s)["privileged"] != nil {
			t.Errorf("%s: %s may do more than serve", where, name)
		}
		found[name] = c
	}
	return found
}

// The workflow has what compose.yaml has: what is green there is green here.
func TestContainersAreTheSame(t *testing.T) {
	compose := containers(t, "compose.yaml", section(plain(t, []byte(file(t, "localstack/compose.yaml"))), "services"), "environment", "healthcheck")
	for name, text := range workflows(t) {
		for id, job := range section(plain(t, []byte(text)), "jobs") {
			services := section(job, "services")
			if services == nil {
				continue
			}
			got := containers(t, name, services, "env", "options")
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(compose))) {
				t.Errorf("%s: services %v, compose.yaml has %v", id, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(compose)))
			}
			var ports []string
			for service, c := range got {
				want := compose[service]
				if c.image != want.image || !slices.Equal(c.ports, want.ports) {
					t.Errorf("%s: %s is %s at %v, in compose.yaml %s at %v", id, service, c.image, c.ports, want.image, want.ports)
				}
				for variable, value := range want.environment {
					if c.environment[variable] != value {
						t.Errorf("%s: %s has %s = %v, in compose.yaml %v", id, service, variable, c.environment[variable], value)
					}
				}
				ports = append(ports, c.ports...)
			}
			checkEndpoints(t, id, section(job, "env"), ports)
		}
	}
}

// checkEndpoints: the suites are sent to the services, and are to fail where one is missing.
func checkEndpoints(t *testing.T, job string, env map[string]any, ports []string) {
	t.Helper()
	var names []string
	for _, variable := range []string{"IDEM_TEST_DYNAMODB", "IDEM_TEST_KMS"} {
		name, url, _ := strings.Cut(fmt.Sprint(env[variable]), "=")
		port, ok := strings.CutPrefix(url, "http://127.0.0.1:")
		if !ok || !slices.Contains(ports, port) {
			t.Errorf("%s: %s = %v is none of the services", job, variable, env[variable])
		}
		names = append(names, name)
	}
	if got := strings.Split(fmt.Sprint(env["IDEM_TEST_REQUIRE"]), ","); !slices.Equal(got, names) {
		t.Errorf("%s: IDEM_TEST_REQUIRE = %q, want %q", job, got, names)
	}
}

// called are the make targets that a job's steps name, those of a matrix written out.
func called(job any) []string {
	var all []string
	steps, _ := section(job)["steps"].([]any)
	for _, step := range steps {
		run, _ := section(step)["run"].(string)
		for line := range strings.Lines(run) {
			target, ok := strings.CutPrefix(strings.TrimSpace(line), "make ")
			if !ok {
				continue
			}
			if target == "${{ matrix.target }}" {
				all = append(all, list(section(job, "strategy", "matrix")["target"])...)
			} else {
				all = append(all, strings.Fields(target)...)
			}
		}
	}
	return all
}

// The gate and the workflow run the same targets, and the Makefile has them.
func TestWorkflowRunsTheGate(t *testing.T) {
	var gate, there, run []string
	for line := range strings.Lines(file(t, ".ci/run")) {
		if target, ok := strings.CutPrefix(strings.TrimSpace(line), "make "); ok {
			gate = append(gate, strings.Fields(target)...)
		}
	}
	for _, m := range makeTargets.FindAllStringSubmatch(file(t, "Makefile"), -1) {
		there = append(there, m[1])
	}
	for _, text := range workflows(t) {
		for _, job := range section(plain(t, []byte(text)), "jobs") {
			run = append(run, called(job)...)
		}
	}
	for _, target := range run {
		if !slices.Contains(there, target) {
			t.Errorf("the Makefile has no %s", target)
		}
	}
	if len(gate) == 0 {
		t.Error(".ci/run makes nothing")
	}
	for _, target := range gate {
		if !slices.Contains(run, target) {
			t.Errorf("no workflow runs %s, which .ci/run does", target)
		}
	}
}

// What lint-template installs stays what it is.
func TestLintVersionsAreFixed(t *testing.T) {
	fixed := regexp.MustCompile(`^[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*$`)
	for line := range strings.Lines(file(t, "internal/sam/lint.txt")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !fixed.MatchString(line) {
			t.Errorf("%q has no fixed version", line)
		}
	}
}
