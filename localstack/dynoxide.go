package main

import (
	"os/exec"
	"strconv"
)

// dynoxide is DynamoDB alone, on SQLite. Its data is on disk, so that killing it loses nothing that it acknowledged.
func dynoxide(p *project) *recipe {
	const version = "3.2.0"
	folder := p.local("dynoxide")
	program := folder + "/bin/dynoxide"
	return &recipe{
		project: p,
		name:    "dynoxide",
		version: version,
		kinds:   []string{"DynamoDB"},
		tools: []tool{
			{command: []string{"cargo", "--version"}, need: "Rust with cargo"},
			{command: []string{"cc", "--version"}, need: "a C compiler (SQLite is built from source)"},
		},
		installation: installation{
			title:  "dynoxide " + version + " with cargo (about 3 minutes)",
			folder: folder,
			env:    []string{"CARGO_TARGET_DIR=" + folder + "/target"},
			steps: [][]string{{
				"cargo", "install", "dynoxide-rs@" + version, "--locked", "--root", folder,
				"--no-default-features", "--features", "native-sqlite,http-server,cli",
			}},
			scrap: []string{"target"},
			works: []string{program, "--version"},
		},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command(program, "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--db-path", data+"/tables.db")
			cmd.Dir = data
			cmd.Env = cleanEnvironment(data)
			return cmd
		},
	}
}
