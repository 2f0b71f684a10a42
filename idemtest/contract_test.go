package idemtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// contract says for each sentence of the comments of idem.Store, of its methods and of idem.Lister's which subtests check it. The
// comments and the suite cannot drift apart: a sentence without a row, and a row without its sentence, fail the test below.
var contract = []struct {
	sentence string
	subtests []string
}{
	{"Store is a compare-and-swap register per [ID].",
		[]string{"create stores where nothing is", "swap stores over the version seen", "swap leaves another version and returns it"}},
	{"It knows nothing of leases, owners or recovery: the protocol is above it.",
		[]string{"leases and owners do not matter"}},
	{"The suite in package idemtest checks every sentence here.",
		nil}, // TestContract
	{"Create stores r iff no record holds r.ID.",
		[]string{"create stores where nothing is", "create leaves a holder and returns it", "one of many creates owns and all see it"}},
	{"Swap stores r iff the record that holds r.ID carries the version seen, and not if there is none.",
		[]string{"swap stores over the version seen", "swap leaves another version and returns it", "swap creates nothing", "one of many swaps wins and all see it"}},
	{"Both return the record that holds the ID afterwards: it is the caller's own iff its Version is r.Version, whether or not the write was refused on the way.",
		[]string{"create leaves a holder and returns it", "swap leaves another version and returns it", "a write sent again is still one's own", "a lost answer is not lost"}},
	{"A refusal is not an error.",
		[]string{"create leaves a holder and returns it", "swap leaves another version and returns it", "swap creates nothing"}},
	{"Where no record holds the ID, the one returned has the zero State.",
		[]string{"swap creates nothing"}},
	{"Load returns the record that holds the ID, or one with the zero State.",
		[]string{"an absent ID loads as the zero state", "create stores where nothing is", "swap stores over the version seen"}},
	{"All calls on one ID are linearizable, also across processes; a write that was answered is durable.",
		[]string{"histories are linearizable", "histories of a broken network are linearizable", "one of many creates owns and all see it", "one of many swaps wins and all see it", "another process sees every answered write"}},
	{"Every record returned, an absent one included, has in At the store's own clock at the time of the answer, never the caller's; it is zero if the store told none.",
		[]string{"every answer tells the store's clock", "the caller's clock is not told", "the clock told is that of the answer"}},
	{"Every field comes back as it was written: bytes exactly, times to the millisecond, durations to the second, except that Expires may be rounded up to the second; nil and empty bytes are the same.",
		[]string{"every field comes back", "bytes come back exactly", "times and durations keep their resolution", "swap leaves nothing of the old record"}},
	{"Two IDs are the same only if tenant, operation and key all are.",
		[]string{"IDs that differ in one part are different", "IDs that join to one text are different"}},
	{"Swap keeps what a newer version of this library added to a record; a record in a format or a state that is not known is an error.",
		[]string{"swap keeps an unknown field", "an unknown state or format is an error"}},
	{"A large receipt may be kept beside its record: Receipt then has a Ref, and need not have its Bytes.",
		[]string{"large receipts come back"}},
	{"Fetch returns the record with them, and one that has no Ref as it is.",
		[]string{"large receipts come back", "fetch leaves other records as they are"}},
	{"A write keeps what the Ref that it passes on stands for; Bytes count more than a Ref.",
		[]string{"a receipt passed on is kept"}},
	{"An error of Fetch that is not retryable says that the bytes are lost, or are not those that were written.",
		[]string{"a torn receipt is an error"}},
	{"An error that wraps [ErrAmbiguous] says that the write may have been applied, or may yet be.",
		[]string{"what may have been applied is ambiguous", "histories of a broken network are linearizable"}},
	{"Any other error says that it was not and never will be.",
		[]string{"a done context is answered promptly", "a failing service does not hold a done context", "a write of another generation is refused", "histories of a broken network are linearizable"}},
	{"The store repeats what fails for a passing reason: few times and shortly for a Pending record, as long as ctx allows for every other.",
		[]string{"a passing failure is not the caller's", "a pending write is given up soon", "a lost answer is not lost"}},
	{"A caller whose context is done gets an answer promptly.",
		[]string{"a done context is answered promptly", "a failing service does not hold a done context"}},
	{"An error with a method Retryable() bool that returns false says that sending the same again is no use.",
		[]string{"what is no use once is no use again"}},
	{"A store removes a record only after its Expires, and never one without.",
		[]string{"only what is past its expiry is removed"}},
	{"It refuses a write whose Generation is not the table's, with an error.",
		[]string{"a write of another generation is refused"}},
	{"A store neither changes nor keeps the bytes it is given.",
		[]string{"bytes are neither changed nor kept"}},
	{"All methods may be called concurrently.",
		[]string{"histories are linearizable", "one of many creates owns and all see it", "one of many swaps wins and all see it"}},

	{"Generation returns the table's incarnation, as known to this process a short time ago, usually without a request.",
		[]string{"the generation is told"}},

	{"Lister is what sweeps and operators need of a store on top.",
		nil},
	{`List gives the records of an operation ("" for all) that are in one of the states (none given: all).`,
		[]string{"list filters by operation and state"}},
	{"It is not a snapshot: a record is to be loaded again before it is acted upon.",
		nil}, // a warning to callers
	{"A record that cannot be read is an error that comes with its ID, as far as that can be read, and the iteration goes on; it ends with any other error.",
		[]string{"a list goes on past what cannot be read", "list filters by operation and state"}},
}

func TestContract(t *testing.T) {
	said := sentences(t, "Store", "Lister")
	named := make(map[string]bool)
	for _, c := range contract {
		switch n := count(said, c.sentence); {
		case n == 0:
			t.Errorf("no comment says any more: %s", c.sentence)
		case n > 1:
			t.Errorf("said %d times: %s", n, c.sentence)
		}
		for _, name := range c.subtests {
			named[name] = true
			if !slices.ContainsFunc(subtests, func(s subtest) bool { return s.name == name }) {
				t.Errorf("there is no subtest %q", name)
			}
		}
	}
	for _, s := range said {
		n := 0
		for _, c := range contract {
			if c.sentence == s {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d rows, want 1, for: %s", n, s)
		}
	}
	for _, s := range subtests {
		if !named[s.name] {
			t.Errorf("no sentence asks for the subtest %q", s.name)
		}
	}
}

func count(said []string, sentence string) (n int) {
	for _, s := range said {
		if s == sentence {
			n++
		}
	}
	return n
}

// sentences are those of the comments of interfaces in ../store.go, and of their methods.
func sentences(t *testing.T, interfaces ...string) (said []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../store.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ends := regexp.MustCompile(`\.( |$)`)
	split := func(c *ast.CommentGroup) {
		text := strings.Join(strings.Fields(c.Text()), " ")
		for text != "" {
			end := len(text)
			if at := ends.FindStringIndex(text); at != nil {
				end = at[1]
			}
			said = append(said, strings.TrimSpace(text[:end]))
			text = text[end:]
		}
	}
	for _, name := range interfaces {
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				return true
			}
			spec := d.Specs[0].(*ast.TypeSpec)
			i, ok := spec.Type.(*ast.InterfaceType)
			if !ok || spec.Name.Name != name {
				return false
			}
			split(d.Doc)
			for _, m := range i.Methods.List {
				split(m.Doc)
			}
			return false
		})
	}
	if len(said) == 0 {
		t.Fatalf("no comments of %v in ../store.go", interfaces)
	}
	return said
}
