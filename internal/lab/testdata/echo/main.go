// Command echo is the function that the harness's own tests run under the emulator. What it does is in the event, so
// that one build serves every test.
package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// event says what one invocation does.
type event struct {
	Do  string `json:"do"`            // echo, call, wait, fail, panic, exit
	URL string `json:"url,omitempty"` // call: what to GET
	Env string `json:"env,omitempty"` // the variable to tell
}

// answer is what the tests want to know of the process that answered.
type answer struct {
	PID       int       `json:"pid"`
	Calls     int       `json:"calls"` // invocations of this process, this one included
	RequestID string    `json:"requestId"`
	Deadline  time.Time `json:"deadline"`
	Env       string    `json:"env,omitempty"`
	Status    int       `json:"status,omitempty"` // call: what the URL answered
}

// EchoError shows what becomes of a function's own error type.
type EchoError struct{}

func (*EchoError) Error() string { return "echo told to fail" }

func main() {
	if url := os.Getenv("ECHO_INIT_URL"); url != "" { // a call while the environment comes up
		if _, err := get(url); err != nil {
			os.Exit(4)
		}
	}
	calls := 0
	lambda.Start(func(ctx context.Context, e event) (answer, error) {
		calls++
		a := answer{PID: os.Getpid(), Calls: calls, Env: os.Getenv(e.Env)}
		a.Deadline, _ = ctx.Deadline()
		if lc, ok := lambdacontext.FromContext(ctx); ok {
			a.RequestID = lc.AwsRequestID
		}
		switch e.Do {
		case "echo":
			return a, nil
		case "call":
			var err error
			a.Status, err = get(e.URL)
			return a, err
		case "wait":
			time.Sleep(time.Hour) // past the deadline: the emulator must kill it
		case "fail":
			return a, &EchoError{}
		case "panic":
			panic("echo told to panic")
		case "exit":
			os.Exit(3)
		}
		return a, errors.New("unknown event")
	})
}

// get makes one call on a connection of its own, so that a dropped one is not tried again.
func get(url string) (status int, err error) {
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
