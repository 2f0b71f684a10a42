package idem_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every Go sample of the README stands, to the letter, in a file that is compiled.
func TestReadmeCodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var code bytes.Buffer
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fences := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	for _, f := range fences {
		if !bytes.Contains(code.Bytes(), f[1]) {
			t.Errorf("not in any Go file:\n%s", f[1])
		}
	}
	if len(fences) < 4 {
		t.Errorf("%d samples", len(fences))
	}
	if n := bytes.Count(readme, []byte("\n")); n > 220 {
		t.Errorf("README.md has %d lines", n)
	}
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAll(readme, nil)
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(string(link[1])); err != nil {
			t.Errorf("link to %s: %v", link[1], err)
		}
	}
}
