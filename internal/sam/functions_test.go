package sam_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// programs are what the functions run.
var programs = map[string]string{
	"PaymentFunction":      "examples/payment",
	"PaymentQueueFunction": "examples/paymentqueue",
}

func TestFunctionsAreKnown(t *testing.T) {
	s := deploy(t, whole)
	for _, name := range s.of("AWS::Serverless::Function") {
		if programs[name] == "" {
			t.Errorf("%s: which program does it run?", name)
		}
		if m := section(s.resources[name], "Metadata"); m["BuildMethod"] != "makefile" {
			t.Errorf("%s: BuildMethod %v", name, m["BuildMethod"])
		}
		p := s.properties(name)
		if p["Runtime"] != "provided.al2023" || p["Handler"] != "bootstrap" || p["CodeUri"] != "." || len(list(p["Architectures"])) != 1 {
			t.Errorf("%s: runtime %v, handler %v, source %v, architectures %v", name, p["Runtime"], p["Handler"], p["CodeUri"], p["Architectures"])
		}
	}
	if got := len(s.of("AWS::Serverless::Function")); got != len(programs) {
		t.Errorf("%d functions, want %d", got, len(programs))
	}
}

// The environment is what the program reads: a variable that nobody reads looks like a setting.
func TestFunctionsHaveTheirEnvironment(t *testing.T) {
	s := deploy(t, whole)
	for name, program := range programs {
		f, err := parser.ParseFile(token.NewFileSet(), "../../"+program+"/main.go", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		read := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || fmt.Sprint(fun.X, ".", fun.Sel) != "os.Getenv" && fmt.Sprint(fun.X, ".", fun.Sel) != "os.LookupEnv" {
				return true
			}
			variable, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			read[variable] = true
			return true
		})
		set := section(s.properties(name), "Environment", "Variables")
		for variable := range set {
			if !read[variable] {
				t.Errorf("%s: %s is set, and %s does not read it", name, variable, program)
			}
		}
		for variable := range read {
			if set[variable] == nil || set[variable] == "" {
				t.Errorf("%s: %s reads %s, which is not set", name, program, variable)
			}
		}
	}
}

// elfMachines are Lambda's architectures by GOARCH.
var elfMachines = map[string]struct {
	lambda  string
	machine elf.Machine
}{"arm64": {"arm64", elf.EM_AARCH64}, "amd64": {"x86_64", elf.EM_X86_64}}

// sam build calls the target build-<LogicalId>. What make would run is asked of make itself.
func TestFunctionsHaveTheirTarget(t *testing.T) {
	s := deploy(t, whole)
	for name, program := range programs {
		dry := exec.CommandContext(t.Context(), "make", "--dry-run", "--no-print-directory", "-C", "../..", "build-"+name, "ARTIFACTS_DIR=/artifacts")
		out, err := dry.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("no make here: SAM needs it, too")
		}
		if err != nil {
			t.Errorf("make build-%s: %v\n%s", name, err, out)
			continue
		}
		command := strings.Join(strings.Fields(string(out)), " ")
		for _, want := range []string{"CGO_ENABLED=0", "GOOS=linux", "-trimpath", "-buildvcs=false", `-o "/artifacts/bootstrap"`} {
			if !strings.Contains(command, want) {
				t.Errorf("make build-%s has no %s: %s", name, want, command)
			}
		}
		if !strings.HasSuffix(command, " ./"+program) {
			t.Errorf("make build-%s does not build %s: %s", name, program, command)
		}
		_, arch, _ := strings.Cut(command, "GOARCH=")
		arch, _, _ = strings.Cut(arch, " ")
		if want := list(s.properties(name)["Architectures"]); !slices.Equal(want, []string{elfMachines[arch].lambda}) {
			t.Errorf("make build-%s is for %s, the template says %v", name, arch, want)
		}
	}
}

// What sam build has left, if it was run, is for the template's architecture: SAM does not compare them.
func TestBuiltArchitecture(t *testing.T) {
	s := deploy(t, whole)
	for name := range programs {
		f, err := elf.Open(filepath.Join("../../.aws-sam/build", name, "bootstrap"))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("nothing built: run sam build")
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		arch := list(s.properties(name)["Architectures"])[0]
		if arch == "x86_64" {
			arch = "amd64"
		}
		if want := elfMachines[arch].machine; f.Machine != want {
			t.Errorf("%s is for %v, the template says %v", name, f.Machine, want)
		}
	}
}

// mapping is an event source mapping of a function, whatever its type.
type mapping struct {
	function, name, kind string
	properties           map[string]any
}

// batched are the sources that bring batches, and answer to failures of single items.
var batched = []string{"SQS", "Kinesis", "DynamoDB", "MSK", "SelfManagedKafka"}

func mappings(s *stack) []mapping {
	var all []mapping
	for _, f := range s.of("AWS::Serverless::Function") {
		for name, e := range section(s.properties(f), "Events") {
			kind := fmt.Sprint(section(e)["Type"])
			if slices.Contains(batched, kind) {
				all = append(all, mapping{f, name, kind, section(e, "Properties")})
			}
		}
	}
	for _, name := range s.of("AWS::Lambda::EventSourceMapping") {
		p := s.properties(name)
		all = append(all, mapping{fmt.Sprint(p["FunctionName"]), name, "raw", p})
	}
	return all
}

// A failure that the mapping does not ask for is a message that is deleted.
func TestMappingsReportFailures(t *testing.T) {
	all := mappings(deploy(t, whole))
	for _, m := range all {
		if !slices.Equal(list(m.properties["FunctionResponseTypes"]), []string{"ReportBatchItemFailures"}) {
			t.Errorf("%s of %s reports no failures", m.name, m.function)
		}
	}
	if len(all) != 1 {
		t.Errorf("%d mappings, want the queue's", len(all))
	}
}

// allowed are the values that a parameter may have.
func allowed(t *testing.T, parameter string) []any {
	t.Helper()
	values, _ := section(plain(t, []byte(file(t, "template.yaml"))), "Parameters", parameter)["AllowedValues"].([]any)
	if len(values) == 0 {
		t.Fatalf("%s has no AllowedValues", parameter)
	}
	return values
}

// number is a whole number of the template, 0 where there is none.
func number(t *testing.T, what string, v any) int {
	t.Helper()
	if v == nil {
		return 0
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return n
}

// duration reads one out of the source of the queue's function.
func duration(t *testing.T, pattern string, unit time.Duration) time.Duration {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(file(t, programs["PaymentQueueFunction"]+"/main.go"))
	if m == nil {
		t.Fatalf("no %s in the queue's function", pattern)
	}
	return time.Duration(number(t, pattern, m[1])) * unit
}

// The receive budget: a queue is not visible while its function may still run, for every timeout that may be chosen, and what is in
// doubt is settled before its messages are given up.
func TestQueueOutlastsItsFunction(t *testing.T) {
	settle := duration(t, `idem\.Reconcile\((\d+)\*time\.Minute`, time.Minute)
	retain := duration(t, `const retain = (\d+) \* 24 \* time\.Hour`, 24*time.Hour)
	for _, v := range allowed(t, "FunctionTimeout") {
		s := deploy(t, map[string]any{"ProviderUrl": "https://psp.example", "FunctionTimeout": v})
		for _, m := range mappings(s) {
			timeout, window := number(t, "Timeout", s.properties(m.function)["Timeout"]), number(t, "window", m.properties["MaximumBatchingWindowInSeconds"])
			queue := s.properties(resource(m.properties["Queue"]))
			visible := number(t, "VisibilityTimeout", queue["VisibilityTimeout"])
			if timeout != v || timeout < 1 || timeout > 900 {
				t.Errorf("timeout %d, want %v", timeout, v)
			}
			if visible < 6*timeout+window || visible > 12*60*60 {
				t.Errorf("timeout %d s, batching window %d s: visible again after %d s", timeout, window, visible)
			}
			redrive := section(queue, "RedrivePolicy")
			receives := number(t, "maxReceiveCount", redrive["maxReceiveCount"])
			if budget := time.Duration((receives-1)*visible) * time.Second; receives < 5 || budget < settle+time.Duration(timeout)*time.Second {
				t.Errorf("timeout %d s: %d receives in %v, a doubt takes %v to settle", timeout, receives, budget, settle)
			}
			dead := s.properties(resource(redrive["deadLetterTargetArn"]))
			queued, given := number(t, "retention", queue["MessageRetentionPeriod"]), number(t, "retention", dead["MessageRetentionPeriod"])
			if given <= queued || time.Duration(queued+given)*time.Second >= retain {
				t.Errorf("messages live %d s and, given up, %d s; outcomes are remembered for %v", queued, given, retain)
			}
		}
	}
}

// One bound without the other makes throttled deliveries, which use up receives.
func TestQueueConcurrencyIsBoundTwiceOrNever(t *testing.T) {
	for _, n := range []int{0, 2, 1000} {
		s := deploy(t, map[string]any{"ProviderUrl": "https://psp.example", "QueueConcurrency": n})
		for _, m := range mappings(s) {
			reserved, most := s.properties(m.function)["ReservedConcurrentExecutions"], section(m.properties, "ScalingConfig")["MaximumConcurrency"]
			if reserved != most || (n == 0) != (reserved == nil) || n != 0 && reserved != n {
				t.Errorf("QueueConcurrency %d: %v reserved, the mapping's bound is %v", n, reserved, most)
			}
		}
	}
}

func TestFunctionsLogToTheirGroup(t *testing.T) {
	s := deploy(t, whole)
	for name := range programs {
		group := resource(section(s.properties(name), "LoggingConfig")["LogGroup"])
		if s.kind(group) != "AWS::Logs::LogGroup" || s.properties(group)["RetentionInDays"] == nil {
			t.Errorf("%s logs to %q, which has no retention here", name, group)
		}
	}
}

// resource is the name of the one that <Name> or <Name.Attribute> stands for.
func resource(v any) string {
	name, _, _ := strings.Cut(strings.Trim(fmt.Sprint(v), "<>"), ".")
	return name
}

// Beside the client policy, a role is Lambda's alone, and may write to its log and take from its queue.
func TestRolesAreNarrow(t *testing.T) {
	s := deploy(t, whole)
	for name := range programs {
		role := s.properties(resource(s.properties(name)["Role"]))
		trust := statements(section(role, "AssumeRolePolicyDocument"))
		if got, want := fmt.Sprint(trust), "[map[Action:sts:AssumeRole Effect:Allow Principal:map[Service:lambda.amazonaws.com]]]"; got != want {
			t.Errorf("%s is trusted to %s, want %s", name, got, want)
		}
		log := fmt.Sprintf("<%s.Arn>", resource(section(s.properties(name), "LoggingConfig")["LogGroup"]))
		want := []string{"logs:CreateLogStream " + log, "logs:PutLogEvents " + log}
		for _, m := range mappings(s) {
			for _, a := range []string{"DeleteMessage", "GetQueueAttributes", "ReceiveMessage"} {
				if m.function == name {
					want = append(want, fmt.Sprint("sqs:", a, " ", m.properties["Queue"]))
				}
			}
		}
		var got []string
		policies, _ := role["Policies"].([]any)
		for _, p := range policies {
			for _, st := range statements(section(p, "PolicyDocument")) {
				for _, a := range list(st["Action"]) {
					for _, r := range list(st["Resource"]) {
						got = append(got, fmt.Sprint(a, " ", r))
					}
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s may %q, want %q", name, got, want)
		}
	}
}

// Other stacks find what the functions here are given.
func TestParametersAreTheStores(t *testing.T) {
	s := deploy(t, whole)
	want := map[string]any{"IDEM_TABLE": "<RecordsTable>", "IDEM_KMS_KEY": "<RecordsKey.Arn>", "PROVIDER_URL": whole["ProviderUrl"]}
	for name := range programs {
		if got := section(s.properties(name), "Environment", "Variables"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	want = map[string]any{
		"<table>": want["IDEM_TABLE"], "<kms-key>": want["IDEM_KMS_KEY"], "<client-policy>": "<ClientPolicy>",
	}
	got := map[string]any{}
	for _, name := range s.of("AWS::SSM::Parameter") {
		p := s.properties(name)
		got[strings.Replace(fmt.Sprint(p["Name"]), "/idem/${AWS::StackName}/", "", 1)] = p["Value"]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("parameters = %v, want %v", got, want)
	}
}
