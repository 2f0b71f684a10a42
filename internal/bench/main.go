package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem/internal/bench/bare"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/sam"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 15, "rounds of every comparison")
	flag.IntVar(&o.ops, "ops", 300, "operations in a round")
	flag.BoolVar(&o.long, "long", false, "a table of a million records too")
	flag.StringVar(&o.part, "part", "", "only the part of that name: requests, throughput, root, processes, sizes or tenants")
	flag.BoolVar(&o.check, "check", false, "fail if a goal is missed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds, ops int
	long, check bool
	part        string
}

func (o options) run(ctx context.Context) error {
	name, url := fastest()
	if url == "" {
		return errors.New("IDEM_TEST_DYNAMODB names no engine: go run ./localstack exec -- go run ./internal/bench")
	}
	t, drop, err := table(ctx, url)
	if err != nil {
		return err
	}
	defer drop()
	fmt.Printf("%s on %d cores, engine %s; %d rounds of %d operations, the sides in turns\n\n", runtime.Version(), runtime.NumCPU(), name, o.rounds, o.ops)
	r := newReport()
	start := time.Now()
	for _, part := range []struct {
		name string
		run  func(context.Context, *report, *target) error
	}{
		{"requests", o.requests}, {"throughput", o.throughput}, {"root", o.root}, {"processes", o.processes}, {"sizes", o.sizes}, {"tenants", o.tenants},
	} {
		if o.part != "" && o.part != part.name {
			continue
		}
		if err := part.run(ctx, r, t); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	fmt.Printf("\n%v\n", time.Since(start).Round(time.Second))
	if o.check && r.missed > 0 {
		return fmt.Errorf("%d goals are missed", r.missed)
	}
	return nil
}

// fastest is the engine to measure on.
func fastest() (name, url string) {
	engines := engine.Endpoints("IDEM_TEST_DYNAMODB")
	if url := engines["dynoxide"]; url != "" {
		return "dynoxide", url
	}
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		return name, engines[name]
	}
	return "", ""
}

// table makes a table that drop deletes.
func table(ctx context.Context, url string) (t *target, drop func(), err error) {
	template, err := sam.Template()
	if err != nil {
		return nil, nil, err
	}
	name := "idem-bench-" + rand.Text()
	client := bare.Client(url)
	if err := sam.Create(ctx, client, name, template); err != nil {
		return nil, nil, err
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	}
	if t, err = newTarget(url, name); err != nil {
		drop()
	}
	return t, drop, err
}

func (o options) requests(ctx context.Context, r *report, t *target) error {
	guarded, plain, anew := t.first("first")
	c, err := rounds(ctx, o.rounds, o.ops, 1, guarded, plain, anew)
	if err != nil {
		return err
	}
	r.requests("first execution", c, 1.10)
	if guarded, plain, anew, err = t.replay(ctx); err != nil {
		return err
	}
	if c, err = rounds(ctx, o.rounds, 2*o.ops, 1, guarded, plain, anew); err != nil {
		return err
	}
	r.requests("replay", c, 1.15)
	return nil
}

func (o options) throughput(ctx context.Context, r *report, t *target) error {
	const goroutines = 64
	perSecond := func(c cost) float64 { return 1 / c.wall.Seconds() }
	guarded, plain, _ := t.first("many")
	c, err := rounds(ctx, o.rounds, 4*o.ops, goroutines, guarded, plain)
	if err != nil {
		return err
	}
	r.compare("64 goroutines: first executions a second", "", c[0], c[1], perSecond, atLeast(0.95))
	if guarded, plain, _, err = t.replay(ctx); err != nil {
		return err
	}
	if c, err = rounds(ctx, o.rounds, 8*o.ops, goroutines, guarded, plain); err != nil {
		return err
	}
	r.compare("64 goroutines: replays a second", "", c[0], c[1], perSecond, atLeast(0.95))
	return nil
}

func (o options) root(ctx context.Context, r *report, _ *target) error {
	root, err := newRootOnly()
	if err != nil {
		return err
	}
	first, firstStore, replay, replayStore := root.sides("root")
	c, err := rounds(ctx, o.rounds, 10*o.ops, 1, first, firstStore, replay, replayStore)
	if err != nil {
		return err
	}
	r.own("root by itself: first execution", c[0], c[1])
	r.own("root by itself: replay", c[2], c[3])
	return nil
}

func (o options) processes(ctx context.Context, r *report, t *target) error {
	t, drop, err := table(ctx, t.url) // an empty one: some engines count the items when a table is described
	if err != nil {
		return err
	}
	defer drop()
	p, err := build(ctx)
	if err != nil {
		return err
	}
	defer p.remove()
	guarded, plain, err := p.starts(ctx, t, max(4*o.rounds, 20), 1)
	if err != nil {
		return err
	}
	a, b := walls(guarded), walls(plain)
	r.row("process start to first result, least", "ms", least(a), least(b), "+%.1f ms", least(a)-least(b), numbers{}, atMost(2))
	r.row("process start to first result, median", "ms", a.median(), b.median(), "+%.1f ms", a.median()-b.median(), numbers{}, none)
	a, b = memories(guarded), memories(plain)
	r.row("peak memory, one operation", "MB", a.median(), b.median(), "%.1f MB", a.median(), numbers{}, atMost(20))
	if guarded, plain, err = p.starts(ctx, t, 5, 2000); err != nil {
		return err
	}
	a, b = memories(guarded), memories(plain)
	r.row("peak memory, 2000 operations", "MB", a.median(), b.median(), "%.1f MB", a.median(), numbers{}, atMost(20))
	return nil
}

func (o options) sizes(ctx context.Context, r *report, t *target) error {
	sizes := []int{1_000, 10_000, 100_000}
	if o.long {
		sizes = append(sizes, 1_000_000)
	}
	var targets []*target
	for _, n := range sizes {
		t, drop, err := table(ctx, t.url)
		if err != nil {
			return err
		}
		defer drop()
		if err := t.fill(ctx, n); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		targets = append(targets, t)
	}
	c, err := rounds(ctx, o.rounds, o.ops, 1, bySize(targets, sizes)...)
	if err != nil {
		return err
	}
	for k := 1; k < len(sizes); k++ {
		name := fmt.Sprintf("%d records against %d: ", sizes[k], sizes[0])
		r.compare(name+"CPU", "µs", c[2*k], c[0], cpuOf, atMost(1.05))
		r.compare(name+"time", "µs", c[2*k], c[0], wallOf, none)
		r.compare(name+"time, bare", "µs", c[2*k+1], c[1], wallOf, none)
	}
	return nil
}

func (o options) tenants(ctx context.Context, r *report, t *target) error {
	counts := []int{1, 10, 1000}
	c, err := rounds(ctx, o.rounds, max(o.ops, 1000), 1, t.byTenants(counts)...)
	if err != nil {
		return err
	}
	for k := 1; k < len(counts); k++ {
		name := fmt.Sprintf("%d tenants against 1: ", counts[k])
		r.compare(name+"CPU", "µs", c[k], c[0], cpuOf, atMost(1.05))
		r.compare(name+"time", "µs", c[k], c[0], wallOf, none)
	}
	return nil
}
