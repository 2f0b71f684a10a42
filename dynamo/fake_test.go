package dynamo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem/dynamo"
)

// fake is DynamoDB as far as this package uses it, and no further: what it does not know fails. It has one table, "records".
type fake struct {
	mu    sync.Mutex
	items map[string]map[string]json.RawMessage // by partition key
	table map[string]any                        // of DescribeTable
	skew  time.Duration                         // of its clock

	tokens map[string]bool // of transactions that were carried out
}

func newFake() *fake {
	return &fake{
		items:  make(map[string]map[string]json.RawMessage),
		tokens: make(map[string]bool),
		table: map[string]any{
			"TableName": "records", "TableId": "id-1", "TableStatus": "ACTIVE",
			"KeySchema":            []any{map[string]any{"AttributeName": "pk", "KeyType": "HASH"}},
			"AttributeDefinitions": []any{map[string]any{"AttributeName": "pk", "AttributeType": "S"}},
		},
	}
}

// clientOf is the SDK's own client with connections of its own, over f if there is one.
func clientOf(url string, f *faults) *dynamodb.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if f == nil {
		return clientOver(transport, url)
	}
	f.next = transport
	return clientOver(f, url)
}

func clientOver(transport http.RoundTripper, url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(url),
		Region:       "eu-central-1",
		Credentials:  aws.CredentialsProviderFunc(credentials),
		HTTPClient:   &http.Client{Transport: transport},
	})
}

// RoundTrip serves without a network, so that a test may be in a synctest bubble.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

// open returns a store on the fake that has passed the guard, and its transport.
func (f *fake) open(t testing.TB, opts *dynamo.Options) (*dynamo.Store, *faults) {
	t.Helper()
	faults := &faults{next: f}
	s, err := dynamo.New(clientOver(faults, "http://fake"), "records", opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Generation(t.Context()); err != nil {
		t.Fatal(err)
	}
	faults.sent()
	return s, faults
}

type request struct {
	TableName                           string
	Key                                 map[string]json.RawMessage
	ConsistentRead                      bool
	UpdateExpression                    string
	ConditionExpression                 string
	ExpressionAttributeValues           map[string]json.RawMessage
	ReturnValuesOnConditionCheckFailure string

	TransactItems      []struct{ Update request }
	ClientRequestToken string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in request
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		answer(w, 400, map[string]any{"__type": "com.amazon.coral.service#SerializationException", "message": err.Error()})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(f.skew).UTC().Format(http.TimeFormat))
	for _, action := range in.TransactItems {
		in.TableName = action.Update.TableName
	}
	if in.TableName != "records" {
		answer(w, 400, map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "message": "Requested resource not found"})
		return
	}
	switch call := r.Header.Get("X-Amz-Target"); call {
	case "DynamoDB_20120810.DescribeTable":
		answer(w, 200, map[string]any{"Table": f.table})
	case "DynamoDB_20120810.GetItem":
		out := map[string]any{}
		if item := f.items[string(in.Key["pk"])]; item != nil && in.ConsistentRead {
			out["Item"] = item
		}
		answer(w, 200, out)
	case "DynamoDB_20120810.UpdateItem":
		f.update(w, in)
	case "DynamoDB_20120810.TransactWriteItems":
		f.transact(w, in)
	default:
		answer(w, 400, map[string]any{"__type": "com.amazon.coral.service#UnknownOperationException", "message": call})
	}
}

// meets tells whether the item is as the condition says, which is none or one of two.
func (f *fake) meets(in request) bool {
	old := f.items[string(in.Key["pk"])]
	switch in.ConditionExpression {
	case "": // a test's own
		return true
	case "attribute_not_exists(pk)":
		return old == nil
	case "ve = :sn":
		return old != nil && string(old["ve"]) == string(in.ExpressionAttributeValues[":sn"])
	}
	panic("condition " + in.ConditionExpression)
}

// set knows "SET a = :x, ... REMOVE b, ...".
func (f *fake) set(in request) {
	pk := string(in.Key["pk"])
	item := maps.Clone(f.items[pk])
	if item == nil {
		item = maps.Clone(in.Key)
	}
	set, remove, _ := strings.Cut(strings.TrimPrefix(in.UpdateExpression, "SET "), " REMOVE ")
	for assignment := range strings.SplitSeq(set, ", ") {
		name, place, _ := strings.Cut(assignment, " = ")
		v, ok := in.ExpressionAttributeValues[place]
		if !ok {
			panic("no value " + place)
		}
		item[name] = v
	}
	for name := range strings.SplitSeq(remove, ", ") {
		delete(item, name)
	}
	f.items[pk] = item
}

func (f *fake) update(w http.ResponseWriter, in request) {
	if f.meets(in) {
		f.set(in)
		answer(w, 200, map[string]any{})
		return
	}
	out := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message": "The conditional request failed"}
	if old := f.items[string(in.Key["pk"])]; old != nil && in.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
		out["Item"] = old
	}
	answer(w, 400, out)
}

// transact knows updates, and remembers tokens.
func (f *fake) transact(w http.ResponseWriter, in request) {
	var reasons []any
	met := true
	for _, action := range in.TransactItems {
		reason := map[string]any{"Code": "None"}
		if !f.meets(action.Update) {
			met = false
			reason = map[string]any{"Code": "ConditionalCheckFailed", "Message": "secret"}
			if old := f.items[string(action.Update.Key["pk"])]; old != nil && action.Update.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
				reason["Item"] = old
			}
		}
		reasons = append(reasons, reason)
	}
	switch {
	case f.tokens[in.ClientRequestToken]:
	case !met:
		answer(w, 400, map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "message": "secret", "CancellationReasons": reasons})
		return
	default:
		for _, action := range in.TransactItems {
			f.set(action.Update)
		}
		f.tokens[in.ClientRequestToken] = true
	}
	answer(w, 200, map[string]any{})
}

// expire removes what TTL would.
func (f *fake) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.items, func(_ string, item map[string]json.RawMessage) bool {
		var ex struct{ N string }
		json.Unmarshal(item["ex"], &ex)
		n, err := strconv.ParseInt(ex.N, 10, 64)
		return err == nil && n < now.Unix()
	})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE(body)))
	w.Header().Set("X-Amzn-Requestid", "REQUEST")
	w.WriteHeader(status)
	w.Write(body)
}

// respond is an answer that never saw the service.
func respond(r *http.Request, status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: r,
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}
