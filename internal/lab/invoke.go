package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// maxPayload is Lambda's limit on a synchronous request. The emulator cuts what is longer.
const maxPayload = 6 << 20

// Invoke invokes the function and answers with what the emulator answers. The request id is the invocation's; Lambda's
// own retries repeat it, and an empty one is made up by the emulator.
//
// functionError is empty if the function answered, else the error's type as Lambda reports it: the function's own,
// "Runtime.ExitError" for a process that ended or was killed, "Sandbox.Timedout" for one that was killed at its
// deadline. The emulator sends no X-Amz-Function-Error, so it is read from the body: a function must not answer with
// errorType and errorMessage.
//
// Two invocations at once would crash the emulator, so one waits for the other. If ctx ends first, err says so and the
// invocation goes on: the next one waits for its end.
func (e *Environment) Invoke(ctx context.Context, payload []byte, requestID string) (
	body []byte, status int, functionError string, err error,
) {
	if len(payload) > maxPayload {
		return nil, 0, "", fmt.Errorf("lab: invoke: payload of %d bytes", len(payload))
	}
	select {
	case e.busy <- struct{}{}:
	case <-e.gone:
		return nil, 0, "", fmt.Errorf("lab: invoke: emulator is gone, see %s", e.Log)
	case <-ctx.Done():
		return nil, 0, "", fmt.Errorf("lab: invoke: %w", ctx.Err())
	}
	type result struct {
		status int
		body   []byte
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		var r result
		url := "http://" + e.invokeAPI + "/2015-03-31/functions/function/invocations"
		r.status, r.body, r.err = send(context.WithoutCancel(ctx), http.MethodPost, url, requestID, bytes.NewReader(payload))
		<-e.busy
		answered <- r
	}()
	select {
	case r := <-answered:
		if r.err != nil {
			return nil, 0, "", fmt.Errorf("lab: invoke: %w, see %s", r.err, e.Log)
		}
		return r.body, r.status, e.functionError(r.status, r.body), nil
	case <-ctx.Done():
		return nil, 0, "", fmt.Errorf("lab: invoke: %w", ctx.Err())
	}
}

func (e *Environment) functionError(status int, body []byte) string {
	if status == http.StatusBadGateway && len(body) == 0 {
		return "Runtime.ExitError" // it ended while it was starting: no body says so
	}
	if string(body) == fmt.Sprintf("Task timed out after %d.00 seconds", int(e.timeout.Seconds())) {
		return "Sandbox.Timedout"
	}
	var failure struct {
		Type    *string `json:"errorType"`
		Message *string `json:"errorMessage"`
	}
	if json.Unmarshal(body, &failure) != nil || failure.Type == nil || failure.Message == nil {
		return ""
	}
	return *failure.Type
}
