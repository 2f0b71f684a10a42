package kmsenc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// FIPS 140-3: the whole suite passes where the runtime refuses everything that is not approved. The AWS Encryption SDK for Go and
// Tink fail there. This test runs the suite once more, in a process of its own with GODEBUG=fips140=only.
func TestPassesUnderFIPS140Only(t *testing.T) {
	const inner = "KMSENC_TEST_FIPS"
	if os.Getenv(inner) != "" || strings.Contains(os.Getenv("GODEBUG"), "fips140=only") {
		t.Skip("this is the process that runs under fips140=only")
	}
	if testing.Short() {
		t.Skip("runs the suite once more")
	}
	if raceEnabled {
		t.Skip("the suite runs under the race detector without this")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.skip=TestCachesAreBounded|TestATenantHasItsShare|TestForgedRecordsCostLittle|TestOnRealEndpoints|TestWhatItAddsToABinary", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inner+"=1", "GODEBUG=fips140=only")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- PASS: "); n < 50 || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%d tests passed:\n%s", n, out)
	} else {
		t.Logf("%d tests and subtests passed", n)
	}
}
