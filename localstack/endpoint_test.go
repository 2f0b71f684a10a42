package main

import (
	"reflect"
	"testing"
)

func TestParseEndpoints(t *testing.T) {
	tests := []struct {
		value string
		want  []endpoint
	}{
		{"", nil},
		{"ministack=http://127.0.0.1:1, dynoxide=http://[::1]:2,", []endpoint{{"ministack", "http://127.0.0.1:1"}, {"dynoxide", "http://[::1]:2"}}},
		{"http://127.0.0.1:1", []endpoint{{unnamed, "http://127.0.0.1:1"}}},
		{"https://h/?a=b", []endpoint{{unnamed, "https://h/?a=b"}}},
	}
	for _, test := range tests {
		got, err := parseEndpoints("V", test.value)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: %v, %v, want %v", test.value, got, err, test.want)
		}
		if again, err := parseEndpoints("V", formatEndpoints(got)); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q read back: %v, %v, want %v", test.value, again, err, got)
		}
	}
	for _, bad := range []string{"127.0.0.1:1", "a=", "a=ftp://h", "a=http://", "A B=http://h", "=http://h", "a=http://h,a=http://i", "http://h,http://i"} {
		if got, err := parseEndpoints("V", bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestVariables(t *testing.T) {
	here := []endpoint{{"ministack", "http://127.0.0.1:1"}}
	there := []endpoint{{unnamed, "https://dynamodb.example"}}
	found := variable{dynamoVariable, "ministack=http://127.0.0.1:1"}
	id, secret, region := variable{"AWS_ACCESS_KEY_ID", "test"}, variable{"AWS_SECRET_ACCESS_KEY", "test"}, variable{"AWS_REGION", "eu-central-1"}
	tests := []struct {
		name        string
		environment []string
		dynamo, kms []endpoint
		want        []variable
	}{
		{"DynamoDB only", nil, here, nil, []variable{found, id, secret, region}},
		{"with KMS", nil, here, here, []variable{found, {kmsVariable, "ministack=http://127.0.0.1:1"}, id, secret, region}},
		{"own credentials", []string{"AWS_ACCESS_KEY_ID", "AK"}, here, nil, []variable{found, region}},
		{"own Region", []string{"AWS_REGION", "us-east-1"}, here, nil, []variable{found, id, secret}},
		{"not on this machine", nil, there, nil, []variable{{dynamoVariable, "endpoint=https://dynamodb.example"}}},
	}
	for _, test := range tests {
		if got := variables(environment(test.environment...), test.dynamo, test.kms); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:1": true, "http://127.9.9.9": true, "http://[::1]:1": true, "http://localhost:1": true,
		"http://10.0.0.1": false, "http://0.0.0.0:1": false, "https://localhost.example": false, "://": false,
	} {
		if got := (endpoint{URL: url}).isLoopback(); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}
