package main

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The two variables by which a command finds its back ends.
const (
	dynamoVariable = "IDEM_TEST_DYNAMODB"
	kmsVariable    = "IDEM_TEST_KMS"
)

// An endpoint is one service under the name that tests show and that IDEM_TEST_REQUIRE asks for.
type endpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// unnamed is the name of an endpoint that somebody gave as a bare URL.
const unnamed = "endpoint"

var endpointName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// parseEndpoints reads NAME=URL,NAME=URL; a bare URL is called "endpoint". Empty elements are ignored, names are unique.
func parseEndpoints(variable, value string) ([]endpoint, error) {
	var list []endpoint
	for element := range strings.SplitSeq(value, ",") {
		element = strings.TrimSpace(element)
		if element == "" {
			continue
		}
		name, address, named := strings.Cut(element, "=")
		if !named || strings.Contains(name, "://") { // a bare URL may have a = in its query
			name, address = unnamed, element
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%s: %q is no NAME=URL with an http or https URL", variable, element)
		}
		if !endpointName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q is no name for an endpoint", variable, name)
		}
		if slices.ContainsFunc(list, func(e endpoint) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%s: two endpoints named %s", variable, name)
		}
		list = append(list, endpoint{Name: name, URL: address})
	}
	return list, nil
}

func formatEndpoints(list []endpoint) string {
	var elements []string
	for _, e := range list {
		elements = append(elements, e.Name+"="+e.URL)
	}
	return strings.Join(elements, ",")
}

// isLoopback says whether the endpoint is on this machine, and so surely not AWS.
func (e endpoint) isLoopback() bool {
	u, err := url.Parse(e.URL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// A variable is set for the command.
type variable struct{ name, value string }

// variables returns what a command needs to find and to sign for these endpoints, as additions to its environment. What
// is set already stays, except that endpoints are given in their full form. Credentials come as a pair or not at all,
// and never for an endpoint off this machine: that could be AWS, where a profile has to do.
func variables(getenv func(string) string, dynamo, kms []endpoint) []variable {
	var set []variable
	if len(dynamo) > 0 {
		set = append(set, variable{dynamoVariable, formatEndpoints(dynamo)})
	}
	if len(kms) > 0 {
		set = append(set, variable{kmsVariable, formatEndpoints(kms)})
	}
	if slices.ContainsFunc(slices.Concat(dynamo, kms), func(e endpoint) bool { return !e.isLoopback() }) {
		return set
	}
	if getenv("AWS_ACCESS_KEY_ID") == "" && getenv("AWS_SECRET_ACCESS_KEY") == "" {
		set = append(set, variable{"AWS_ACCESS_KEY_ID", "test"}, variable{"AWS_SECRET_ACCESS_KEY", "test"})
	}
	if getenv("AWS_REGION") == "" {
		set = append(set, variable{"AWS_REGION", "eu-central-1"})
	}
	return set
}
