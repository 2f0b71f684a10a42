package main

import (
	"os/exec"
	"strconv"
)

// dynalite needs Node.js only. What idem needs and it lacks is added by dynalite/server.js, which is our own and so
// proves less than the others do: it comes last, and says so.
func dynalite(p *project) *recipe {
	const version = "4.0.0" // as dynalite/package-lock.json has it, which a test compares
	folder := p.local("dynalite")
	manifest, lock := p.source("dynalite", "package.json"), p.source("dynalite", "package-lock.json")
	return &recipe{
		project: p,
		name:    "dynalite",
		version: version,
		note:    "with our own patch for ALL_OLD",
		kinds:   []string{"DynamoDB"},
		tools: []tool{
			{command: []string{"node", "-e", "process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)"}, need: "Node.js 20 or newer"},
			{command: []string{"npm", "--version"}, need: "npm"},
		},
		installation: installation{
			title:  "dynalite " + version + " with npm (a few seconds)",
			folder: folder,
			files:  []string{manifest, lock},
			steps: [][]string{
				{"cp", manifest, lock, folder},
				{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"},
			},
			works: []string{"node", "-e", "require(process.argv[1])", folder + "/node_modules/dynalite"},
		},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command("node", p.source("dynalite", "server.js"), "--port="+strconv.Itoa(port), "--ttlSweepMs=1000")
			cmd.Dir = data
			cmd.Env = cleanEnvironment(data, "NODE_PATH="+folder+"/node_modules")
			return cmd
		},
	}
}
