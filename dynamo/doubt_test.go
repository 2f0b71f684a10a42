package dynamo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
)

// TestLateRequest has the first attempt arrive when everything is over.
func TestLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, faults := newFake().open(t, nil)
		var late []*http.Request
		hold := func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			held := r.Clone(context.WithoutCancel(r.Context()))
			held.Body = io.NopCloser(strings.NewReader(string(body)))
			late = append(late, held)
			return nil, io.EOF
		}
		first := func() {
			faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if i == 0 {
					return hold(r, next)
				}
				return next.RoundTrip(r)
			})
		}
		r := claim()
		first()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		n := completion(r)
		first()
		if _, err := s.Swap(t.Context(), r.Version, n); err != nil {
			t.Fatal(err)
		}
		for _, held := range late {
			resp, err := faults.next.RoundTrip(held)
			if err != nil || resp.StatusCode != 400 {
				t.Errorf("late request: %v", err)
			}
		}
		if got, err := s.Load(t.Context(), r.ID); err != nil || got.Version != n.Version || got.State != idem.Completed {
			t.Errorf("after late requests: %v %v", got.State, err)
		}
	})
}

// TestReplacedMeanwhile: our write was applied, its answer lost, and somebody replaced it before we asked again.
func TestReplacedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		other, _ := f.open(t, nil)
		r := claim()
		n := completion(r)
		n.Version = idem.Version{99}
		faults.set(func(i int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if i > 0 {
				return next.RoundTrip(req)
			}
			resp, err := lose(req, next)
			if _, serr := other.Swap(t.Context(), r.Version, n); serr != nil {
				t.Error(serr)
			}
			return resp, err
		})
		got, err := s.Create(t.Context(), r)
		if err != nil || got.Version != n.Version || got.State != idem.Completed {
			t.Errorf("got %v of version %x, %v; want the record that replaced ours", got.State, got.Version, err)
		}
	})
}

// TestRefusalWithoutItem: an engine that knows no ALL_OLD.
func TestRefusalWithoutItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		r, n := claim(), claim()
		n.Version = idem.Version{5}
		if got, err := s.Swap(t.Context(), idem.Version{9}, r); err != nil || got.State != 0 || got.At.IsZero() || len(faults.sent()) != 1 {
			t.Errorf("swap of an absent record: %v, %v", got.State, err)
		}
		if got, err := s.Load(t.Context(), r.ID); err != nil || got.State != 0 {
			t.Errorf("swap made a record: %v, %v", got.State, err)
		}
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		faults.sent()
		blind := changed(func(b []byte) []byte { return []byte(`{"__type":"x#ConditionalCheckFailedException"}`) })
		faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := pass(r, next)
			if err == nil && resp.StatusCode == 400 {
				resp.Header.Del("X-Amz-Crc32")
				return blind(r, transportOf(resp))
			}
			return resp, err
		})
		got, err := s.Create(t.Context(), n)
		if calls := faults.sent(); err != nil || got.Version != r.Version || !slices.Equal(calls, []string{"UpdateItem", "GetItem"}) {
			t.Errorf("refused create: version %x, %v, calls %v", got.Version, err, calls)
		}
		if got, err = s.Create(t.Context(), r); err != nil || got.Version != r.Version {
			t.Errorf("own create again: version %x, %v", got.Version, err)
		}
		// Refused, and then nothing is there: an attempt that is still under way could be applied.
		n.ID.Key[0]++
		nothing := instead(400, `{"__type":"x#ConditionalCheckFailedException"}`)
		steps := []step{nothing}
		faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if i < len(steps) {
				return steps[i](r, next)
			}
			return next.RoundTrip(r)
		})
		if got, err := s.Create(t.Context(), n); err != nil || got.State != 0 {
			t.Errorf("refused, nothing there: %v, %v", got.State, err)
		}
		steps = []step{fails(io.EOF), nothing}
		faults.set(faults.fault)
		if got, err := s.Create(t.Context(), n); outcomeOf(t, n, got, err) != unclear {
			t.Errorf("lost, then refused, nothing there: %v", err)
		}
		steps = []step{fails(io.EOF), nothing, denied}
		faults.set(faults.fault)
		if got, err := s.Create(t.Context(), n); outcomeOf(t, n, got, err) != unclear {
			t.Errorf("lost, then refused, and nobody may look: %v", err)
		}
	})
}

// transportOf answers with resp.
type fixed struct{ resp *http.Response }

func transportOf(resp *http.Response) http.RoundTripper { return fixed{resp} }

func (f fixed) RoundTrip(*http.Request) (*http.Response, error) { return f.resp, nil }

// TestContradiction: a refusal that shows the version it asked for decides nothing.
func TestContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		r := claim()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var shown string
		faults.set(func(i int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && resp.StatusCode == 400 {
				b, _ := io.ReadAll(resp.Body)
				shown = string(b)
				resp.Body = io.NopCloser(strings.NewReader(shown))
			}
			return resp, err
		})
		if _, err := s.Create(t.Context(), r); err != nil || shown == "" {
			t.Fatal(err)
		}
		n := r
		n.Version = idem.Version{2}
		faults.set(func(i int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
			return instead(400, shown)(req, next)
		})
		if got, err := s.Swap(t.Context(), r.Version, n); outcomeOf(t, n, got, err) != unclear {
			t.Errorf("refused for ever although the condition holds: %v", err)
		}
	})
}

// TestUnreadableHolder: what cannot be read is an error, and only in doubt if the write itself is.
func TestUnreadableHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		r := claim()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		f.items[`{"S":"`+dynamo.Key(r.ID)+`"}`]["fo"] = []byte(`{"N":"3"}`)
		n := completion(r)
		n.Version = idem.Version{9}
		if got, err := s.Swap(t.Context(), idem.Version{8}, n); outcomeOf(t, n, got, err) != final || !strings.Contains(err.Error(), "newer") {
			t.Errorf("refused by a newer record: %v", err)
		}
		// The version is ours: it is applied, whatever else is in the item.
		if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != stored {
			t.Errorf("own record: %v", err)
		}
		faults.set(func(i int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if i == 0 {
				return nil, io.EOF
			}
			return next.RoundTrip(req)
		})
		if got, err := s.Swap(t.Context(), idem.Version{8}, n); outcomeOf(t, n, got, err) != unclear {
			t.Errorf("lost, then refused by a newer record: %v", err)
		}
		if _, err := s.Load(t.Context(), r.ID); err == nil || errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("load of a newer record: %v", err)
		}
	})
}

func TestReadsAreNeverInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, faults := newFake().open(t, nil)
		r := claim()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for name, step := range map[string]step{"lost": lose, "500": says(500, "InternalServerError"), "hangs": hangs, "empty": instead(200, ""), "cut": breaks(io.ErrUnexpectedEOF)} {
			faults.sent()
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return step(r, next) })
			got, err := s.Load(t.Context(), r.ID)
			if o := outcomeOf(t, r, got, err); o != passing || len(faults.sent()) != 3 {
				t.Errorf("%s: %s, %v", name, o, err)
			}
		}
		// An item of another record is not taken for the one asked for.
		faults.set(nil)
		other := r.ID
		other.Tenant = "tenant-2"
		faults.set(changedRequest(dynamo.Key(other), dynamo.Key(r.ID)))
		if got, err := s.Load(t.Context(), other); err == nil {
			t.Errorf("item of another record: %+v", got.ID)
		}
	})
}

// changedRequest replaces a text in every request.
func changedRequest(text, by string) func(int, *http.Request, http.RoundTripper) (*http.Response, error) {
	return func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), text, by)))
		return next.RoundTrip(r)
	}
}
