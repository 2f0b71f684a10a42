package sam_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/idem-go/idem/internal/sam"
)

// stack is the template as CloudFormation would deploy it under some parameters: conditions decided, intrinsic functions put in.
// What only AWS knows stands as its expression in angle brackets: <RecordsTable>, <RecordsTable.Arn>, <AWS::Region>.
type stack struct {
	parameters map[string]any
	conditions map[string]any
	mappings   map[string]any
	globals    map[string]any // of functions
	resources  map[string]any
	refused    []string // assertions of rules that do not hold
}

// whole is what the examples need; DeployExample alone has a default without which the rules refuse a stack.
var whole = map[string]any{"ProviderUrl": "https://psp.example"}

func deploy(t *testing.T, parameters map[string]any) *stack {
	t.Helper()
	text, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	document := plain(t, text)
	s := &stack{parameters: map[string]any{}, mappings: section(document, "Mappings")}
	for name, p := range section(document, "Parameters") {
		s.parameters[name] = p.(map[string]any)["Default"]
	}
	for name, v := range parameters {
		if _, known := s.parameters[name]; !known {
			t.Fatalf("the template has no parameter %s", name)
		}
		s.parameters[name] = v
	}
	s.conditions = section(document, "Conditions")
	for name, rule := range section(document, "Rules") {
		if when, ok := section(rule, "RuleCondition"), true; len(when) > 0 {
			if ok = s.resolve(when) == true; !ok {
				continue
			}
		}
		for _, a := range rule.(map[string]any)["Assertions"].([]any) {
			if s.resolve(section(a, "Assert")) != true {
				s.refused = append(s.refused, fmt.Sprint(name, ": ", section(a)["AssertDescription"]))
			}
		}
	}
	s.globals = section(s.resolve(section(document, "Globals", "Function")))
	s.resources = map[string]any{}
	for name, r := range section(document, "Resources") {
		if c, ok := section(r)["Condition"].(string); ok && s.resolve(s.conditions[c]) != true {
			continue
		}
		s.resources[name] = s.resolve(r)
	}
	return s
}

// plain reads YAML with CloudFormation's short forms as their long ones: !Ref X is {Ref: X}, !GetAtt A.B is {Fn::GetAtt: A.B}.
func plain(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		t.Fatal(err)
	}
	lengthen(&node)
	var document map[string]any
	if err := node.Decode(&document); err != nil {
		t.Fatal(err)
	}
	return document
}

func lengthen(n *yaml.Node) {
	for _, c := range n.Content {
		lengthen(c)
	}
	if !strings.HasPrefix(n.Tag, "!") || strings.HasPrefix(n.Tag, "!!") {
		return
	}
	name := strings.TrimPrefix(n.Tag, "!")
	if name != "Ref" && name != "Condition" {
		name = "Fn::" + name
	}
	inner := *n
	inner.Tag = map[yaml.Kind]string{yaml.ScalarNode: "!!str", yaml.SequenceNode: "!!seq", yaml.MappingNode: "!!map"}[n.Kind]
	*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, &inner}}
}

// gone is what {Ref: AWS::NoValue} leaves.
var gone = new(struct{ _ byte })

func (s *stack) resolve(v any) any {
	switch v := v.(type) {
	case []any:
		var out []any
		for _, x := range v {
			if x = s.resolve(x); x != any(gone) {
				out = append(out, x)
			}
		}
		return out
	case map[string]any:
		if name, argument, ok := intrinsic(v); ok {
			return s.call(name, argument)
		}
		out := make(map[string]any, len(v))
		for k, x := range v {
			if x = s.resolve(x); x != any(gone) {
				out[k] = x
			}
		}
		return out
	}
	return v
}

func intrinsic(m map[string]any) (name string, argument any, ok bool) {
	if len(m) != 1 {
		return "", nil, false
	}
	for name, argument = range m {
	}
	_, text := argument.(string)
	return name, argument, name == "Ref" || strings.HasPrefix(name, "Fn::") || name == "Condition" && text
}

func (s *stack) call(name string, argument any) any {
	list, _ := argument.([]any)
	switch name {
	case "Ref":
		if argument == "AWS::NoValue" {
			return gone
		}
		if v, ok := s.parameters[argument.(string)]; ok {
			return v
		}
		return fmt.Sprintf("<%v>", argument)
	case "Fn::GetAtt", "Fn::Sub":
		return fmt.Sprintf("<%v>", argument)
	case "Condition":
		return s.resolve(s.conditions[argument.(string)])
	case "Fn::Equals":
		return fmt.Sprint(s.resolve(list[0])) == fmt.Sprint(s.resolve(list[1]))
	case "Fn::Not":
		return s.resolve(list[0]) == false
	case "Fn::If":
		if s.resolve(s.conditions[list[0].(string)]) == true {
			return s.resolve(list[1])
		}
		return s.resolve(list[2])
	case "Fn::FindInMap":
		key := fmt.Sprint(s.resolve(list[1]))
		v, ok := section(s.mappings, list[0].(string), key)[list[2].(string)]
		if !ok {
			return fmt.Sprintf("<no %v for %s>", list[2], key)
		}
		return v
	}
	panic("stack: intrinsic function " + name)
}

// section is the mapping at the path, nil where there is none.
func section(v any, path ...string) map[string]any {
	m, _ := v.(map[string]any)
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// properties of a resource; functions have those of Globals as well.
func (s *stack) properties(name string) map[string]any {
	out := map[string]any{}
	if s.kind(name) == "AWS::Serverless::Function" {
		maps.Copy(out, s.globals)
	}
	maps.Copy(out, section(s.resources[name], "Properties"))
	return out
}

func (s *stack) kind(name string) string {
	kind, _ := section(s.resources[name])["Type"].(string)
	return kind
}

// of are the names of the resources of a type, sorted.
func (s *stack) of(kind string) []string {
	var names []string
	for name := range s.resources {
		if s.kind(name) == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// file reads a file of the project's root.
func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// list is a YAML list, or the one thing that stands in its place, as policies allow.
func list(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, fmt.Sprint(x))
		}
	case nil:
	default:
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func TestStore(t *testing.T) {
	s := deploy(t, map[string]any{"DeployExample": "false"})
	if len(s.refused) > 0 {
		t.Errorf("refused: %q", s.refused)
	}
	want := []string{"ClientPolicy", "ClientPolicyParameter", "KeyArnParameter", "RecordsKey", "RecordsKeyAlias", "RecordsTable", "RecordsThrottlesAlarm", "TableNameParameter"}
	if got := slices.Sorted(maps.Keys(s.resources)); !slices.Equal(got, want) {
		t.Errorf("without examples: %q, want %q", got, want)
	}
}

func TestRules(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:111122223333:calls"
	for _, c := range []struct {
		name       string
		parameters map[string]any
		refused    int
	}{
		{"examples with a provider", whole, 0},
		{"examples without a provider", nil, 1},
		{"examples in a namespace that they do not seal in", map[string]any{"ProviderUrl": "https://psp.example", "Namespace": "other"}, 1},
		{"a namespace of one's own", map[string]any{"DeployExample": "false", "Namespace": "other"}, 0},
		{"concurrency that no mapping can have", map[string]any{"ProviderUrl": "https://psp.example", "QueueConcurrency": 1}, 1},
		{"production", map[string]any{"DeployExample": "false", "Stage": "prod", "AlarmTopicArn": topic}, 0},
		{"production that nobody watches", map[string]any{"DeployExample": "false", "Stage": "prod"}, 1},
		{"production that may be deleted", map[string]any{"DeployExample": "false", "Stage": "prod", "AlarmTopicArn": topic, "DeletionProtection": "false"}, 1},
	} {
		if s := deploy(t, c.parameters); len(s.refused) != c.refused {
			t.Errorf("%s: refused %q, want %d", c.name, s.refused, c.refused)
		}
	}
}

// What is deployed by samconfig.toml: its overrides are parameters.
func TestSamconfigNamesParameters(t *testing.T) {
	s := deploy(t, nil)
	var found int
	for line := range strings.Lines(file(t, "samconfig.toml")) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "parameter_overrides = ")
		if !ok {
			continue
		}
		for pair := range strings.FieldsSeq(strings.Trim(value, `"`)) {
			found++
			if name, _, _ := strings.Cut(pair, "="); s.parameters[name] == nil {
				t.Errorf("no parameter %s", name)
			}
		}
	}
	if found == 0 {
		t.Error("no parameter_overrides")
	}
}
