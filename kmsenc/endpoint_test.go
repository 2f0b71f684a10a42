package kmsenc_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/kmsenc/internal/endpoint"
)

// Every KMS that runs must do what the fake does, but for what internal/endpoint lists as its gaps.
func TestOnRealEndpoints(t *testing.T) {
	servers := engine.Endpoints("IDEM_TEST_KMS")
	others := engine.Endpoints("IDEM_TEST_DYNAMODB")
	for name := range strings.SplitSeq(os.Getenv("IDEM_TEST_REQUIRE"), ",") {
		if name = strings.TrimSpace(name); name != "" && servers[name] == "" && others[name] == "" {
			t.Fatalf("IDEM_TEST_REQUIRE asks for %s, which is in neither IDEM_TEST_DYNAMODB nor IDEM_TEST_KMS", name)
		}
	}
	if len(servers) == 0 {
		t.Skip("IDEM_TEST_KMS names no server: run make test")
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		t.Run(name, func(t *testing.T) { endpoint.Exercise(t, name, endpoint.Client(servers[name])) })
	}
}
