package lambdawrap_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// A key is one, quoted or not, or it is refused.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "k", `"k"`, `"a\\"b"`, `"a","b"`, "a,b", `"k";p=1`, "\x00", "\xff", " k\t", `"\\`} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		store := idemtest.NewMemory(t)
		runs := 0
		h := lambdawrap.HTTP(operation[lambdawrap.Response](t, store, nil), acme, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }), nil)
		send := func(key string) int {
			r := httptest.NewRequestWithContext(invoked(t), "POST", "/", nil)
			r.Header["Idempotency-Key"] = []string{key}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		status := send(key)
		if status != 200 && (status != 400 || runs != 0 || len(store.Records()) != 0) {
			t.Fatalf("%q: %d", key, status)
		}
		if bare := strings.Trim(key, " \t"); status == 200 && bare[0] != '"' {
			if send(`"`+strings.ReplaceAll(bare, `\`, `\\`)+`"`) != 200 || runs != 1 {
				t.Fatalf("%q: quoted it is another key", key)
			}
		}
	})
}

// Whatever arrives, an adapter answers or refuses; it does not panic, and does not call something done that it did not run.
func FuzzEvent(f *testing.F) {
	for _, event := range []string{``, `[]`, `{}`, snsEvent, s3Event, bridgeEvent, destinationRecord,
		`{"Records":[{"messageId":"m","body":"b","eventSource":"aws:sqs","messageAttributes":null}]}`,
		kinesisEvent("A1"), dynamoEvent("A1"), kafkaEvent("A1"), strings.Replace(dynamoEvent("A1"), `{"S":"A1"}`, `{"BS":[1]}`, 1),
		strings.Replace(kafkaEvent("A1"), `[118,-36]`, `[220]`, 1), strings.Replace(kafkaEvent("A1"), `[118,-36]`, `null`, 1),
		`{"version":"2.0","routeKey":"a","headers":{"idempotency-key":"k"},"requestContext":{"http":{"method":"POST"}}}`,
		`{"httpMethod":"POST","resource":"/","multiValueHeaders":{"idempotency-key":["k"]},"requestContext":{},"body":"YQ==","isBase64Encoded":true}`,
		`{"httpMethod":"POST","multiValueHeaders":{"idempotency-key":["k"]},"requestContext":{"elb":{}}}`,
	} {
		f.Add([]byte(event))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		for _, a := range adapters {
			if a.name == "CustomResource" { // would send to where the event says
				continue
			}
			store, runs := idemtest.NewMemory(t), 0
			out, err := a.open(store, &runs).Invoke(invoked(t), event)
			if err == nil && !json.Valid(out) {
				t.Errorf("%s: answered %q", a.name, out)
			}
			if a.batch && err == nil && runs == 0 && strings.Contains(string(out), "[]") {
				t.Errorf("%s: nothing ran, and %s", a.name, out)
			}
		}
	})
}
