package sam_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// request is what IAM sees of a call: the action and the condition keys, each with one value or more.
type request struct {
	action string
	keys   map[string][]string
}

// kmsRequest is a KMS call under an encryption context.
func kmsRequest(action string, context map[string]string) request {
	keys := map[string][]string{}
	for name, value := range context {
		keys["kms:EncryptionContext:"+name] = []string{value}
	}
	if len(context) > 0 {
		keys["kms:EncryptionContextKeys"] = slices.Sorted(maps.Keys(context))
	}
	return request{action, keys}
}

// statements of a policy document. It panics at a member that is misspelt, or that allows does not know.
func statements(document map[string]any) []map[string]any {
	known := []string{"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
	var out []map[string]any
	for _, s := range document["Statement"].([]any) {
		for member := range s.(map[string]any) {
			if !slices.Contains(known, member) {
				panic("policy: " + member)
			}
		}
		out = append(out, s.(map[string]any))
	}
	return out
}

// allows is IAM's evaluation for one policy, of what the template uses of its language: exact actions, and the operators below. It
// panics at another operator, so that a policy cannot be judged by half of what it says.
func allows(document map[string]any, r request) bool {
	allowed := false
	for _, s := range statements(document) {
		if !slices.Contains(list(s["Action"]), r.action) || !holds(section(s, "Condition"), r) {
			continue
		}
		if s["Effect"] == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

func holds(condition map[string]any, r request) bool {
	for operator, block := range condition {
		for key, want := range block.(map[string]any) {
			if !matches(operator, r.keys[key], list(want)) {
				return false
			}
		}
	}
	return true
}

func matches(operator string, have, want []string) bool {
	some := func(v string, match func(pattern, v string) bool) bool {
		return slices.ContainsFunc(want, func(w string) bool { return match(w, v) })
	}
	equal := func(w, v string) bool { return w == v }
	like := func(w, v string) bool {
		flat := strings.NewReplacer("/", ":") // "*" of a policy passes over slashes
		ok, err := path.Match(flat.Replace(w), flat.Replace(v))
		return ok && err == nil
	}
	switch operator {
	case "StringEquals":
		return len(have) == 1 && some(have[0], equal)
	case "ForAllValues:StringEquals": // holds where the key is missing
		return !slices.ContainsFunc(have, func(v string) bool { return !some(v, equal) })
	case "ForAllValues:StringLike":
		return !slices.ContainsFunc(have, func(v string) bool { return !some(v, like) })
	case "Null":
		return len(want) == 1 && want[0] == fmt.Sprint(len(have) == 0)
	case "ArnNotLike":
		return len(have) == 0 || !some(have[0], like)
	}
	panic("policy: operator " + operator)
}

func TestEvaluator(t *testing.T) {
	document := map[string]any{"Statement": []any{
		map[string]any{"Effect": "Allow", "Action": []any{"a:Do", "a:See"}, "Condition": map[string]any{
			"StringEquals":              map[string]any{"k": "v"},
			"Null":                      map[string]any{"there": "false"},
			"ForAllValues:StringLike":   map[string]any{"many": []any{"1#*"}},
			"ForAllValues:StringEquals": map[string]any{"names": []any{"x", "y"}},
		}},
		map[string]any{"Effect": "Deny", "Action": "a:See"},
	}}
	good := map[string][]string{"k": {"v"}, "there": {"z"}, "many": {"1#a/b#c", "1#d"}, "names": {"y"}}
	without := func(key string, values ...string) map[string][]string {
		m := maps.Clone(good)
		if delete(m, key); len(values) > 0 {
			m[key] = values
		}
		return m
	}
	for _, c := range []struct {
		name   string
		action string
		keys   map[string][]string
		want   bool
	}{
		{"all holds", "a:Do", good, true},
		{"another action", "a:Undo", good, false},
		{"denied", "a:See", good, false},
		{"another value", "a:Do", without("k", "w"), false},
		{"no value", "a:Do", without("k"), false},
		{"not there", "a:Do", without("there"), false},
		{"one that is not like it", "a:Do", without("many", "1#a", "!gen"), false},
		{"one too many", "a:Do", without("names", "x", "y", "z"), false},
		{"none of many", "a:Do", without("names"), true},
	} {
		if got := allows(document, request{c.action, c.keys}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
