// Package engine gives tests the back ends that run: those that `go run ./localstack exec` started, or that the environment
// names.
package engine

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem/internal/sam"
)

// Engine is a running DynamoDB-compatible server.
type Engine struct{ Name, URL string }

// Each runs f on every engine of IDEM_TEST_DYNAMODB ("name=url,..."). Without any it skips; what IDEM_TEST_REQUIRE names must
// be there, or the test fails.
func Each(t *testing.T, f func(t *testing.T, e Engine)) {
	t.Helper()
	engines, kms := Endpoints("IDEM_TEST_DYNAMODB"), Endpoints("IDEM_TEST_KMS")
	for name := range strings.SplitSeq(os.Getenv("IDEM_TEST_REQUIRE"), ",") {
		if name = strings.TrimSpace(name); name != "" && engines[name] == "" && kms[name] == "" {
			t.Fatalf("IDEM_TEST_REQUIRE asks for %s, which is in neither IDEM_TEST_DYNAMODB nor IDEM_TEST_KMS", name)
		}
	}
	if len(engines) == 0 {
		t.Skip("IDEM_TEST_DYNAMODB names no engine: run make test")
	}
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		t.Run(name, func(t *testing.T) { f(t, Engine{name, engines[name]}) })
	}
}

// Endpoints reads NAME=URL,...; a bare URL is called "endpoint".
func Endpoints(variable string) map[string]string {
	m := make(map[string]string)
	for e := range strings.SplitSeq(os.Getenv(variable), ",") {
		if e = strings.TrimSpace(e); e == "" {
			continue
		}
		name, url, named := strings.Cut(e, "=")
		if !named || strings.Contains(name, "://") {
			name, url = "endpoint", e
		}
		m[name] = url
	}
	return m
}

// Client is a real SDK client of the endpoint, which may be a proxy in front of an engine.
func Client(url string, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &url, HTTPClient: awshttp.NewBuildableClient(),
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("test", "test", "")),
	}, opts...)
}

// KMS is a real SDK client of a KMS endpoint.
func KMS(url string) *kms.Client {
	return kms.New(kms.Options{
		Region: "eu-central-1", BaseEndpoint: &url, HTTPClient: awshttp.NewBuildableClient(),
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("test", "test", "")),
	})
}

// Key makes a key on the first endpoint of IDEM_TEST_KMS, and gives the endpoint and the key's ARN.
func Key(t testing.TB) (url, arn string) {
	t.Helper()
	endpoints := Endpoints("IDEM_TEST_KMS")
	if len(endpoints) == 0 {
		t.Fatal("IDEM_TEST_KMS names no endpoint: run make test")
	}
	url = endpoints[slices.Sorted(maps.Keys(endpoints))[0]]
	key, err := KMS(url).CreateKey(t.Context(), nil)
	if err != nil {
		t.Fatalf("create key: %v", err)
	}
	return url, *key.KeyMetadata.Arn
}

// Table makes a table as template.yaml has it, and deletes it in the end.
func (e Engine) Table(t testing.TB) string {
	t.Helper()
	template, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	name := "idem-test-" + rand.Text()
	client := Client(e.URL)
	if err := sam.Create(t.Context(), client, name, template); err != nil {
		t.Fatalf("create table: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Logf("delete table: %v", err)
		}
	})
	return name
}
