package dynamo

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// vector is an entry of testdata/items.txt: a record as "field: value" lines, an empty line, its item as "name type value" lines.
type vector struct {
	name   string
	record idem.Record
	item   attributes
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/items.txt")
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	for entry := range strings.SplitSeq(string(text), "\n== ") {
		name, body, _ := strings.Cut(entry, "\n")
		if strings.HasPrefix(entry, "#") { // what the file is
			continue
		}
		record, item, _ := strings.Cut(body, "\n\n")
		v := vector{name: strings.TrimSpace(name)}
		if v.record, err = parseRecord(record); err != nil {
			t.Fatalf("vector %q: %v", v.name, err)
		}
		if v.item, err = parseItem(item); err != nil {
			t.Fatalf("vector %q: %v", v.name, err)
		}
		vs = append(vs, v)
	}
	return vs
}

// parseItem is the inverse of formatItem.
func parseItem(text string) (attributes, error) {
	item := attributes{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		kind, value, _ := strings.Cut(rest, " ")
		switch kind {
		case "S":
			s, err := strconv.Unquote(value)
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			item[name] = &types.AttributeValueMemberS{Value: s}
		case "N":
			item[name] = &types.AttributeValueMemberN{Value: value}
		case "B":
			b, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			item[name] = &types.AttributeValueMemberB{Value: b}
		case "BOOL":
			item[name] = &types.AttributeValueMemberBOOL{Value: value == "true"}
		case "NULL":
			item[name] = &types.AttributeValueMemberNULL{Value: true}
		default:
			return nil, fmt.Errorf("line %q: unknown type", line)
		}
	}
	return item, nil
}

func formatItem(item attributes) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(item)) {
		switch v := item[name].(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(&b, "%s S %q\n", name, v.Value)
		case *types.AttributeValueMemberN:
			fmt.Fprintf(&b, "%s N %s\n", name, v.Value)
		case *types.AttributeValueMemberB:
			fmt.Fprintf(&b, "%s B %s\n", name, base64.StdEncoding.EncodeToString(v.Value))
		case *types.AttributeValueMemberBOOL:
			fmt.Fprintf(&b, "%s BOOL %v\n", name, v.Value)
		case *types.AttributeValueMemberNULL:
			fmt.Fprintf(&b, "%s NULL\n", name)
		}
	}
	return b.String()
}

// formatRecord shows every field that is not zero.
func formatRecord(r idem.Record) string {
	var b strings.Builder
	put := func(field string, v any, zero bool) {
		if !zero {
			fmt.Fprintf(&b, "%s: %v\n", field, v)
		}
	}
	putTime := func(field string, t time.Time) { put(field, t.Format(time.RFC3339Nano), t.IsZero()) }
	putSealed := func(field string, s idem.Sealed) {
		put(field, fmt.Sprintf("%d %x", s.Fence, s.Bytes), s.Fence == 0 && len(s.Bytes) == 0)
	}
	put("tenant", strconv.Quote(r.ID.Tenant), false)
	put("operation", r.ID.Operation, false)
	put("key", hex.EncodeToString(r.ID.Key[:]), false)
	put("version", hex.EncodeToString(r.Version[:]), false)
	put("state", r.State, false)
	put("begun", r.Begun, false)
	put("fence", r.Fence, false)
	put("life", r.Life, false)
	put("generation", r.Generation, r.Generation == 0)
	put("fingerprint", hex.EncodeToString(r.Fingerprint[:]), false)
	putTime("lease", r.Lease)
	putTime("started", r.Started)
	put("attempts", r.Attempts, r.Attempts == 0)
	put("reason", uint8(r.Reason), r.Reason == 0)
	putTime("since", r.Since)
	putTime("ask after", r.AskAfter)
	put("asks", r.Asks, r.Asks == 0)
	put("settle", r.Settle, r.Settle == 0)
	put("retain", r.Retain, r.Retain == 0)
	putSealed("receipt", r.Receipt)
	if b, ok := beside(r); ok {
		put("receipt beside", fmt.Sprintf("%x %x %d", b.by, b.digest, b.count), false)
	}
	putSealed("note", r.Note)
	putSealed("evidence", r.Evidence)
	put("resolved by", strconv.Quote(r.Resolved.By), r.Resolved.By == "")
	put("resolved why", strconv.Quote(r.Resolved.Why), r.Resolved.Why == "")
	putTime("resolved at", r.Resolved.At)
	putTime("expires", r.Expires)
	return b.String()
}

func parseRecord(text string) (r idem.Record, err error) {
	scan := bufio.NewScanner(strings.NewReader(text))
	for scan.Scan() && err == nil {
		field, v, _ := strings.Cut(scan.Text(), ": ")
		at := func(t *time.Time) { *t, err = time.Parse(time.RFC3339Nano, v) }
		sealed := func(s *idem.Sealed) {
			fence, text, _ := strings.Cut(v, " ")
			if _, err = fmt.Sscan(fence, &s.Fence); err == nil {
				s.Bytes, err = hex.DecodeString(text)
			}
		}
		digest := func(b []byte) { _, err = hex.Decode(b, []byte(v)) }
		num := func(n any) { _, err = fmt.Sscan(v, n) }
		quoted := func(s *string) { *s, err = strconv.Unquote(v) }
		switch field {
		case "tenant":
			quoted(&r.ID.Tenant)
		case "operation":
			r.ID.Operation = v
		case "key":
			digest(r.ID.Key[:])
		case "version":
			digest(r.Version[:])
		case "state":
			for r.State = idem.Pending; r.State.String() != v && r.State <= idem.Released; r.State++ {
			}
		case "begun":
			num(&r.Begun)
		case "fence":
			num(&r.Fence)
		case "life":
			num(&r.Life)
		case "generation":
			num(&r.Generation)
		case "fingerprint":
			digest(r.Fingerprint[:])
		case "lease":
			at(&r.Lease)
		case "started":
			at(&r.Started)
		case "attempts":
			num(&r.Attempts)
		case "reason":
			num((*uint8)(&r.Reason))
		case "since":
			at(&r.Since)
		case "ask after":
			at(&r.AskAfter)
		case "asks":
			num(&r.Asks)
		case "settle":
			r.Settle, err = time.ParseDuration(v)
		case "retain":
			r.Retain, err = time.ParseDuration(v)
		case "receipt":
			sealed(&r.Receipt)
		case "receipt beside":
			var b bodies
			var by, text []byte
			if _, err = fmt.Sscanf(v, "%x %x %d", &by, &text, &b.count); err == nil {
				b.by, b.digest = idem.Version(by), [32]byte(text)
				r.Receipt.Ref = b.ref()
			}
		case "note":
			sealed(&r.Note)
		case "evidence":
			sealed(&r.Evidence)
		case "resolved by":
			quoted(&r.Resolved.By)
		case "resolved why":
			quoted(&r.Resolved.Why)
		case "resolved at":
			at(&r.Resolved.At)
		case "expires":
			at(&r.Expires)
		default:
			err = fmt.Errorf("unknown field %q", field)
		}
	}
	return r, err
}

// FuzzItem: decoding never panics, and what it takes is exactly what encoding makes of the record.
func FuzzItem(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(formatItem(v.item))
	}
	f.Add("pk S \"1#%0#%1#" + base64.RawURLEncoding.EncodeToString(make([]byte, 32)) + "\"\nve B " + hex.EncodeToString(make([]byte, 8)))
	f.Fuzz(func(t *testing.T, text string) {
		stored, err := parseItem(text)
		if err != nil {
			t.Skip()
		}
		r, err := decode(stored)
		if err != nil {
			return
		}
		if err := check(r); err != nil {
			t.Fatalf("decoded a record that cannot be stored: %v", err)
		}
		again := item(r)
		for _, a := range []attributes{stored, again} { // derived, for the index only
			delete(a, attrShard)
			delete(a, attrIndexSince)
		}
		for name := range stored {
			if _, ok := again[name]; !ok && name != attrExpires {
				delete(stored, name) // of a newer version
			}
		}
		if got, want := formatItem(again), formatItem(stored); got != want {
			t.Fatalf("encoded\n%sdecoded from\n%s", got, want)
		}
	})
}
