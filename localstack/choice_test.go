package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestChoose(t *testing.T) {
	given := endpoint{Name: "ministack", URL: "http://127.0.0.1:1"}
	tests := []struct {
		name        string
		environment []string
		want        choice
	}{
		{"nothing asked for", nil, choice{first: preference}},
		{"one engine", []string{engineVariable, "dynoxide"}, choice{all: []string{"dynoxide"}}},
		{"all required", []string{requireVariable, "ministack, dynoxide,"}, choice{all: []string{"ministack", "dynoxide"}}},
		{"required and one more", []string{requireVariable, "ministack", engineVariable, "dynalite"}, choice{all: []string{"ministack", "dynalite"}}},
		{"required and the same", []string{requireVariable, "ministack", engineVariable, "ministack"}, choice{all: []string{"ministack"}}},
		{"containers by endpoint", []string{requireVariable, "dynamodb-local,localstack"}, choice{all: []string{"docker"}}},
		{"given", []string{dynamoVariable, "ministack=http://127.0.0.1:1", engineVariable, "dynoxide"}, choice{dynamo: []endpoint{given}}},
		{"given and required", []string{dynamoVariable, "ministack=http://127.0.0.1:1", requireVariable, "ministack"}, choice{dynamo: []endpoint{given}}},
		{"KMS given", []string{kmsVariable, "localstack=http://127.0.0.1:1", requireVariable, "dynoxide,localstack"},
			choice{kms: []endpoint{{Name: "localstack", URL: "http://127.0.0.1:1"}}, all: []string{"dynoxide"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := choose(environment(test.environment...))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("choice = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	tests := []struct {
		name, want  string
		unavailable bool
		environment []string
	}{
		{"unknown engine", `unknown engine "moto"`, false, []string{engineVariable, "moto"}},
		{"unknown endpoint", `no engine brings an endpoint named "moto"`, false, []string{requireVariable, "ministack,moto"}},
		{"engine that is no endpoint", "its endpoints are dynamodb-local and localstack", false, []string{requireVariable, "docker"}},
		{"required but not given", "asks for dynoxide", true,
			[]string{dynamoVariable, "ministack=http://127.0.0.1:1", requireVariable, "ministack,dynoxide"}},
		{"bad endpoint", dynamoVariable, false, []string{dynamoVariable, "localhost:8000"}},
		{"bad KMS", kmsVariable, false, []string{kmsVariable, "localhost:8000"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := choose(environment(test.environment...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error = %v, want one with %q", err, test.want)
			}
			if _, ok := errors.AsType[*unavailableError](err); ok != test.unavailable {
				t.Errorf("unavailable = %v, want %v", ok, test.unavailable)
			}
		})
	}
}

// Every engine that is preferred exists and can be asked for by each of its endpoints.
func TestEnginesHaveOneList(t *testing.T) {
	engines := (&project{}).engines()
	for _, name := range preference {
		if engines[name] == nil {
			t.Errorf("no engine %s", name)
		}
	}
	if len(engines) != len(preference) {
		t.Errorf("%d engines, %d are in the preference", len(engines), len(preference))
	}
	for name, engine := range provider {
		if engines[engine] == nil {
			t.Errorf("endpoint %s comes from unknown engine %s", name, engine)
		}
	}
}
