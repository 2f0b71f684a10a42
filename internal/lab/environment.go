package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Options are an environment's settings. Nil, and every field that is left empty, means the default.
type Options struct {
	Env     map[string]string // all that the function sees, beside what Lambda itself sets
	Timeout time.Duration     // whole seconds, default 3 s
	Memory  int               // in MB, default 128; told to the function, not enforced
	Name    string            // the function's name, default "function"
}

// Environment is one Lambda execution environment: an emulator, and its function's process from the first invocation
// on. It serves one invocation at a time; others wait. All methods may be called concurrently.
type Environment struct {
	// Log is the file with what the emulator and the function print.
	Log string

	executable os.FileInfo
	invokeAPI  string // host:port
	runtimeAPI string
	timeout    time.Duration
	emulator   *exec.Cmd
	gone       chan struct{} // closed when the emulator has ended
	busy       chan struct{} // holds one token while an invocation is under way
	closing    sync.Once
}

// Start starts an environment and returns when it takes invocations. Nothing is invoked by that.
func (f *Function) Start(ctx context.Context, o *Options) (*Environment, error) {
	if o == nil {
		o = &Options{}
	}
	emulator, err := Emulator(ctx)
	if err != nil {
		return nil, err
	}
	vars, timeout, err := o.variables()
	if err != nil {
		return nil, err
	}
	executable, err := os.Stat(f.bootstrap)
	if err != nil {
		return nil, fmt.Errorf("lab: start: %w", err)
	}
	// A free port may be taken by somebody else before the emulator has it; then it ends and another is tried.
	for range 3 {
		e := &Environment{
			executable: executable,
			timeout:    timeout,
			gone:       make(chan struct{}),
			busy:       make(chan struct{}, 1),
		}
		if err = e.start(ctx, emulator, f.bootstrap, vars); err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("lab: start: %w", err)
}

// variables is the emulator's environment, which it hands on to the function. Nothing of our own is handed on, so no
// profile or credentials of the machine reach the function, and the SDK does not look for any off the loopback.
func (o *Options) variables() (vars []string, timeout time.Duration, err error) {
	timeout = max(o.Timeout, 0)
	if timeout == 0 {
		timeout = 3 * time.Second
	}
	if timeout%time.Second != 0 {
		return nil, 0, fmt.Errorf("lab: timeout %v is not in whole seconds", timeout)
	}
	all := map[string]string{
		"AWS_REGION":                "us-east-1",
		"AWS_ACCESS_KEY_ID":         "lab",
		"AWS_SECRET_ACCESS_KEY":     "lab",
		"AWS_EC2_METADATA_DISABLED": "true",
	}
	for name, value := range o.Env {
		if name == "AWS_LAMBDA_MAX_CONCURRENCY" {
			return nil, 0, errors.New("lab: the emulator does not run with AWS_LAMBDA_MAX_CONCURRENCY")
		}
		all[name] = value
	}
	all["AWS_LAMBDA_FUNCTION_TIMEOUT"] = strconv.Itoa(int(timeout / time.Second))
	all["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = strconv.Itoa(cmp.Or(o.Memory, 128))
	all["AWS_LAMBDA_FUNCTION_NAME"] = cmp.Or(o.Name, "function")
	for name, value := range all {
		vars = append(vars, name+"="+value)
	}
	return vars, timeout, nil
}

func (e *Environment) start(ctx context.Context, emulator, bootstrap string, vars []string) error {
	log, err := os.CreateTemp(filepath.Dir(bootstrap), "environment-*.log")
	if err != nil {
		return err
	}
	defer log.Close() // the emulator has its own
	e.Log = log.Name()
	if e.invokeAPI, e.runtimeAPI, err = freeAddresses(); err != nil {
		return err
	}
	// Both addresses are needed: the emulator listens on all interfaces without the first, and takes any word that it
	// does not know for the bootstrap.
	e.emulator = exec.Command(emulator, "--runtime-interface-emulator-address", e.invokeAPI,
		"--runtime-api-address", e.runtimeAPI, bootstrap)
	e.emulator.Dir, e.emulator.Env = filepath.Dir(bootstrap), vars
	e.emulator.Stdout, e.emulator.Stderr = log, log
	asGroup(e.emulator)
	started := make(chan error, 1)
	go func() {
		// A parent-death signal comes when the starting *thread* ends, so the thread is kept as long as the process.
		runtime.LockOSThread()
		err := e.emulator.Start()
		started <- err
		if err == nil {
			_ = e.emulator.Wait()
		}
		close(e.gone)
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := e.ready(ctx); err != nil {
		e.Close()
		return err
	}
	return nil
}

// ready waits until both servers of the emulator answer; neither question invokes the function.
func (e *Environment) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, url := range []string{"http://" + e.runtimeAPI + "/2018-06-01/ping", "http://" + e.invokeAPI + "/"} {
		for {
			_, _, err := send(ctx, http.MethodGet, url, "", nil)
			if err == nil {
				break
			}
			select {
			case <-e.gone:
				return fmt.Errorf("emulator ended, see %s", e.Log)
			case <-ctx.Done():
				return fmt.Errorf("emulator does not answer: %w, see %s", ctx.Err(), e.Log)
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	select {
	case <-e.gone: // so it was somebody else who answered
		return fmt.Errorf("emulator ended, see %s", e.Log)
	default:
		return nil
	}
}

// Close kills the emulator and the function, stopped or not, and returns when both are gone. The log stays.
func (e *Environment) Close() {
	e.closing.Do(func() {
		// A process that is dying with its emulator has no executable any more, and is not dead yet: it is looked for before, too.
		processes, _ := processesOf(e.executable, e.runtimeAPI)
		_ = e.emulator.Process.Kill() // SIGKILL: it would take seconds to end the function first
		<-e.gone
		started, _ := processesOf(e.executable, e.runtimeAPI)
		for _, p := range append(processes, started...) {
			end(p)
			_ = p.Release()
		}
	})
}

// freeAddresses finds two free addresses on the loopback.
func freeAddresses() (a, b string, err error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer first.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer second.Close()
	return first.Addr().String(), second.Addr().String(), nil
}

// send sends one request on a connection of its own and reads the whole answer.
func send(ctx context.Context, method, url, requestID string, body io.Reader) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	if requestID != "" {
		req.Header.Set("X-Amzn-RequestId", requestID)
	}
	req.Close = true
	res, err := oneConnection.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

var oneConnection = &http.Transport{DisableKeepAlives: true}
