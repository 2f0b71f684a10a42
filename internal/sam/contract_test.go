package sam_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/sam"
	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// constants are the string constants of a package's source, its tests apart.
func constants(t *testing.T, folder string) map[string]string {
	t.Helper()
	pkgs, err := parser.ParseDir(token.NewFileSet(), folder, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range pkgs {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				group, ok := d.(*ast.GenDecl)
				if !ok || group.Tok != token.CONST {
					continue
				}
				for _, spec := range group.Specs {
					v := spec.(*ast.ValueSpec)
					for i := range v.Values {
						if l, ok := v.Values[i].(*ast.BasicLit); ok && l.Kind == token.STRING {
							found[v.Names[i].Name], _ = strconv.Unquote(l.Value)
						}
					}
				}
			}
		}
	}
	return found
}

// The table's names are those that the store writes. That it writes under no others in the vectors is dynamo's own test.
func TestTableIsTheStores(t *testing.T) {
	text, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	table, ttl, err := sam.Table(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	code := constants(t, "../../dynamo")
	types := map[string]string{} // of the attributes in the vectors: "pk": "S"
	for line := range strings.Lines(file(t, "dynamo/testdata/items.txt")) {
		if f := strings.Fields(line); len(f) >= 2 && len(f[0]) == 2 && len(f[1]) <= 4 && f[1] == strings.ToUpper(f[1]) {
			if f[1] != "NULL" {
				types[f[0]] = f[1]
			}
		}
	}
	if ttl != code["attrExpires"] || types[ttl] != "N" {
		t.Errorf("TTL is %s, the store writes %s as %s", ttl, code["attrExpires"], types[ttl])
	}
	if len(table.KeySchema) != 1 || *table.KeySchema[0].AttributeName != code["attrKey"] {
		t.Errorf("key = %+v, the store's is %s", table.KeySchema, code["attrKey"])
	}
	if len(table.GlobalSecondaryIndexes) != 1 {
		t.Fatalf("%d indices, the store uses one", len(table.GlobalSecondaryIndexes))
	}
	index := table.GlobalSecondaryIndexes[0]
	var keys []string
	for _, k := range index.KeySchema {
		keys = append(keys, *k.AttributeName)
	}
	if *index.IndexName != code["index"] || !slices.Equal(keys, []string{code["attrShard"], code["attrIndexSince"]}) {
		t.Errorf("index %s of %v, the store's is %s of %s and %s", *index.IndexName, keys, code["index"], code["attrShard"], code["attrIndexSince"])
	}
	for _, d := range table.AttributeDefinitions {
		if types[*d.AttributeName] != string(d.AttributeType) {
			t.Errorf("attribute %s is %s, the store writes %q", *d.AttributeName, d.AttributeType, types[*d.AttributeName])
		}
	}
}

// methods of an interface, as actions of a service. An API is all that a package can call.
func methods[API any](service string) []string {
	var actions []string
	for m := range reflect.TypeFor[API]().Methods() {
		actions = append(actions, service+":"+m.Name)
	}
	return actions
}

func actions(document map[string]any, effect string) []string {
	var all []string
	for _, s := range statements(document) {
		if s["Effect"] == effect {
			all = append(all, list(s["Action"])...)
		}
	}
	slices.Sort(all)
	return all
}

func clientPolicy(s *stack) map[string]any {
	return section(s.properties("ClientPolicy"), "PolicyDocument")
}

func keyPolicy(s *stack) map[string]any { return section(s.properties("RecordsKey"), "KeyPolicy") }

func TestClientPolicyIsTheCalls(t *testing.T) {
	s := deploy(t, whole)
	want := slices.Concat(methods[dynamo.API]("dynamodb"), methods[kmsenc.API]("kms"))
	slices.Sort(want)
	if got := actions(clientPolicy(s), "Allow"); !slices.Equal(got, want) {
		t.Errorf("actions = %q, want %q", got, want)
	}
	for _, st := range statements(clientPolicy(s)) {
		for _, r := range list(st["Resource"]) {
			if r != "<RecordsTable.Arn>" && r != "<RecordsKey.Arn>" {
				t.Errorf("%v is about %s", st["Sid"], r)
			}
		}
	}
	for _, role := range s.of("AWS::IAM::Role") {
		if got := list(s.properties(role)["ManagedPolicyArns"]); !slices.Equal(got, []string{"<ClientPolicy>"}) {
			t.Errorf("%s has %q, want the client policy", role, got)
		}
	}
}

func TestClientWritesRecordsOnly(t *testing.T) {
	s, code := deploy(t, whole), constants(t, "../../dynamo")
	update := func(keys ...string) bool {
		leading := map[string][]string{}
		if len(keys) > 0 {
			leading["dynamodb:LeadingKeys"] = keys
		}
		return allows(clientPolicy(s), request{"dynamodb:UpdateItem", leading})
	}
	var records int
	for line := range strings.Lines(file(t, "dynamo/testdata/items.txt")) {
		quoted, ok := strings.CutPrefix(strings.TrimSpace(line), code["attrKey"]+" S ")
		if !ok {
			continue
		}
		pk, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		if records++; !update(pk) || !update(pk+"#AAAAAAAAAAAAAAAAAAAAAA#0") {
			t.Errorf("the record or a body of %q cannot be written", pk)
		}
	}
	if records == 0 {
		t.Error("no record in the vectors")
	}
	if update(code["genKey"]) || update("1#a#b#c", code["genKey"]) || update() {
		t.Errorf("the control item %q can be written", code["genKey"])
	}
}

// The table denies deletes, whoever asks, but for one role if there is to be one.
func TestTableDeniesDeletes(t *testing.T) {
	const glass = "arn:aws:iam::111122223333:role/break-glass"
	document := func(s *stack) map[string]any {
		return section(s.properties("RecordsTable"), "ResourcePolicy", "PolicyDocument")
	}
	open := deploy(t, map[string]any{"DeployExample": "false", "BreakGlassArn": glass})
	for _, s := range []*stack{deploy(t, whole), open} {
		want := []string{"dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:PartiQLDelete"}
		if got := actions(document(s), "Deny"); !slices.Equal(got, want) {
			t.Errorf("denied = %q, want %q", got, want)
		}
		if got := actions(document(s), "Allow"); got != nil {
			t.Errorf("the table's policy allows %q", got)
		}
	}
	denies := func(s *stack, principal string) bool {
		st := statements(document(s))[0]
		return st["Principal"] == "*" && holds(section(st, "Condition"), request{keys: map[string][]string{"aws:PrincipalArn": {principal}}})
	}
	other := strings.ReplaceAll(glass, "break-glass", "admin")
	if !denies(deploy(t, whole), glass) || !denies(open, other) || denies(open, glass) {
		t.Error("deletes are not denied to all but the break-glass role")
	}
}

func TestKeyPolicy(t *testing.T) {
	s := deploy(t, whole)
	p := s.properties("RecordsKey")
	if p["EnableKeyRotation"] != true {
		t.Error("the key does not rotate")
	}
	resource := section(s.resources["RecordsKey"])
	if resource["DeletionPolicy"] != "Retain" || resource["UpdateReplacePolicy"] != "Retain" {
		t.Error("the key is not retained: without it no result opens")
	}
	use := append(methods[kmsenc.API]("kms"), "kms:ReEncryptFrom", "kms:ReEncryptTo")
	slices.Sort(use)
	for _, st := range statements(keyPolicy(s)) {
		if st["Effect"] != "Allow" || fmt.Sprint(st["Principal"]) != "map[AWS:<arn:${AWS::Partition}:iam::${AWS::AccountId}:root>]" {
			t.Errorf("%v: %v for %v", st["Sid"], st["Effect"], st["Principal"])
		}
		got := list(st["Action"])
		slices.Sort(got)
		if st["Sid"] == "SealAndOpen" && !slices.Equal(got, use) {
			t.Errorf("use = %q, want %q", got, use)
		}
		for _, a := range got {
			if strings.Contains(a, "*") || st["Sid"] != "SealAndOpen" && (slices.Contains(use, a) || strings.HasPrefix(a, "kms:GenerateDataKey") || a == "kms:Encrypt") {
				t.Errorf("%v grants %s", st["Sid"], a)
			}
		}
	}
}

// Every encryption context that kmsenc sends passes, and nothing else does.
func TestKeyPolicyTakesWhatIsSent(t *testing.T) {
	const ns = "billing"
	scopes := []map[string]string{{"operation": "charge"}, {"operation": "charge", "tenant": "acme"}}
	for _, namespace := range []string{"", ns} {
		s := deploy(t, whole)
		if namespace != "" {
			s = deploy(t, map[string]any{"DeployExample": "false", "Namespace": namespace})
		}
		seen := map[string]map[string]string{}
		for _, perTenant := range []bool{false, true} {
			for _, scope := range scopes {
				for _, c := range kmsCalls(t, &kmsenc.Options{Namespace: namespace, PerTenant: perTenant}, scope) {
					for _, r := range c {
						seen[r.action+" "+strings.Join(slices.Sorted(maps.Keys(r.context)), ",")] = r.context
						if !allows(keyPolicy(s), kmsRequest(r.action, r.context)) {
							t.Errorf("the key's policy refuses %s under %v", r.action, r.context)
						}
						if !strings.HasPrefix(r.action, "kms:ReEncrypt") && !allows(clientPolicy(s), kmsRequest(r.action, r.context)) {
							t.Errorf("the client's policy refuses %s under %v", r.action, r.context)
						}
					}
				}
			}
		}
		if len(seen) != 8 { // four actions, with and without a tenant
			t.Errorf("seen %v", slices.Sorted(maps.Keys(seen)))
		}
		good := seen["kms:Decrypt kmsenc,ns,operation,tenant"]
		for _, edit := range []func(map[string]string){
			func(m map[string]string) { clear(m) },
			func(m map[string]string) { delete(m, "kmsenc") },
			func(m map[string]string) { m["kmsenc"] = "2" },
			func(m map[string]string) { delete(m, "ns") },
			func(m map[string]string) { m["ns"] += "x" },
			func(m map[string]string) { delete(m, "operation") },
			func(m map[string]string) { m["more"] = "x" },
		} {
			bad := maps.Clone(good)
			edit(bad)
			for _, a := range []string{"kms:GenerateDataKey", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"} {
				if r := kmsRequest(a, bad); allows(keyPolicy(s), r) || allows(clientPolicy(s), r) {
					t.Errorf("%s is allowed under %v", a, bad)
				}
			}
		}
	}
}

type kmsCall struct {
	action  string
	context map[string]string
}

// kmsCalls are those of a life: seal, open in another process, rewrap.
func kmsCalls(t *testing.T, o *kmsenc.Options, scope map[string]string) (calls [][]kmsCall) {
	t.Helper()
	k := kmstest.New(t)
	old, next := k.CreateKey(), k.CreateKey()
	sealer := func(key string, o kmsenc.Options) *kmsenc.Sealer {
		s, err := kmsenc.New(k, key, &o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seal, err := sealer(old, *o).Prepare(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal(nil, []byte("binding"), []byte("result"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealer(old, *o).Open(t.Context(), scope, nil, []byte("binding"), sealed); err != nil {
		t.Fatal(err)
	}
	after := *o
	after.Retired = []string{old}
	if _, err := sealer(next, after).Rewrap(t.Context(), k, scope, sealed); err != nil {
		t.Fatal(err)
	}
	for _, c := range k.Calls() {
		if c.Operation == "ReEncrypt" {
			calls = append(calls, []kmsCall{{"kms:ReEncryptFrom", c.SourceContext}, {"kms:ReEncryptTo", c.Context}})
		} else {
			calls = append(calls, []kmsCall{{"kms:" + c.Operation, c.Context}})
		}
	}
	return calls
}
