package main

import (
	"errors"
	"reflect"
	"slices"
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
		{"KMS alone", []string{kmsEngineVariable, "localstack"}, choice{first: preference, also: "localstack"}},
		{"KMS alone, required", []string{requireVariable, "localstack"}, choice{first: preference, also: "localstack"}},
		{"KMS with one engine", []string{kmsEngineVariable, "localstack", engineVariable, "dynoxide"}, choice{all: []string{"dynoxide", "localstack"}}},
		{"KMS with all required", []string{requireVariable, "localstack,ministack,dynoxide", kmsEngineVariable, "localstack"},
			choice{all: []string{"ministack", "dynoxide", "localstack"}}},
		{"KMS of the container", []string{requireVariable, "localstack,ministack", engineVariable, "docker"}, choice{all: []string{"ministack", "docker"}}},
		{"containers by endpoint", []string{requireVariable, "dynamodb-local,localstack"}, choice{all: []string{"docker"}}},
		{"given", []string{dynamoVariable, "ministack=http://127.0.0.1:1", engineVariable, "dynoxide"}, choice{dynamo: []endpoint{given}}},
		{"given and required", []string{dynamoVariable, "ministack=http://127.0.0.1:1", requireVariable, "ministack"}, choice{dynamo: []endpoint{given}}},
		{"KMS given", []string{kmsVariable, "localstack=http://127.0.0.1:1", requireVariable, "dynoxide,localstack"},
			choice{kms: []endpoint{{Name: "localstack", URL: "http://127.0.0.1:1"}}, all: []string{"dynoxide"}}},
		{"all given", []string{dynamoVariable, "ministack=http://127.0.0.1:1", kmsVariable, "localstack=http://127.0.0.1:1", kmsEngineVariable, "localstack"},
			choice{dynamo: []endpoint{given}, kms: []endpoint{{Name: "localstack", URL: "http://127.0.0.1:1"}}}},
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
		{"engine without DynamoDB", "ask for it with IDEM_KMS", false, []string{engineVariable, "localstack"}},
		{"unknown engine for KMS", `unknown engine "ministack"`, false, []string{kmsEngineVariable, "ministack"}},
		{"required but not given", "dynoxide is asked for", true,
			[]string{dynamoVariable, "ministack=http://127.0.0.1:1", requireVariable, "ministack,dynoxide"}},
		{"KMS asked for but not given", "localstack is asked for", true,
			[]string{dynamoVariable, "ministack=http://127.0.0.1:1", kmsEngineVariable, "localstack"}},
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

// Every engine that is preferred exists and can be asked for by each of its endpoints. LocalStack without Docker has a
// KMS only and is never preferred.
func TestEnginesHaveOneList(t *testing.T) {
	engines := (&project{}).engines()
	all := append(slices.Clone(preference), localStackName, localKMSName)
	for _, name := range all {
		if engines[name] == nil {
			t.Errorf("no engine %s", name)
		}
	}
	if len(engines) != len(all) {
		t.Errorf("%d engines, %d are known", len(engines), len(all))
	}
	for name, engine := range provider {
		if engines[engine] == nil {
			t.Errorf("endpoint %s comes from unknown engine %s", name, engine)
		}
	}
}
