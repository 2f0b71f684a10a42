package main

import (
	"os/exec"
	"slices"
	"strconv"
)

// localStackName is the name of the engine that is LocalStack without Docker, and of the endpoint, which is the same with
// Docker.
const localStackName = "localstack"

// python313 runs Python 3.13, also where pyenv has it and another version is current. The variable is for pyenv alone; it
// is not set where the name works without it, since an old pyenv wants it in full.
var python313 = []string{"sh", "-c", `python3.13 -c pass >/dev/null 2>&1 || export PYENV_VERSION=3.13; exec python3.13 "$@"`, "python3.13"}

// localStack is the same program that docker runs, from PyPI and as a process of this machine, for KMS alone: of the
// emulators its KMS is the closest to AWS. Its DynamoDB stays out, because that would fetch DynamoDB Local.
func localStack(p *project) *recipe {
	folder := p.local("localstack")
	python := folder + "/venv/bin/python"
	requirements := p.source("localstack.txt")
	return &recipe{
		project: p,
		name:    localStackName,
		version: localStackVersion,
		kinds:   []string{"KMS"},
		abrupt:  true, // often goes on for ever after SIGTERM: it stops its event loop from another thread
		tools: []tool{{
			command: slices.Concat(python313, []string{"-c", "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 13))"}),
			need: "Python 3.13, no other, with venv, as python3.13 (on Debian: python3.13-venv; with pyenv: pyenv install 3.13); " +
				"or Docker with " + engineVariable + "=docker",
		}},
		installation: installation{
			title:  "LocalStack " + localStackVersion + " with pip (about a minute, 500 MB)",
			folder: folder,
			files:  []string{requirements},
			env:    []string{"FILESYSTEM_ROOT=" + folder, "OVERRIDE_IN_DOCKER=0"},
			steps: [][]string{
				slices.Concat(python313, []string{"-m", "venv", folder + "/venv"}),
				{python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement", requirements},
				// The index of all services, which each start would make anew: two thirds of its time and 350 MB of memory.
				{"mkdir", "-p", "usr/lib/localstack"},
				{python, "-m", "localstack.aws.spec"},
			},
			works: []string{python, "-c", "from cryptography import x509; import localstack.runtime.main"},
		},
		command: func(port int, data string) *exec.Cmd {
			cmd := exec.Command("sh", "-c", `mkdir -p usr/lib && ln -s "$0" usr/lib/localstack && exec "$@"`,
				folder+"/usr/lib/localstack", python, "-m", "localstack.runtime.main")
			cmd.Dir = data
			cmd.Env = cleanEnvironment(data,
				"GATEWAY_LISTEN=127.0.0.1:"+strconv.Itoa(port),
				"GATEWAY_SERVER=hypercorn", // the default one listens at every address
				"DNS_ADDRESS=0",            // would take port 53
				"SERVICES=kms,sts",
				"STRICT_SERVICE_LOADING=1", // refuses the others, which it would load when they are called
				"FILESYSTEM_ROOT="+data,
				"CONFIG_DIR="+data+"/cfg",
				"OVERRIDE_IN_DOCKER=0", // in a container it would take /var/lib, /usr/lib and /etc instead
				"DOCKER_BRIDGE_IP=127.0.0.1",
				// Nothing is reported to or fetched from its maker.
				"DISABLE_EVENTS=1",
				"SKIP_SSL_CERT_DOWNLOAD=1",
			)
			return cmd
		},
	}
}
