package lab_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idem-go/idem/internal/lab"
)

func TestEmulatorIsInstalledOnceAndReplacedIfItIsAnother(t *testing.T) {
	root := t.TempDir()
	want := filepath.Join(root, ".local", "bin", "aws-lambda-rie")
	for path, text := range map[string]string{filepath.Join(root, "go.mod"): "module example\n", want: "another version\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	infos := make([]os.FileInfo, 2)
	var wg sync.WaitGroup
	for i := range infos {
		wg.Go(func() {
			got, err := lab.Emulator(t.Context())
			if err != nil || got != want {
				t.Errorf("got %s, %v", got, err)
				return
			}
			infos[i], err = os.Stat(got)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !os.SameFile(infos[0], infos[1]) {
		t.Error("installed twice")
	}
	entries, err := os.ReadDir(filepath.Dir(want))
	if err != nil || len(entries) != 2 { // it and its lock
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestEmulatorOutsideTheProjectIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	if path, err := lab.Emulator(t.Context()); err == nil {
		t.Errorf("got %s", path)
	}
}
