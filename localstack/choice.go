package main

import (
	"fmt"
	"slices"
	"strings"
)

// The variables that choose engines.
const (
	engineVariable    = "IDEM_ENGINE"       // one engine
	kmsEngineVariable = "IDEM_KMS"          // one that has a KMS and no DynamoDB: localStackName is the only one
	requireVariable   = "IDEM_TEST_REQUIRE" // names of endpoints: tests fail, and do not skip, where one is missing
)

// preference is the order in which engines are tried when nobody has asked for one: closest to AWS first, then by what
// they have (ministack has a KMS), and last the one that needs a patch of ours.
var preference = []string{"docker", "ministack", "dynoxide", "dynalite"}

// provider says which engine brings an endpoint. That of localStackName comes with docker too.
var provider = map[string]string{
	"dynamodb-local": "docker",
	"ministack":      "ministack",
	"dynoxide":       "dynoxide",
	"dynalite":       "dynalite",
	localStackName:   localStackName,
}

// A choice is what the environment asks for. Of dynamo, all and first exactly one is not empty.
type choice struct {
	dynamo []endpoint // given by hand: nothing is started
	all    []string   // engines that must start, every one
	first  []string   // engines of which the first that can be had is started
	also   string     // an endpoint that is needed with first: an engine of this name starts unless first has brought it
	kms    []endpoint // given by hand, whatever is started
}

// choose reads the environment only; nothing is probed or started.
func choose(getenv func(string) string) (choice, error) {
	var c choice
	var err error
	if c.dynamo, err = parseEndpoints(dynamoVariable, getenv(dynamoVariable)); err != nil {
		return choice{}, err
	}
	if c.kms, err = parseEndpoints(kmsVariable, getenv(kmsVariable)); err != nil {
		return choice{}, err
	}
	required := splitNames(getenv(requireVariable))
	switch name := strings.TrimSpace(getenv(kmsEngineVariable)); name {
	case "":
	case localStackName:
		required = append(required, name)
	default:
		return choice{}, fmt.Errorf("%s: unknown engine %q, known is %s", kmsEngineVariable, name, localStackName)
	}
	if len(c.dynamo) > 0 {
		for _, name := range required {
			if !has(c.dynamo, name) && !has(c.kms, name) {
				return choice{}, &unavailableError{fmt.Sprintf("%s is asked for, which is neither in %s nor in %s: where %s is set, nothing is started",
					name, dynamoVariable, kmsVariable, dynamoVariable)}
			}
		}
		return c, nil
	}
	for _, name := range required {
		engine, ok := provider[name]
		switch {
		case name == "docker":
			return choice{}, fmt.Errorf("%s: docker is an engine, its endpoints are dynamodb-local and localstack", requireVariable)
		case !ok:
			return choice{}, fmt.Errorf("%s: no engine brings an endpoint named %q", requireVariable, name)
		case name == localStackName:
			// Below: another one may bring it.
		case !slices.Contains(c.all, engine):
			c.all = append(c.all, engine)
		}
	}
	if name := strings.TrimSpace(getenv(engineVariable)); name != "" {
		if name == localStackName {
			return choice{}, fmt.Errorf("%s: %s without Docker has no DynamoDB, ask for it with %s", engineVariable, name, kmsEngineVariable)
		}
		if !slices.Contains(preference, name) {
			return choice{}, fmt.Errorf("%s: unknown engine %q, known are %s", engineVariable, name, strings.Join(preference, ", "))
		}
		if !slices.Contains(c.all, name) {
			c.all = append(c.all, name)
		}
	}
	needed := slices.Contains(required, localStackName) && !has(c.kms, localStackName) && !slices.Contains(c.all, "docker")
	switch {
	case len(c.all) > 0 && needed:
		c.all = append(c.all, localStackName)
	case len(c.all) == 0:
		c.first = preference
		if needed {
			c.also = localStackName
		}
	}
	return c, nil
}

func has(list []endpoint, name string) bool {
	return slices.ContainsFunc(list, func(e endpoint) bool { return e.Name == name })
}

func splitNames(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}
