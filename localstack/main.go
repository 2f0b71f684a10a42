// Command localstack gives a command local DynamoDB and KMS endpoints, with Docker or without:
//
//	go run ./localstack exec -- go test ./...    start, run, stop
//	eval "$(go run ./localstack up)"             start in the background
//	go run ./localstack status
//	go run ./localstack down
//
// # Which engine
//
// The first of these that applies:
//
//   - IDEM_TEST_DYNAMODB is set: it is used, and nothing is started
//   - IDEM_TEST_REQUIRE=ministack,dynoxide: all of these, or an error before the command runs
//   - IDEM_ENGINE=docker, ministack, dynoxide or dynalite: this one, or an error
//   - the first that can be had of docker (DynamoDB Local and LocalStack, compose.yaml), ministack (Python),
//     dynoxide (Rust), dynalite (Node.js, with our own patch in dynalite/)
//
// LocalStack's KMS is the closest to AWS, and comes with docker. Without Docker it is started beside the others where it
// is asked for, as it needs Python 3.13 and 500 MB: IDEM_TEST_REQUIRE names localstack, or IDEM_KMS=localstack. It has no
// DynamoDB then, so another engine brings that.
//
// A line on stderr for each address names what answers there, and says that it is an emulator.
//
// # What the command finds
//
// IDEM_TEST_DYNAMODB and IDEM_TEST_KMS, as NAME=URL separated by commas (local-kms, which needs Go alone, is started where no
// engine has a KMS); and AWS_REGION and
// test credentials where none are set. A bare URL given by hand gets the name "endpoint".
//
// # What is promised
//
// Everything listens on the loopback address only. What is installed, logged or kept is in .local/ of the project, with
// fixed versions; a second run installs nothing, and two project folders do not see each other. Exactly the processes
// that were started are stopped: also after a signal, when the command fails, and, by the next run, when this one was
// killed.
//
// The exit status is the command's, or 128 and the number of the signal that ended it; 125 if no back end could be had,
// 126 or 127 if the command could not be run, 2 after wrong usage, 1 for everything else. (go run itself turns every
// status but 0 into 1.)
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitError     = 1
	exitUsage     = 2
	exitNoBackend = 125
	exitNotRun    = 126
	exitNotFound  = 127
	exitSignal    = 128 // and the signal's number
)

const usage = `usage:
  go run ./localstack exec -- COMMAND [ARGUMENT...]   start the back ends, run COMMAND, stop them
  go run ./localstack up                              start them in the background; stdout is for the shell's eval
  go run ./localstack status                          what runs, and whether it answers
  go run ./localstack down                            stop what up has started
IDEM_ENGINE=docker|ministack|dynoxide|dynalite chooses one; IDEM_KMS=localstack adds LocalStack's KMS without Docker;
IDEM_TEST_REQUIRE=NAME,... starts all of these.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run ends early, with everything that it started stopped, when ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "-h", "--help", "help":
		io.WriteString(stdout, usage)
		return 0
	case "exec":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) == 0 {
			io.WriteString(stderr, usage)
			return exitUsage
		}
	case "up", "down", "status":
		if len(args) > 0 {
			io.WriteString(stderr, usage)
			return exitUsage
		}
	default:
		io.WriteString(stderr, usage)
		return exitUsage
	}
	p, err := findProject(stderr)
	if err != nil {
		return report(stderr, err)
	}
	switch verb {
	case "exec":
		return p.exec(ctx, args)
	case "up":
		err = p.up(ctx, stdout)
	case "down":
		err = p.down(ctx)
	case "status":
		err = p.status(ctx)
	}
	return report(stderr, err)
}

// report prints an error and gives the exit status that belongs to it.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "localstack:", err)
	if _, ok := errors.AsType[*unavailableError](err); ok {
		return exitNoBackend
	}
	return exitError
}
