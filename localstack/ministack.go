package main

import (
	"os/exec"
	"strconv"
)

// ministack needs Python only and is one process for DynamoDB, KMS, SQS and Lambda.
func ministack(p *project) *recipe {
	const version = "1.5.33"
	folder := p.local("ministack")
	python := folder + "/venv/bin/python"
	requirements := p.source("ministack.txt")
	return &recipe{
		project: p,
		name:    "ministack",
		version: version,
		kinds:   []string{"DynamoDB", "KMS"},
		tools: []tool{{
			command: []string{"python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))"},
			need:    "Python 3.10 or newer with venv (on Debian: python3-venv)",
		}},
		installation: installation{
			title:  "ministack " + version + " with pip (about half a minute)",
			folder: folder,
			files:  []string{requirements},
			steps: [][]string{
				{"python3", "-m", "venv", folder + "/venv"},
				{python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement", requirements},
			},
			works: []string{python, "-c", "import ministack.app"},
		},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command(folder + "/venv/bin/ministack")
			cmd.Dir = data
			cmd.Env = cleanEnvironment(data,
				"BIND_HOST=127.0.0.1", // the default is every address
				"GATEWAY_PORT="+strconv.Itoa(port),
				"IOT_MTLS_ENABLED=0", // has a port of its own
				"STATE_DIR="+data+"/state",
				"S3_DATA_DIR="+data+"/s3",
			)
			return cmd
		},
	}
}
