package dynamo

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/sam"
)

func item(r idem.Record) attributes {
	item := keyOf(key(r.ID))
	for place, v := range encode(r) {
		item[place[len(":"):]] = v
	}
	return item
}

// TestVectors is the promise that what is stored stays readable: an entry of testdata/items.txt is never edited.
func TestVectors(t *testing.T) {
	vs := vectors(t)
	if len(vs) < 8 {
		t.Fatalf("%d vectors", len(vs))
	}
	for _, v := range vs {
		if got, want := formatItem(item(v.record)), formatItem(v.item); got != want {
			t.Errorf("%s: item is\n%swant\n%s", v.name, got, want)
		}
		got, err := decode(v.item)
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		if got, want := formatRecord(got), formatRecord(v.record); got != want {
			t.Errorf("%s: record is\n%swant\n%s", v.name, got, want)
		}
	}
}

var appendVector = flag.String("vector", "", "append the record in this file, as in testdata/items.txt, to the vectors")

func TestAppendVector(t *testing.T) {
	if *appendVector == "" {
		t.Skip("-vector names no file")
	}
	text, err := os.ReadFile(*appendVector)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile("testdata/items.txt", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for entry := range strings.SplitSeq(strings.TrimPrefix(string(text), "== "), "\n== ") {
		name, body, _ := strings.Cut(entry, "\n")
		r, err := parseRecord(strings.TrimSpace(body))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "\n== %s\n%s\n%s", name, formatRecord(r), formatItem(item(r)))
	}
}

func TestTableHasTheStoredNames(t *testing.T) {
	f, err := os.Open("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, ttl, err := sam.Table(f)
	if err != nil {
		t.Fatal(err)
	}
	if ttl != attrExpires {
		t.Errorf("TTL attribute of template.yaml is %q, of the store %q", ttl, attrExpires)
	}
	if k := in.KeySchema; len(k) != 1 || *k[0].AttributeName != attrKey {
		t.Errorf("key of template.yaml is not %q", attrKey)
	}
	index := in.GlobalSecondaryIndexes[0].KeySchema
	if *index[0].AttributeName != attrShard || *index[1].AttributeName != attrIndexSince {
		t.Errorf("index of template.yaml is not on %q and %q", attrShard, attrIndexSince)
	}
	want := map[string]types.ScalarAttributeType{attrKey: "S", attrShard: "S", attrIndexSince: "N"}
	for _, a := range in.AttributeDefinitions {
		if want[*a.AttributeName] != a.AttributeType {
			t.Errorf("attribute %s of template.yaml is %s", *a.AttributeName, a.AttributeType)
		}
	}
}

// TestExpressionsSetEverything reads the constants: what encode gives is set, and what it does not give is removed.
func TestExpressionsSetEverything(t *testing.T) {
	reserved := strings.Fields("AS AT BY DO GO IF IN IS NO OF ON OR TO") // those of DynamoDB's that have two letters
	apart := idem.Sealed{Ref: bodies{by: idem.Version{1}, count: 1}.ref()}
	for _, r := range []idem.Record{
		{State: idem.Pending}, {State: idem.Completed}, {State: idem.Indeterminate},
		{State: idem.Completed, Expires: time.Unix(1, 0)}, {State: idem.Failed, Expires: time.Unix(1, 0)}, {State: idem.Released, Expires: time.Unix(1, 0)},
		{State: idem.Completed, Receipt: apart}, {State: idem.Indeterminate, Receipt: apart}, {State: idem.Completed, Expires: time.Unix(1, 0), Receipt: apart},
	} {
		set, remove, _ := strings.Cut(strings.TrimPrefix(update(r), "SET "), " REMOVE ")
		touched := make(map[string]bool)
		places := make(map[string]bool)
		for a := range strings.SplitSeq(set, ", ") {
			name, place, _ := strings.Cut(a, " = ")
			if place != ":"+name || touched[name] {
				t.Errorf("%v: %q", r.State, a)
			}
			touched[name], places[place] = true, true
		}
		if given := encode(r); !maps.EqualFunc(given, places, func(types.AttributeValue, bool) bool { return true }) {
			t.Errorf("%v: values %v, expression %v", r.State, slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(places)))
		}
		for name := range strings.SplitSeq(remove, ", ") {
			if touched[name] {
				t.Errorf("%v: %s is set and removed", r.State, name)
			}
			touched[name] = true
		}
		for _, name := range []string{attrExpires, attrShard, attrIndexSince, attrBodiesBy, attrBodyDigest, attrBodyCount} {
			if !touched[name] {
				t.Errorf("%v: %s stays as it was", r.State, name)
			}
		}
		for name := range touched {
			if len(name) != 2 || slices.Contains(reserved, strings.ToUpper(name)) || name == attrKey {
				t.Errorf("attribute name %q", name)
			}
		}
		if n := len(touched); n != 29+3 { // the first format's, and those of bodies
			t.Errorf("%v: %d attributes", r.State, n)
		}
		if len(update(r)) > 4096 {
			t.Errorf("%v: expression has %d bytes", r.State, len(update(r)))
		}
	}
}

// TestRecordWithoutReceiptFitsAWriteUnit takes the longest of everything that a protocol write can carry beside sealed texts and
// what an operator says: each write must stay one unit.
func TestRecordWithoutReceiptFitsAWriteUnit(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	r := idem.Record{
		ID:    idem.ID{Tenant: strings.Repeat("#", 256), Operation: strings.Repeat("a", 64)},
		State: idem.Indeterminate, Begun: true, Fence: math.MaxUint64, Life: math.MaxUint64, Generation: math.MaxUint32,
		Lease: last, Started: last, Attempts: math.MaxUint32, Reason: math.MaxUint8, Since: last, AskAfter: last, Asks: math.MaxUint32,
		Settle: math.MaxInt64, Retain: math.MaxInt64, Resolved: idem.Resolution{At: last},
	}
	r.Receipt.Fence, r.Note.Fence, r.Evidence.Fence = math.MaxUint64, math.MaxUint64, math.MaxUint64
	r.Receipt.Ref = bodies{by: idem.Version{1}, count: maxBodies}.ref()
	for _, state := range []idem.State{idem.Indeterminate, idem.Released} {
		if r.State = state; state == idem.Released {
			r.Expires = last
		}
		n := itemSize(key(r.ID), encode(r))
		t.Logf("%v: %d bytes", state, n)
		if n > 1024 {
			t.Errorf("%v: %d bytes, a write unit is 1,024", state, n)
		}
	}
	usual := idem.Record{
		ID: idem.ID{Tenant: strings.Repeat("t", 36), Operation: "charge-card"}, State: idem.Completed, Begun: true,
		Fence: 1_764_600_000_000, Life: 1_764_600_000_000, Lease: last, Started: last, Attempts: 1, Settle: 900 * time.Second, Retain: 24 * time.Hour, Expires: last,
	}
	if left := 1024 - itemSize(key(usual.ID), encode(usual)); left < 500 {
		t.Errorf("%d bytes are left for the receipt of a usual record, want 500", left)
	} else {
		t.Logf("%d bytes are left for the receipt of a usual record", left)
	}
}

func TestItemSizeIsDynamoDBs(t *testing.T) {
	values := attributes{
		":ab": &types.AttributeValueMemberS{Value: "é"},              // 2 + 2
		":cd": &types.AttributeValueMemberB{Value: make([]byte, 10)}, // 2 + 10
		":ef": number(1234567),                                       // 2 + 4 + 1
		":gh": signed(-12),                                           // 2 + 2 + 1: sign and 2 digits
		":ij": null,                                                  // 2 + 1
		":kl": &types.AttributeValueMemberBOOL{Value: true},          // 2 + 1
	}
	if got, want := itemSize("key", values), 2+3+4+12+7+5+3+3; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestKeyIsOnlyTheIDs(t *testing.T) {
	text := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("#%01a")), 0, 6, -1), rapid.String())
	ids := rapid.Custom(func(t *rapid.T) idem.ID {
		id := idem.ID{Tenant: text.Draw(t, "tenant"), Operation: text.Draw(t, "operation")}
		id.Key[0], id.Key[31] = rapid.Byte().Draw(t, "first"), rapid.Byte().Draw(t, "last")
		return id
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		if (key(a) == key(b)) != (a == b) {
			t.Fatalf("keys %q and %q", key(a), key(b))
		}
		if got, err := parseKey(key(a)); err != nil || got != a {
			t.Fatalf("parse %q: %v, %v", key(a), got, err)
		}
		if strings.HasPrefix(key(a), "!") {
			t.Fatalf("key %q is a control item's", key(a))
		}
	})
	long := idem.ID{Tenant: strings.Repeat("#", 256), Operation: strings.Repeat("a", 64)}
	if n := len(key(long)); n != 2+512+1+64+1+43 {
		t.Errorf("longest key has %d bytes", n)
	}
}

func TestStrangeKeysAreRefused(t *testing.T) {
	digest := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for _, k := range []string{
		"", "!gen", "1", "1##" + digest, "2#t#o#" + digest, "1#t#o#x#" + digest, "1#t#o#" + digest + "=", "1#t#o#" + digest[:42], "1#t#o#" + digest[:42] + "B",
		"1#%#o#" + digest, "1#%2#o#" + digest, "1#%23#o#" + digest, "1#t#%#" + digest, "1#t#o#" + digest + "\n", "1#%%0#o#" + digest,
	} {
		if id, err := parseKey(k); err == nil {
			t.Errorf("key %q is taken for %+v", k, id)
		}
	}
}

// TestDecodeIsStrict damages a good item in every way an attribute can be damaged.
func TestDecodeIsStrict(t *testing.T) {
	refused := func(what string, a attributes) {
		t.Helper()
		r, err := decode(a)
		var final interface{ Retryable() bool }
		if err == nil || !errors.As(err, &final) || final.Retryable() || !reflect.ValueOf(r).IsZero() {
			t.Errorf("%s: got record %v, error %v", what, r.State, err)
		}
	}
	refused("no item", nil)
	for _, v := range vectors(t) {
		for name, good := range v.item {
			change := func(what string, bad types.AttributeValue) {
				a := maps.Clone(v.item)
				if a[name] = bad; bad == nil {
					delete(a, name)
				}
				_, err := decode(a)
				switch {
				case name == attrShard || name == attrIndexSince: // for the index only, never read
				case name == attrExpires && bad == nil:
				default:
					if err == nil {
						t.Errorf("%s: %s %s: no error", v.name, name, what)
					} else if strings.Contains(err.Error(), "secret") {
						t.Errorf("error shows what is stored: %v", err)
					}
				}
			}
			change("is missing", nil)
			change("is a map", &types.AttributeValueMemberM{})
			change("is a list", &types.AttributeValueMemberL{})
			change("is of an unknown type", &types.UnknownUnionMember{Tag: "secret"})
			switch good.(type) {
			case *types.AttributeValueMemberS:
				change("is a number", number(1))
				change("is binary", &types.AttributeValueMemberB{Value: []byte("secret")})
				change("is empty", &types.AttributeValueMemberS{})
			case *types.AttributeValueMemberN:
				change("is a string", &types.AttributeValueMemberS{Value: "1"})
				for _, n := range []string{"", "secret", "1.5", "01", "-0", "+1", "1e3", " 1", "18446744073709551616", "-18446744073709551616"} {
					change("is "+n, &types.AttributeValueMemberN{Value: n})
				}
			case *types.AttributeValueMemberB:
				change("is a string", &types.AttributeValueMemberS{Value: "secret"})
				change("is empty", &types.AttributeValueMemberB{})
			case *types.AttributeValueMemberBOOL:
				change("is null", null)
				change("is a string", &types.AttributeValueMemberS{Value: "true"})
			}
		}
	}
	base := item(vectors(t)[0].record)
	with := func(name string, v types.AttributeValue) attributes {
		a := maps.Clone(base)
		a[name] = v
		return a
	}
	s := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	refused("unknown state", with(attrState, s("X")))
	refused("no state", with(attrState, s(" ")))
	refused("two states", with(attrState, s("PC")))
	refused("newer format", with(attrFormat, number(3)))
	refused("bodies without an own format", with(attrBodyCount, number(1)))
	refused("format 0", with(attrFormat, number(0)))
	apart := item(idem.Record{ID: idem.ID{Operation: "o"}, Version: idem.Version{1}, State: idem.Completed, Receipt: idem.Sealed{Ref: bodies{by: idem.Version{1}, count: 1}.ref()}})
	if _, err := decode(apart); err != nil {
		t.Errorf("a receipt beside its record: %v", err)
	}
	for name, v := range map[string]types.AttributeValue{
		attrReceipt: &types.AttributeValueMemberB{Value: []byte{1}}, attrBodyCount: number(0), attrBodiesBy: &types.AttributeValueMemberB{Value: make([]byte, 16)},
		attrFormat: number(formatInline),
	} {
		a := maps.Clone(apart)
		a[name] = v
		refused("a receipt beside its record, "+name+" wrong", a)
	}
	a := maps.Clone(apart)
	a[attrBodyCount] = number(maxBodies + 1)
	refused("too many bodies", a)
	refused("zero version", with(attrVersion, &types.AttributeValueMemberB{Value: make([]byte, 16)}))
	refused("short version", with(attrVersion, &types.AttributeValueMemberB{Value: make([]byte, 15)}))
	refused("long fingerprint", with(attrFingerprint, &types.AttributeValueMemberB{Value: make([]byte, 33)}))
	refused("pending, expires", with(attrExpires, number(1)))
	refused("large generation", with(attrGeneration, number(math.MaxUint32+1)))
	refused("long settle", with(attrSettle, signed(math.MaxInt64/1_000_000_000+1)))
	refused("time zero", with(attrLease, signed(time.Time{}.UnixMilli())))
	if _, err := decode(with("zz", s("newer"))); err != nil {
		t.Errorf("an attribute of a newer version: %v", err)
	}
	if r, err := decode(with(attrReason, number(99))); err != nil || r.Reason != 99 {
		t.Errorf("a reason of a newer version: %v, %v", r.Reason, err)
	}
}

func TestWhatCannotBeStoredIsRefused(t *testing.T) {
	good := idem.Record{ID: idem.ID{Tenant: "t", Operation: "o"}, Version: idem.Version{1}, State: idem.Completed, Expires: time.Unix(1, 0)}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*idem.Record){
		"no state":              func(r *idem.Record) { r.State = 0 },
		"unknown state":         func(r *idem.Record) { r.State = idem.Released + 1 },
		"no version":            func(r *idem.Record) { r.Version = idem.Version{} },
		"tenant no UTF-8":       func(r *idem.Record) { r.ID.Tenant = "\xff" },
		"operation no UTF-8":    func(r *idem.Record) { r.ID.Operation = "\xff" },
		"key too long":          func(r *idem.Record) { r.ID.Tenant = strings.Repeat("#", 1100) },
		"by no UTF-8":           func(r *idem.Record) { r.Resolved.By = "\xff" },
		"why no UTF-8":          func(r *idem.Record) { r.Resolved.Why = "\xff" },
		"pending expires":       func(r *idem.Record) { r.State = idem.Pending },
		"indeterminate expires": func(r *idem.Record) { r.State = idem.Indeterminate },
		"ref of nobody":         func(r *idem.Record) { r.Receipt.Ref = "x" },
		"ref of a note":         func(r *idem.Record) { r.Note.Ref = bodies{by: idem.Version{1}, count: 1}.ref() },
		"ref of an evidence":    func(r *idem.Record) { r.Evidence.Ref = bodies{by: idem.Version{1}, count: 1}.ref() },
		"ref to no bodies":      func(r *idem.Record) { r.Receipt.Ref = bodies{by: idem.Version{1}}.ref() },
		"ref to too many":       func(r *idem.Record) { r.Receipt.Ref = bodies{by: idem.Version{1}, count: maxBodies + 1}.ref() },
		"ref of no write":       func(r *idem.Record) { r.Receipt.Ref = bodies{count: 1}.ref() },
		"receipt too large":     func(r *idem.Record) { r.Receipt.Bytes = make([]byte, maxReceipt+1) },
	} {
		r := good
		change(&r)
		if err := check(r); err == nil || retryable(err) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestRoundedIsWhatComesBack(t *testing.T) {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1e11, 1e11).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
	})
	rapid.Check(t, func(t *rapid.T) {
		r := idem.Record{
			ID: idem.ID{Tenant: "t", Operation: "o"}, Version: idem.Version{1}, State: idem.Completed,
			Lease: moment.Draw(t, "lease"), Resolved: idem.Resolution{At: moment.Draw(t, "at")}, Expires: moment.Draw(t, "expires"),
			Settle: time.Duration(rapid.Int64().Draw(t, "settle")), Retain: time.Duration(rapid.Int64().Draw(t, "retain")),
			Receipt: idem.Sealed{Fence: 1, Bytes: []byte{1}}, Note: idem.Sealed{Bytes: []byte{}},
		}
		want := rounded(r)
		got, err := decode(item(r))
		if err != nil || formatRecord(got) != formatRecord(want) {
			t.Fatalf("got\n%swant\n%serror %v", formatRecord(got), formatRecord(want), err)
		}
		if want.Expires.Before(r.Expires) || want.Settle < r.Settle.Truncate(time.Second) || want.Lease.Sub(r.Lease).Abs() >= time.Millisecond {
			t.Fatalf("rounded too far: %+v to %+v", r, want)
		}
	})
}
