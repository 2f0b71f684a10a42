package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	var (
		only  = flag.String("only", "", "only mutants whose name, file or rule contains `TEXT`")
		list  = flag.Bool("list", false, "list the mutants and run none")
		short = flag.Bool("short", false, "without the exploration: what only that notices is reported as surviving")
		proof = flag.Bool("exploration", false, "the exploration alone, and only over what it can see; survivors are no error then")
		fresh = flag.Bool("fresh", false, "forget the results of earlier runs")
		jobs  = flag.Int("j", min(2, runtime.NumCPU()), "mutants at a time")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var chosen []mutant
	for _, m := range table() {
		if strings.Contains(m.name, *only) || strings.Contains(m.file, *only) || strings.Contains(m.rule, *only) {
			m.explored = m.explored && !*short
			m.alone = *proof
			if m.explored || !*proof {
				chosen = append(chosen, m)
			}
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%-20s %-62s %s\n", m.file, m.name, m.rule)
		}
		fmt.Printf("%d mutants, %d of them argued\n", len(chosen), len(argued(chosen)))
		return
	}
	if err := run(ctx, chosen, *fresh, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, chosen []mutant, fresh bool, jobs int) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	k, err := openKept(root, fresh)
	if err != nil {
		return err
	}
	start := time.Now()
	fmt.Printf("%d mutants, %d at a time; first the code as it is\n", len(chosen), jobs)
	for _, pkg := range packages(chosen) {
		r, err := try(ctx, root, mutant{name: "the code as it is in " + pkg, file: pkg + "/"})
		if err == nil && r.By != "" {
			err = fmt.Errorf("%s fails without a mutant: %s", r.By, r.Says)
		}
		if err != nil {
			return err
		}
	}
	results, err := tryAll(ctx, root, k, chosen, jobs)
	bad := report(chosen, results)
	fmt.Printf("%v\n", time.Since(start).Round(time.Second))
	return errors.Join(err, bad)
}

func packages(of []mutant) []string {
	var names []string
	for _, m := range of {
		names = append(names, m.pkg())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tryAll tries the mutants, those first that take long, and says what becomes of each as it is known.
func tryAll(ctx context.Context, root string, k *kept, chosen []mutant, jobs int) (map[string]result, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		errs    []error
		results = make(map[string]result)
		queue   = make(chan mutant)
	)
	work := func(m mutant) {
		r, known := k.get(m)
		var err error
		if !known && ctx.Err() == nil {
			if r, err = try(ctx, root, m); err == nil {
				err = k.put(m, r)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			errs = append(errs, err)
			fmt.Printf("  error     %v\n", err)
		case r.Name != "":
			results[m.name] = r
			fmt.Printf("  %s\n", m.verdict(r))
		}
	}
	for range jobs {
		wg.Go(func() {
			for m := range queue {
				work(m)
			}
		})
	}
	ordered := slices.Clone(chosen)
	slices.SortStableFunc(ordered, func(a, b mutant) int { return cmp.Compare(len(b.why), len(a.why)) })
	for _, m := range ordered {
		queue <- m
	}
	close(queue)
	wg.Wait()
	return results, errors.Join(append(errs, ctx.Err())...)
}
