package sam_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem/internal/sam"
)

// The table is asked for until it is active, and its TTL comes after that: DynamoDB refuses it earlier.
func TestCreateWaitsBeforeTTL(t *testing.T) {
	var calls []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		body, _ := io.ReadAll(r.Body)
		var in struct{ TableName string }
		if err := json.Unmarshal(body, &in); err != nil || in.TableName != "records-1" {
			t.Errorf("%s: table %q, %v", operation, in.TableName, err)
		}
		calls = append(calls, operation)
		switch {
		case operation == "DescribeTable" && len(calls) < 4:
			io.WriteString(w, `{"Table": {"TableStatus": "CREATING"}}`)
		case operation == "DescribeTable":
			io.WriteString(w, `{"Table": {"TableStatus": "ACTIVE"}}`)
		default:
			io.WriteString(w, `{}`)
		}
	}))
	defer server.Close()
	template, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(server.URL), Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	if err := sam.Create(t.Context(), client, "records-1", template); err != nil {
		t.Fatal(err)
	}
	want := []string{"CreateTable", "DescribeTable", "DescribeTable", "DescribeTable", "UpdateTimeToLive"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
}
