package kmsenc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem/kmsenc"
	"github.com/idem-go/idem/kmsenc/kmstest"
)

// Vectors are sealed texts in testdata/vectors, as this version and every later one has to take them: with "opens" they open,
// as long as anybody has records; with "refused" they never do. Data key and key material are in them, so that other
// implementations can be checked, too.
//
// A new one is a new line in newVectors, and this, which writes the files that are not there:
//
//	go test ./kmsenc -run TestVectors -args -add-vectors
var addVectors = flag.Bool("add-vectors", false, "write vectors that are not there")

// vector is what a file says.
type vector struct {
	what      string
	kind      byte
	namespace string
	tenant    string
	perTenant bool
	keyID     string
	material  []byte
	region    string // of the reader
	retired   bool   // the key is, for the reader
	binding   []byte
	dataKey   []byte
	sealed    []byte
	opens     *string
	refused   string // tampered, refused
}

func (v vector) place() place { return place{tenant: v.tenant, operation: "charge"} }

// sealer gives a sealer that has to take the text, or refuse it.
func (v vector) sealer(t *testing.T) *kmsenc.Sealer {
	k := kmstest.New(t)
	arn := k.ImportKey(v.keyID, v.material)
	if v.region != "" {
		k, arn = k.Replicate(arn, v.region)
	}
	opts := &kmsenc.Options{Namespace: v.namespace, PerTenant: v.perTenant}
	if v.retired {
		opts.Retired, arn = []string{arn}, k.CreateKey()
	}
	return newSealer(t, k, arn, opts)
}

// TestVectors is the promise that what was sealed once can be read.
func TestVectors(t *testing.T) {
	if *addVectors {
		add(t)
	}
	files, err := filepath.Glob("testdata/vectors/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	kinds := make(map[byte]bool)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			v := read(t, file)
			got, err := v.sealer(t).Open(t.Context(), v.place().scope(), nil, v.binding, v.sealed)
			if v.opens == nil {
				mustFail(t, err, map[string]error{"tampered": kmsenc.ErrTampered, "refused": kmsenc.ErrRefused}[v.refused])
				return
			}
			kinds[v.kind] = true
			if err != nil || string(got) != *v.opens {
				t.Fatalf("%q, %v; want %q", got, err, *v.opens)
			}
			if got, err = kmsenc.OpenWith([32]byte(v.dataKey), v.sealed, v.namespace, v.binding); err != nil || string(got) != *v.opens {
				t.Fatalf("under the data key: %q, %v; want %q", got, err, *v.opens)
			}
		})
	}
	for kind := byte(1); kind <= 4; kind++ {
		if !kinds[kind] {
			t.Errorf("no vector of kind %d opens", kind)
		}
	}
}

// A vector is never changed and never removed: somebody may have records like it. A format that changes gets new ones, beside
// these. If this test fails, it is not testdata/vectors.sum that is wrong.
func TestVectorsAreOnlyEverAdded(t *testing.T) {
	sums, err := os.ReadFile("testdata/vectors.sum")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		listed[name] = true
		b, err := os.ReadFile(filepath.Join("testdata/vectors", name))
		if err != nil {
			t.Errorf("%s was removed: %v", name, err)
		} else if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Errorf("%s was changed", name)
		}
	}
	files, err := filepath.Glob("testdata/vectors/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !listed[name] {
			t.Errorf("%s is not in testdata/vectors.sum", name)
		}
	}
}

// read takes a file of "name: value" lines; # begins a comment.
func read(t *testing.T, file string) (v vector) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case !ok:
			t.Fatalf("line %q", line)
		case name == "what", name == "operation":
		case name == "kind":
			v.kind = byte(slices.Index(kindNames, value) + 1)
		case name == "namespace":
			v.namespace = value
		case name == "tenant":
			v.tenant = value
		case name == "per-tenant":
			v.perTenant = value == "yes"
		case name == "key-id":
			v.keyID = value
		case name == "key-material":
			v.material = unhex(value)
		case name == "reader-region":
			v.region = value
		case name == "key-retired":
			v.retired = value == "yes"
		case name == "binding":
			v.binding = unhex(value)
		case name == "data-key":
			v.dataKey = unhex(value)
		case name == "sealed":
			v.sealed = unhex(value)
		case name == "opens":
			s, err := strconv.Unquote(value)
			if err != nil {
				t.Fatal(err)
			}
			v.opens = &s
		case name == "refused":
			v.refused = value
		default:
			t.Fatalf("unknown %q", name)
		}
	}
	return v
}

var kindNames = []string{"result", "failure", "note", "evidence"}

func (v vector) text() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	yes := map[bool]string{true: "yes", false: "no"}
	line("what", v.what)
	line("kind", kindNames[v.kind-1])
	line("namespace", v.namespace)
	line("operation", "charge")
	if v.tenant != "" {
		line("tenant", v.tenant)
	}
	line("per-tenant", yes[v.perTenant])
	line("key-id", v.keyID)
	line("key-material", hex.EncodeToString(v.material))
	line("key-retired", yes[v.retired])
	if v.region != "" {
		line("reader-region", v.region)
	}
	line("binding", hex.EncodeToString(v.binding))
	if v.dataKey != nil {
		line("data-key", hex.EncodeToString(v.dataKey))
	}
	line("sealed", hex.EncodeToString(v.sealed))
	if v.opens != nil {
		line("opens", strconv.Quote(*v.opens))
	} else {
		line("refused", v.refused)
	}
	return b.String()
}

// add writes what newVectors has and testdata has not.
func add(t *testing.T) {
	if err := os.MkdirAll("testdata/vectors", 0o755); err != nil {
		t.Fatal(err)
	}
	sums, err := os.OpenFile("testdata/vectors.sum", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	all := newVectors(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := all[name].text()
		f, err := os.OpenFile(filepath.Join("testdata/vectors", name+".txt"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sums, "%x  %s.txt\n", sha256.Sum256([]byte(text)), name)
	}
}

// newVectors makes one of each. They have random parts, so they are new ones every time.
func newVectors(t *testing.T) map[string]vector {
	make1 := func(what string, text string, edit func(*vector)) vector {
		p := here
		v := vector{what: what, kind: 1, namespace: "idem", tenant: "acme", keyID: "1234abcd-12ab-34cd-56ef-1234567890ab", material: bytes.Repeat([]byte{0x5a}, 32), opens: &text}
		if edit != nil {
			edit(&v)
		}
		p.kind, p.tenant = v.kind, v.tenant
		v.binding = p.binding()
		writer := v
		writer.region, writer.retired = "", false
		k := kmstest.New(t)
		arn := k.ImportKey(v.keyID, v.material)
		v.sealed = sealAt(t, newSealer(t, k, arn, &kmsenc.Options{Namespace: v.namespace, PerTenant: v.perTenant}), p, text)
		e, err := kmsenc.Parse(v.sealed)
		if err != nil {
			t.Fatal(err)
		}
		out, err := k.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: e.Wrapped(), EncryptionContext: k.Calls()[0].Context})
		if err != nil {
			t.Fatal(err)
		}
		v.dataKey = out.Plaintext
		return v
	}
	kind := func(n byte) func(*vector) { return func(v *vector) { v.kind = n } }
	result := make1("a result", `{"paid":true,"charge":"ch_1"}`, nil)
	all := map[string]vector{
		"1-result":       result,
		"1-failure":      make1("a final failure", `{"type":"CardDeclined","message":"declined"}`, kind(2)),
		"1-note":         make1("a note that was saved while the function ran", `{"charge":"ch_1"}`, kind(3)),
		"1-evidence":     make1("what an attempt left that had lost the key", `{"result":{"paid":true}}`, kind(4)),
		"1-empty":        make1("an empty text", "", nil),
		"1-per-tenant":   make1("a data key of the tenant's own", `{"paid":true}`, func(v *vector) { v.perTenant = true }),
		"1-no-tenant":    make1("a data key per tenant, and an operation without", `{"paid":true}`, func(v *vector) { v.perTenant, v.tenant = true, "" }),
		"1-utf8":         make1("a tenant beyond ASCII", `{"paid":true}`, func(v *vector) { v.perTenant, v.tenant = true, "Žofie 🙂 𝕏" }),
		"1-namespace":    make1("another namespace", `{"paid":true}`, func(v *vector) { v.namespace = "prod" }),
		"1-retired":      make1("the key was replaced meanwhile", `{"paid":true}`, func(v *vector) { v.retired = true }),
		"1-multi-region": make1("read in another Region", `{"paid":true}`, func(v *vector) { v.keyID, v.region = "mrk-1234abcd12ab34cd56ef1234567890ab", "us-east-1" }),
	}
	refuse := func(what, how string, edit func(*vector)) vector {
		v := result
		v.what, v.opens, v.dataKey, v.refused = what, nil, nil, how
		v.sealed, v.binding = bytes.Clone(v.sealed), bytes.Clone(v.binding)
		edit(&v)
		return v
	}
	at := func(i int, with byte) func(*vector) {
		return func(v *vector) { v.sealed[(i+len(v.sealed))%len(v.sealed)] ^= with }
	}
	wrapped := kmsenc.HeaderSize
	salt := wrapped + 167
	for name, v := range map[string]vector{
		"1-refused-version":     refuse("version 2", "tampered", at(2, 1^2)),
		"1-refused-suite":       refuse("suite 2", "tampered", at(3, 1^2)),
		"1-refused-flags":       refuse("a flag", "tampered", at(4, 1)),
		"1-refused-key-block":   refuse("a key that is kept in the table, which this version does not know", "tampered", at(5, 1^2)),
		"1-refused-hint":        refuse("it names a key that is not allowed", "refused", at(6, 1)),
		"1-refused-length":      refuse("the wrapped key is said to be longer", "tampered", at(15, 1)),
		"1-refused-wrapped":     refuse("a bit of the wrapped key: KMS refuses it", "tampered", at(wrapped+120, 1)),
		"1-refused-salt":        refuse("a bit of the salt", "tampered", at(salt, 1)),
		"1-refused-commitment":  refuse("a bit of the commitment", "tampered", at(salt+32, 1)),
		"1-refused-nonce":       refuse("a bit of the nonce", "tampered", at(salt+64, 1)),
		"1-refused-text":        refuse("a bit of the ciphertext", "tampered", at(salt+76, 1)),
		"1-refused-tag":         refuse("a bit of the tag", "tampered", at(-1, 0x80)),
		"1-refused-cut":         refuse("the last byte is missing", "tampered", func(v *vector) { v.sealed = v.sealed[:len(v.sealed)-1] }),
		"1-refused-longer":      refuse("a byte too many", "tampered", func(v *vector) { v.sealed = append(v.sealed, 0) }),
		"1-refused-record":      refuse("another record's binding", "tampered", func(v *vector) { v.binding[50] ^= 1 }),
		"1-refused-fence":       refuse("another attempt's fence", "tampered", func(v *vector) { v.binding[len(v.binding)-1] ^= 1 }),
		"1-refused-namespace":   refuse("another namespace", "tampered", func(v *vector) { v.namespace = "prod" }),
		"1-refused-per-tenant":  refuse("sealed under the operation alone, read with keys per tenant", "tampered", func(v *vector) { v.perTenant = true }),
		"1-refused-clear":       refuse("clear text of idem.InsecureCleartext", "tampered", func(v *vector) { v.sealed = []byte(`IDEMCLEAR1{"paid":true}`) }),
		"1-refused-base64":      refuse("base64", "tampered", func(v *vector) { v.sealed = []byte("S0UBAQABq83vAQIDBAU=") }),
		"1-refused-other-key":   refuse("another record's wrapped key", "tampered", func(v *vector) { copy(v.sealed[wrapped:salt], all["1-failure"].sealed[wrapped:salt]) }),
		"1-refused-other-state": refuse("a failure as a result", "tampered", func(v *vector) { v.sealed = all["1-failure"].sealed }),
	} {
		all[name] = v
	}
	return all
}
