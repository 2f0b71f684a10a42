package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// programs are the two small ones that are started: one guarded operation, and its two calls made bare.
type programs struct{ dir string }

var programNames = [2]string{"guarded", "bare"}

func build(ctx context.Context) (programs, error) {
	dir, err := os.MkdirTemp("", "idem-bench-")
	if err != nil {
		return programs{}, err
	}
	p := programs{dir}
	for _, name := range programNames {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=lambda.norpc", "-o", filepath.Join(dir, name),
			"github.com/idem-go/idem/internal/bench/start/"+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			p.remove()
			return programs{}, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return p, nil
}

func (p programs) remove() { os.RemoveAll(p.dir) }

// started is what one process took from its start to its end, and the most memory it had.
type started struct {
	wall   time.Duration
	memory float64 // bytes
}

// starts runs both programs n times in turns, with ops operations in each.
func (p programs) starts(ctx context.Context, t *target, n, ops int) (guarded, plain []started, err error) {
	var all [2][]started
	for k := range n + 1 {
		for j := range programNames {
			j = (j + k) % 2
			name := programNames[j]
			cmd := exec.CommandContext(ctx, filepath.Join(p.dir, name), t.url, t.table, fmt.Sprint(prefix, "start", ops, name, k), fmt.Sprint(ops))
			start := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(start)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w\n%s", name, err, out)
			}
			var kB float64
			if _, err := fmt.Sscan(string(out), &kB); err != nil {
				return nil, nil, fmt.Errorf("%s says %q: %w", name, out, err)
			}
			if k > 0 {
				all[j] = append(all[j], started{took, kB * 1024})
			}
		}
	}
	return all[0], all[1], nil
}

func walls(s []started) (n numbers) {
	for _, x := range s {
		n = append(n, x.wall.Seconds()*1e3)
	}
	return n
}

func memories(s []started) (n numbers) {
	for _, x := range s {
		n = append(n, x.memory/1e6)
	}
	return n
}
