package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
	"github.com/idem-go/idem/examples/payment/psp"
)

// TestMain lets the test's own binary be the provider, so that it can be killed as a process.
func TestMain(m *testing.M) {
	if os.Getenv("PROVIDER_UNDER_TEST") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a provider that runs as a process of its own.
type process struct {
	*psp.Client
	cmd *exec.Cmd
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PROVIDER_UNDER_TEST=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(p.kill)
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("first line: %v", err)
	}
	p.Client = &psp.Client{BaseURL: strings.TrimSpace(first)}
	return p
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func (p *process) behave(t *testing.T, text string) {
	t.Helper()
	res, err := http.Post(p.BaseURL+"/behave", "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("behave: %d", res.StatusCode)
	}
}

func (p *process) listing(t *testing.T) (l ledger.Listing) {
	t.Helper()
	res, err := http.Get(p.BaseURL + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&l); err != nil {
		t.Fatal(err)
	}
	return l
}

var order = psp.Order{Merchant: "m1", ID: "o1", Amount: 1250, Currency: "EUR"}

func TestKilledBetweenChargeAndAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	p := start(t, "-ledger", path)
	p.behave(t, `{"next":["late:1h"]}`)
	var wg sync.WaitGroup
	wg.Go(func() {
		if c, err := p.Charge(t.Context(), "k", order); err == nil {
			t.Errorf("answered with %+v", c)
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	charged := func() bool { _, err := p.Find(t.Context(), "k"); return err == nil }
	for end := time.Now().Add(10 * time.Second); !charged() && time.Now().Before(end); {
		<-tick.C
	}
	p.kill()
	wg.Wait()

	p = start(t, "-ledger", path)
	first, err := p.Find(t.Context(), "k")
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	if c, err := p.Charge(t.Context(), "k", order); err != nil || c != first {
		t.Errorf("same key again: got %+v, %v, want %+v", c, err, first)
	}
	if got := p.listing(t).Count; got != 1 {
		t.Errorf("got %d charges", got)
	}
}

func TestNoAnsweredChargeIsLostByAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	p := start(t, "-ledger", path)
	answered := make(chan psp.Charge, 1<<12)
	enough := make(chan struct{})
	var wg, some sync.WaitGroup
	for i := range 4 {
		some.Add(1)
		wg.Go(func() {
			for n := 0; ; n++ {
				c, err := p.Charge(t.Context(), fmt.Sprintf("k-%d-%d", i, n), order)
				if err == nil {
					answered <- c
				}
				if n == 5 {
					some.Done()
				}
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	some.Wait() // every one is in the middle of charging
	p.kill()
	close(enough)
	wg.Wait()
	close(answered)

	p = start(t, "-ledger", path)
	there := map[string]ledger.Charge{}
	for _, c := range p.listing(t).Charges {
		there[c.Key] = c
	}
	for c := range answered {
		if there[c.Key].ID != c.ID {
			t.Errorf("charge %s under %s was answered and is lost", c.ID, c.Key)
		}
	}
}

func TestShutdownEndsLateAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	p := start(t, "-ledger", path, "-keys", "off")
	p.behave(t, `{"next":["receive-late:1h","proper","proper","late:1h"]}`)
	if _, err := p.Charge(t.Context(), "k0", order); err == nil {
		t.Error("receive-late: answered")
	}
	for range 2 { // keys are off
		if _, err := p.Charge(t.Context(), "k1", order); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Charge(t.Context(), "k2", order); err != nil {
			t.Errorf("late answer at shutdown: %v", err)
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); p.listing(t).Count < 3 && time.Now().Before(end); {
		<-tick.C
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	wg.Wait()
	if got := start(t, "-ledger", path).listing(t); got.Count != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for _, args := range [][]string{
		{}, {"-ledger", path, "-addr", "0.0.0.0:0"}, {"-ledger", path, "-addr", ":0"}, {"-ledger", path, "-addr", "192.0.2.1:0"},
		{"-ledger", path, "-keys", "maybe"}, {"-ledger", filepath.Join(path, "below", "nothing")},
	} {
		if err := run(t.Context(), args, nil); err == nil {
			t.Errorf("%v: ran", args)
		}
	}
}
