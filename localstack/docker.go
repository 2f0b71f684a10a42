package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// docker is DynamoDB Local and LocalStack in containers. It is the only way in which this project runs DynamoDB Local:
// its licence lets a user start the image, not us hand out the program.
type docker struct{ project *project }

var _ engine = docker{}

const (
	dynamoLocalVersion = "3.3.1"  // of the images in compose.yaml, which a test compares
	localStackVersion  = "4.14.0" // the last that starts without an account; also without Docker, see localstack.go
	dockerLimit        = 2 * time.Minute
	pullLimit          = 15 * time.Minute
)

// Probe asks the daemon. That docker is on the PATH says nothing, and docker --version answers without one.
func (d docker) Probe(ctx context.Context) error {
	for _, question := range [][]string{{"info", "--format", "{{.ServerVersion}}"}, {"compose", "version", "--short"}} {
		said, err := runTool(ctx, append([]string{"docker"}, question...))
		if err == nil && said == "" {
			err = errors.New("no answer") // older clients miss the daemon and succeed
		}
		if err != nil {
			return fmt.Errorf("%w: needs a running Docker engine with Docker Compose", err)
		}
	}
	return nil
}

func (d docker) Start(ctx context.Context, started func(backend) error) (backend, error) {
	const tries = 4
	var err error
	for range tries {
		var b backend
		if b, err = d.launch(ctx, started); err == nil {
			return b, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return backend{}, fmt.Errorf("start of docker: %w", err)
}

func (d docker) launch(ctx context.Context, started func(backend) error) (b backend, err error) {
	dynamoPort, err := freePort()
	if err != nil {
		return backend{}, err
	}
	localStackPort, err := freePort()
	if err != nil {
		return backend{}, err
	}
	log, err := d.project.openLog("docker")
	if err != nil {
		return backend{}, err
	}
	defer log.Close()
	b = backend{
		Engine:  "docker",
		Compose: fmt.Sprintf("idem-%d-%d", os.Getpid(), time.Now().UnixNano()),
		Log:     log.Name(),
		Services: []service{
			{Kind: "DynamoDB", Title: "DynamoDB Local " + dynamoLocalVersion, endpoint: loopback("dynamodb-local", dynamoPort)},
			{Kind: "KMS", Title: "LocalStack " + localStackVersion, endpoint: loopback(localStackName, localStackPort)},
		},
	}
	if err := started(b); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.project.stop(b))
		}
	}()
	d.project.say("starting DynamoDB Local and LocalStack with Docker Compose (the first time it fetches two images)")
	up := d.project.compose(b.Compose, "up", "--detach", "--quiet-pull")
	up.Env = append(os.Environ(), "IDEM_DYNAMODB_PORT="+strconv.Itoa(dynamoPort), "IDEM_LOCALSTACK_PORT="+strconv.Itoa(localStackPort))
	up.Stdout, up.Stderr = log, log
	pull, cancel := context.WithTimeoutCause(ctx, pullLimit, fmt.Errorf("not up within %v", pullLimit))
	defer cancel()
	if err := d.project.runStep(pull, up, time.Now()); err != nil {
		if ctx.Err() == nil && (portIsTaken(dynamoPort) || portIsTaken(localStackPort)) {
			err = errPortTaken
		}
		return b, fmt.Errorf("%w\n%s", err, logTail(b.Log))
	}
	// Not compose's --wait: what counts is an answer to a real call from here.
	if err := await(ctx, b.Services, nil, dockerLimit); err != nil {
		if ctx.Err() == nil {
			logs := d.project.compose(b.Compose, "logs", "--no-color", "--tail", "20")
			logs.Stdout, logs.Stderr = log, log
			logs.Run()
			err = fmt.Errorf("%w\n%s", err, logTail(b.Log))
		}
		return b, err
	}
	return b, nil
}

func loopback(name string, port int) endpoint {
	return endpoint{Name: name, URL: "http://127.0.0.1:" + strconv.Itoa(port)}
}

func (p *project) compose(name string, args ...string) *exec.Cmd {
	return exec.Command("docker", append([]string{"compose", "--project-name", name, "--file", p.source("compose.yaml")}, args...)...)
}

// composeDown removes the containers and the network of one project of ours.
func (p *project) composeDown(ctx context.Context, name string) error {
	down := p.compose(name, "down", "--volumes", "--timeout", "5")
	var said strings.Builder
	down.Stdout, down.Stderr = &said, &said
	ownGroup(down) // a Ctrl-C at the terminal must not end what tidies up after it
	if err := down.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- down.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("docker compose down of %s: %w\n%s", name, err, said.String())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("docker compose down of %s: %w", name, ctx.Err())
	}
}
