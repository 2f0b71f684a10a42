package idem

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What is stored depends on these digests: testdata/vectors.txt is added to and never changed.
func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checked := 0
	v := map[string]string{}
	check := func() {
		if len(v) == 0 {
			return
		}
		checked++
		text := func(field string) string {
			s, err := hex.DecodeString(v[field])
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			return string(s)
		}
		id := ID{Tenant: text("tenant"), Operation: v["operation"], Key: sha256.Sum256([]byte(text("key")))}
		var payload any = AnyPayload{}
		switch v["payload-kind"] {
		case "json":
			payload = json.RawMessage(text("payload"))
		case "raw":
			payload = []byte(text("payload"))
		}
		fp, err := Request{Payload: payload}.fingerprint(id)
		if err != nil {
			t.Fatal(err)
		}
		d, b := id.Digest(), sha256.Sum256(bindingV1(id, fp, kindNote, 77))
		for field, got := range map[string]string{
			"digest": hex.EncodeToString(d[:]), "fingerprint": hex.EncodeToString(fp[:]),
			"downstream-key": id.downstreamKey(), "binding-of-note-77-sha256": hex.EncodeToString(b[:]),
		} {
			if v[field] != got {
				t.Errorf("vector %d: %s: %s", checked, field, got)
			}
		}
		clear(v)
	}
	s := bufio.NewScanner(f)
	for s.Scan() {
		if k, val, ok := strings.Cut(s.Text(), ":"); ok && !strings.HasPrefix(k, "#") {
			v[k] = strings.TrimSpace(val)
		} else if s.Text() == "" {
			check()
		}
	}
	check()
	if checked < 5 {
		t.Errorf("only %d vectors", checked)
	}
}
