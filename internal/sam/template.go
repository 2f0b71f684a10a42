package sam

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// module is the first line of the go.mod that stands beside the template. Modules below it (otel) have their own.
const module = "module github.com/idem-go/idem\n"

// Template returns the project's template.yaml, found by walking up from the working directory to the root of this
// module, so that a test needs no path of its own.
func Template() ([]byte, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte(module)) {
			return os.ReadFile(filepath.Join(folder, "template.yaml"))
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return nil, fmt.Errorf("template.yaml: no module root above the working directory")
		}
		folder = parent
	}
}
