package idem_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/idem-go/idem"

// Who may import what: the Lambda binary of somebody who uses one package links nothing of another's needs.
func TestImports(t *testing.T) {
	const sdk, lambda, jsontext = "github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-lambda-go", "github.com/go-json-experiment/json"
	for _, c := range []struct {
		pkg   string
		may   []string // prefixes
		never []string
	}{
		{module, []string{jsontext}, nil},
		{module + "/dynamo", []string{module, jsontext, sdk, "github.com/aws/smithy-go"}, []string{sdk + "/config", sdk + "/feature", sdk + "/service/kms", sdk + "/service/sts"}},
		{module + "/kmsenc", []string{sdk, "github.com/aws/smithy-go"}, []string{sdk + "/config", sdk + "/feature", sdk + "/service/dynamodb", sdk + "/service/sts"}},
		{module + "/lambdawrap", []string{module, jsontext, lambda}, nil},
		{module + "/observe", []string{module, jsontext}, nil},
		{module + "/idemtest", []string{module, jsontext}, nil},
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", c.pkg).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			under := func(prefix string) bool { return dep == prefix || strings.HasPrefix(dep, prefix+"/") }
			if !slices.ContainsFunc(c.may, under) && dep != c.pkg || slices.ContainsFunc(c.never, under) {
				t.Errorf("%s imports %s", c.pkg, dep)
			}
			if strings.HasPrefix(dep, module) && dep != c.pkg && dep != module {
				t.Errorf("%s imports %s of this module", c.pkg, dep)
			}
		}
	}
}

// The root is the product: few names, each with a comment.
func TestExportedNames(t *testing.T) {
	set := token.NewFileSet()
	pkgs, err := parser.ParseDir(set, ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, f := range pkgs["idem"].Files {
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, module)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(comment string, more ...string) {
		for _, n := range more {
			if !token.IsExported(n) {
				continue
			}
			names = append(names, n)
			if comment == "" {
				t.Errorf("%s has no comment", n)
			}
		}
	}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			add(v.Doc+"grouped", v.Names...)
		}
	}
	values(p.Consts)
	values(p.Vars)
	for _, f := range p.Funcs {
		add(f.Doc, f.Name)
	}
	for _, typ := range p.Types {
		add(typ.Doc, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		for _, f := range typ.Funcs {
			add(f.Doc, f.Name)
		}
		for _, m := range typ.Methods {
			if m.Doc == "" && !slices.Contains([]string{"Error", "Unwrap"}, m.Name) {
				t.Errorf("%s.%s has no comment", typ.Name, m.Name)
			}
		}
	}
	if len(names) > 70 {
		t.Errorf("%d exported names, at most 70", len(names))
	}
	t.Logf("%d exported names", len(names))
}
