package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// kept are the results of earlier runs, a line each, so that a run that was stopped goes on where it was. A result counts as
// long as neither the mutant nor any source it was judged with has changed.
type kept struct {
	mu      sync.Mutex
	results map[string]result // by key
	file    *os.File
	sources string
}

// judges are the folders whose sources and test data decide about a mutant.
var judges = []string{".", "dynamo", "idemtest", "testdata", "dynamo/testdata", "internal/mutate/testdata"}

// openKept reads what is kept; fresh forgets it.
func openKept(root string, fresh bool) (*kept, error) {
	k := &kept{results: make(map[string]result)}
	h := sha256.New()
	for _, dir := range judges {
		err := fs.WalkDir(os.DirFS(filepath.Join(root, dir)), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if name != "." && err == nil {
					return fs.SkipDir
				}
				return err
			}
			if dir == "." && !strings.HasSuffix(name, ".go") && name != "go.mod" && name != "template.yaml" {
				return nil
			}
			b, err := os.ReadFile(filepath.Join(root, dir, name))
			fmt.Fprintf(h, "%s/%s %d\n%s", dir, name, len(b), b)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	k.sources = runtime.Version() + string(h.Sum(nil))

	name := filepath.Join(root, ".local", "mutate", "results.jsonl")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	mode := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if fresh {
		mode |= os.O_TRUNC
	}
	var err error
	if k.file, err = os.OpenFile(name, mode, 0o644); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(k.file); lines.Scan(); {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil { // the last one may be cut
			k.results[l.Key] = l.Result
		}
	}
	return k, nil
}

type line struct {
	Key    string
	Result result
}

// key of a mutant that is killed; one that survives does so only for the stages there were.
func (k *kept) key(m mutant, survives bool) string {
	parts := []string{k.sources, m.file, m.name, m.from, m.to}
	if survives || m.alone {
		parts = append(parts, fmt.Sprint(m.stages()))
	}
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:])
}

func (k *kept) get(m mutant) (result, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, survives := range []bool{false, true} {
		if r, ok := k.results[k.key(m, survives)]; ok {
			return r, true
		}
	}
	return result{}, false
}

func (k *kept) put(m mutant, r result) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := json.Marshal(line{k.key(m, r.By == ""), r})
	if err == nil {
		_, err = k.file.Write(append(b, '\n'))
	}
	return err
}
