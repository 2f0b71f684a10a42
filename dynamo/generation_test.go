package dynamo_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
)

// control puts the control item into the fake table.
func (f *fake) control(item string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.items, `{"S":"!gen"}`)
	if item == "" {
		return
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(item), &m); err != nil {
		panic(err)
	}
	f.items[`{"S":"!gen"}`] = m
}

func (f *fake) describe(name string, v any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.table[name] = v; v == nil {
		delete(f.table, name)
	}
}

const adopted = `{"pk":{"S":"!gen"},"ti":{"S":"id-1"},"ge":{"N":"3"},"wm":{"N":"1796126400123"},"qs":{"N":"1796126500000"},"qu":{"N":"1797126500000"}}`

func restored(f *fake) {
	f.describe("RestoreSummary", map[string]any{"RestoreDateTime": 1.7e9, "RestoreInProgress": false})
}

// TestGuard opens a store on each kind of table: what is told, and that nothing else is sent where it must not serve.
func TestGuard(t *testing.T) {
	control := func(item string) func(*fake, *faults) { return func(f *fake, _ *faults) { f.control(item) } }
	table := func(name string, v any) func(*fake, *faults) { return func(f *fake, _ *faults) { f.describe(name, v) } }
	on := func(call string, s step) func(*fake, *faults) {
		return func(_ *fake, faults *faults) {
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+call) {
					return s(r, next)
				}
				return next.RoundTrip(r)
			})
		}
	}
	both := func(fs ...func(*fake, *faults)) func(*fake, *faults) {
		return func(f *fake, t *faults) {
			for _, set := range fs {
				set(f, t)
			}
		}
	}
	keys := func(kv ...string) []any {
		var ks []any
		for i := 0; i < len(kv); i += 2 {
			ks = append(ks, map[string]any{"AttributeName": kv[i], "KeyType": kv[i+1]})
		}
		return ks
	}
	kms := instead(400, `{"__type":"x#AccessDeniedException","message":"KMS key access denied error: secret"}`)
	for name, row := range map[string]struct {
		set        func(*fake, *faults)
		number     uint32
		problem    string // in the message; none: it serves
		notAdopted bool
		retry      bool
	}{
		"new table":                        {},
		"never restored, with control":     {set: control(`{"pk":{"S":"!gen"},"ti":{"S":"id-1"},"ge":{"N":"0"}}`)},
		"control with NULL times":          {set: control(`{"pk":{"S":"!gen"},"ti":{"S":"id-1"},"ge":{"N":"0"},"wm":{"NULL":true},"qs":{"NULL":true},"qu":{"NULL":true}}`)},
		"adopted":                          {set: both(control(adopted), func(f *fake, _ *faults) { restored(f) }), number: 3},
		"adopted, updating":                {set: both(control(adopted), table("TableStatus", "UPDATING")), number: 3},
		"restored, not adopted":            {set: func(f *fake, _ *faults) { restored(f) }, problem: "restored from a backup", notAdopted: true},
		"restored, control of the source":  {set: both(control(adopted), table("TableId", "id-2")), problem: "restored or copied", notAdopted: true},
		"superseded":                       {set: control(strings.Replace(adopted, `"ti"`, `"su":{"S":"records-2"},"ti"`, 1)), problem: "took its place", notAdopted: true},
		"superseded, in any form":          {set: control(strings.Replace(adopted, `"ti"`, `"su":{"BOOL":false},"ti"`, 1)), problem: "took its place", notAdopted: true},
		"no TableId":                       {set: table("TableId", nil)},
		"no TableId, with control":         {set: both(control(adopted), table("TableId", nil)), problem: "no TableId", notAdopted: true},
		"control without table":            {set: control(`{"pk":{"S":"!gen"},"ge":{"N":"0"}}`), problem: "cannot be read"},
		"control without number":           {set: control(`{"pk":{"S":"!gen"},"ti":{"S":"id-1"}}`), problem: "cannot be read"},
		"control without watermark":        {set: control(strings.Replace(adopted, `"wm"`, `"xx"`, 1)), problem: "cannot be read"},
		"control with text for a time":     {set: control(strings.Replace(adopted, `"wm":{"N"`, `"wm":{"S"`, 1)), problem: "cannot be read"},
		"generation too large":             {set: control(strings.Replace(adopted, `{"N":"3"}`, `{"N":"1048576"}`, 1)), problem: "cannot be read"},
		"table missing":                    {set: on("GetItem", says(400, "ResourceNotFoundException")), problem: "does not exist"},
		"table missing for the plane only": {set: on("DescribeTable", says(400, "ResourceNotFoundException")), problem: "does not exist"},
		"read denied":                      {set: on("GetItem", denied), problem: "dynamodb:GetItem on table"},
		"describe denied":                  {set: on("DescribeTable", denied), problem: "dynamodb:DescribeTable on table"},
		"table's KMS key denied":           {set: on("GetItem", kms), problem: "KMS key that encrypts table"},
		"throttled":                        {set: on("DescribeTable", throttled), problem: "could not be checked", retry: true},
		"plane down":                       {set: on("DescribeTable", says(500, "InternalServerError")), problem: "could not be checked", retry: true},
		"wrong credentials":                {set: on("GetItem", says(400, "UnrecognizedClientException")), problem: "UnrecognizedClientException"},
		"being created":                    {set: table("TableStatus", "CREATING"), problem: "being created", retry: true},
		"being deleted":                    {set: table("TableStatus", "DELETING"), problem: "DELETING"},
		"archived":                         {set: table("TableStatus", "ARCHIVED"), problem: "ARCHIVED"},
		"its KMS key disabled":             {set: table("TableStatus", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"), problem: "inaccessible"},
		"other key name":                   {set: table("KeySchema", keys("id", "HASH")), problem: "another key"},
		"sort key":                         {set: table("KeySchema", keys("pk", "HASH", "sk", "RANGE")), problem: "another key"},
		"no key":                           {set: table("KeySchema", keys()), problem: "another key"},
		"binary key":                       {set: table("AttributeDefinitions", []any{map[string]any{"AttributeName": "pk", "AttributeType": "B"}}), problem: "type B"},
		"empty answer":                     {set: on("DescribeTable", instead(200, "{}")), problem: "could not be checked", retry: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, faults := newFake(), &faults{}
				faults.next = f
				if row.set != nil {
					row.set(f, faults)
				}
				s, err := dynamo.New(clientOver(faults, "http://fake"), "records", nil)
				if err != nil {
					t.Fatal(err)
				}
				g, err := s.Generation(t.Context())
				if row.problem == "" {
					if err != nil || g.Number != row.number {
						t.Fatalf("generation %d, %v", g.Number, err)
					}
					if row.number == 3 && (g.Watermark.UnixMilli() != 1796126400123 || g.Quiet.UnixMilli() != 1796126500000 || g.Until.UnixMilli() != 1797126500000) {
						t.Errorf("times %v %v %v", g.Watermark, g.Quiet, g.Until)
					}
					if calls := faults.sent(); !slices.Equal(calls, []string{"GetItem", "DescribeTable"}) {
						t.Errorf("sent %v", calls)
					}
					return
				}
				r := claim()
				_, cerr := s.Create(t.Context(), r)
				_, serr := s.Swap(t.Context(), r.Version, r)
				_, lerr := s.Load(t.Context(), r.ID)
				for i, err := range []error{err, lerr, cerr, serr} {
					var retry interface{ Retryable() bool }
					switch {
					case err == nil:
						t.Fatal("no error")
					case errors.Is(err, idem.ErrAmbiguous):
						t.Errorf("ambiguous: %v", err)
					case !errors.As(err, &retry) || retry.Retryable() != row.retry:
						t.Errorf("retryable is not %v: %v", row.retry, err)
					case errors.Is(err, dynamo.ErrNotAdopted) != row.notAdopted:
						t.Errorf("not adopted is not %v: %v", row.notAdopted, err)
					case !strings.Contains(err.Error(), row.problem) || strings.Contains(err.Error(), "nothing was written") != (i >= 2) || !strings.Contains(err.Error(), `"records"`):
						t.Errorf("message: %v", err)
					case row.notAdopted && !strings.Contains(err.Error(), "idem adopt --table records"):
						t.Errorf("message names no command: %v", err)
					case strings.Contains(err.Error(), "secret"):
						t.Errorf("message shows DynamoDB's text: %v", err)
					}
				}
				if slices.Contains(faults.sent(), "UpdateItem") {
					t.Error("something was written")
				}
			})
		})
	}
}

// TestGuardIsCheckedAgain: once a minute, and no more often; a failing control plane is tolerated for ten.
func TestGuardIsCheckedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		check := []string{"GetItem", "DescribeTable"}
		ask := func(what string, want ...string) {
			t.Helper()
			if _, err := s.Generation(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := faults.sent(); !slices.Equal(got, want) {
				t.Errorf("%s: sent %v, want %v", what, got, want)
			}
		}
		ask("at once")
		time.Sleep(time.Minute)
		ask("after a minute")
		time.Sleep(time.Second)
		ask("after more", check...)
		ask("at once again")

		down := func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeTable") {
				return nil, io.EOF
			}
			return next.RoundTrip(r)
		}
		faults.set(down)
		time.Sleep(61 * time.Second)
		ask("plane down", "GetItem", "DescribeTable", "DescribeTable", "DescribeTable")
		ask("plane down, at once again")
		time.Sleep(4 * time.Second)
		ask("plane down, soon again")
		time.Sleep(2 * time.Second)
		ask("plane down, later", "GetItem", "DescribeTable", "DescribeTable", "DescribeTable")
		faults.set(nil)
		time.Sleep(6 * time.Second)
		ask("plane up", check...)
		faults.set(down)
		time.Sleep(9*time.Minute + 57*time.Second)
		ask("plane down for less than ten minutes", "GetItem", "DescribeTable", "DescribeTable", "DescribeTable")
		time.Sleep(4 * time.Second)
		if _, err := s.Generation(t.Context()); err == nil {
			t.Error("plane down for more than ten minutes: no error")
		}
		// An outcome waits for the plane as long as it may, a claim does not.
		n := completion(claim())
		start := time.Now()
		if _, err := s.Create(t.Context(), claim()); err == nil || errors.Is(err, idem.ErrAmbiguous) || time.Since(start) > time.Second {
			t.Errorf("claim, plane down: %v after %v", err, time.Since(start))
		}
		time.AfterFunc(5*time.Second, func() { faults.set(nil) })
		if _, err := s.Swap(t.Context(), idem.Version{1}, n); err != nil || time.Since(start) < 5*time.Second {
			t.Errorf("outcome, plane down for a while: %v after %v", err, time.Since(start))
		}
		time.Sleep(2 * time.Minute)
		faults.sent()
		ask("plane up at last", check...)

		// What the table itself says is never tolerated, and not forgotten by a plane that fails afterwards.
		f.control(strings.Replace(adopted, `"ti"`, `"su":{"S":"x"},"ti"`, 1))
		ask("within the minute")
		time.Sleep(61 * time.Second)
		if _, err := s.Generation(t.Context()); !errors.Is(err, dynamo.ErrNotAdopted) {
			t.Errorf("superseded: %v", err)
		}
		faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return nil, io.EOF })
		if _, err := s.Generation(t.Context()); err == nil {
			t.Error("superseded, then unreachable: no error")
		}
		faults.set(nil)
		f.control(adopted)
		if g, err := s.Generation(t.Context()); err != nil || g.Number != 3 {
			t.Errorf("adopted again: %v, %v", g.Number, err)
		}
		if _, err := s.Create(t.Context(), claim()); err == nil || errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("create of the old generation: %v", err)
		}
	})
}

// TestGuardAfterAFreeze has clocks that a frozen environment has: the wall clock jumps, or lags while the service's went on.
func TestGuardAfterAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		now := time.Now().Round(0) // without a monotonic reading
		s.SetClock(func() time.Time { return now })
		r := claim()
		create := func() error {
			r.ID.Key[0]++
			_, err := s.Create(t.Context(), r)
			return err
		}
		want := func(what string, calls ...string) {
			t.Helper()
			if err := create(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := faults.sent(); !slices.Equal(got, calls) {
				t.Errorf("%s: sent %v, want %v", what, got, calls)
			}
		}
		want("warm", "UpdateItem")
		now = now.Add(61 * time.Second)
		want("the wall clock jumped", "GetItem", "DescribeTable", "UpdateItem")
		now = now.Add(-time.Hour)
		want("the wall clock was set back", "GetItem", "DescribeTable", "UpdateItem")
		f.skew += time.Hour
		want("only the service's clock went on", "UpdateItem", "GetItem", "DescribeTable")
		want("warm again", "UpdateItem")
		f.skew += 64 * time.Second
		want("within the slack", "UpdateItem")

		// The table was replaced during the freeze, and the write went to the old one.
		f.skew += time.Hour
		f.control(strings.Replace(adopted, `"ti"`, `"su":{"S":"x"},"ti"`, 1))
		if err := create(); !errors.Is(err, dynamo.ErrNotAdopted) || !errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("written to the old table: %v", err)
		}
		faults.sent()
		if err := create(); !errors.Is(err, dynamo.ErrNotAdopted) || errors.Is(err, idem.ErrAmbiguous) || slices.Contains(faults.sent(), "UpdateItem") {
			t.Errorf("after that: %v", err)
		}
		f.control("")
		if err := create(); err != nil {
			t.Fatal(err)
		}
		f.skew += time.Hour
		f.control(adopted)
		if err := create(); err == nil || errors.Is(err, dynamo.ErrNotAdopted) || !errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("written under an old generation: %v", err)
		}
		r.Generation = 3
		if err := create(); err != nil {
			t.Fatal(err)
		}
		f.skew += time.Hour
		faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeTable") {
				return nil, io.EOF
			}
			return next.RoundTrip(r)
		})
		if err := create(); !errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("written, and the table could not be checked for an hour: %v", err)
		}
		if _, err := s.Load(t.Context(), r.ID); err == nil || errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("read, and the table could not be checked for an hour: %v", err)
		}
	})
}

// TestGuardOfALongWrite: an outcome that is repeated for minutes, while an operator adopts another table.
func TestGuardOfALongWrite(t *testing.T) {
	for name, control := range map[string]string{
		"superseded": strings.Replace(adopted, `"ti"`, `"su":{"S":"x"},"ti"`, 1), "adopted": adopted,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s, faults := f.open(t, nil)
				r := claim()
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
					if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
						return throttled(r, next)
					}
					return next.RoundTrip(r)
				})
				start := time.Now()
				f.control(control)
				n := completion(r)
				got, err := s.Swap(t.Context(), r.Version, n)
				if o := outcomeOf(t, n, got, err); o != final || errors.Is(err, dynamo.ErrNotAdopted) != (name == "superseded") {
					t.Errorf("%s, %v", o, err)
				}
				if d := time.Since(start); d < 59*time.Second || d > 62*time.Second {
					t.Errorf("went on for %v", d)
				}
			})
		})
	}
}
