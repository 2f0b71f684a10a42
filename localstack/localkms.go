package main

import (
	"os/exec"
	"strconv"
)

// localKMSName is a KMS alone, written in Go: it is started beside an engine that has none, so there is a KMS wherever there is Go.
const localKMSName = "local-kms"

// localKMS is built from the module of ours that brings local-kms to the loopback.
func localKMS(p *project) *recipe {
	const version = "2026-02-28" // of the commit in its go.mod
	folder := p.local("local-kms")
	program := folder + "/serve"
	return &recipe{
		project: p,
		name:    localKMSName,
		version: version,
		kinds:   []string{"KMS"},
		tools:   []tool{{command: []string{"go", "version"}, need: "Go"}},
		installation: installation{
			title:  "local-kms " + version + " with go (about half a minute)",
			folder: folder,
			steps:  [][]string{{"go", "build", "-C", p.root + "/kmsenc/localkms", "-o", program, "./serve"}},
			works:  []string{program, "-h"},
		},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command(program, "-port", strconv.Itoa(port), "-data", data)
			cmd.Dir = data
			cmd.Env = cleanEnvironment(data)
			return cmd
		},
	}
}
