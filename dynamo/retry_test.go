package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
)

// https://github.com/aws/aws-sdk-js-v3/issues/7605: after a thaw the guest's clock is minutes behind and the first request is
// refused as out of date. The SDK learns the difference from the Date of the refusal.
func TestSignatureOutOfDateIsRepeatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, faults := newFake().open(t, nil)
		late := func(code string, times int) {
			faults.sent()
			faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if i >= times {
					return next.RoundTrip(r)
				}
				resp, err := says(400, code)(r, next)
				resp.Header.Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
				return resp, err
			})
		}
		r := claim()
		late("InvalidSignatureException", 1)
		if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != stored || len(faults.sent()) != 2 {
			t.Errorf("signature out of date: %v", err)
		}
		// The clock is known by now: what is refused still is not repeated.
		n := completion(r)
		late("InvalidSignatureException", 99)
		if got, err := s.Swap(t.Context(), r.Version, n); outcomeOf(t, n, got, err) != final || len(faults.sent()) > 2 {
			t.Errorf("signature wrong: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and a denial is a denial, also where the SDK takes it for skew (aws-sdk-go-v2#3409)
		s, faults := newFake().open(t, nil)
		faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := denied(r, next)
			resp.Header.Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
			return resp, err
		})
		r := claim()
		if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != final || len(faults.sent()) != 1 {
			t.Errorf("denied by a service with another clock: %v", err)
		}
	})
}

func TestContextDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, faults := newFake().open(t, nil)
		r := claim()
		done, end := context.WithCancel(t.Context())
		end()
		if got, err := s.Create(done, r); outcomeOf(t, r, got, err) != passing || !errors.Is(err, context.Canceled) || len(faults.sent()) != 0 {
			t.Errorf("done before: %v", err)
		}
		for name, under := range map[string]step{"arrives": after(hangs), "does not arrive": hangs} {
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return under(r, next) })
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			got, err := s.Create(ctx, r)
			if outcomeOf(t, r, got, err) != unclear || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
				t.Errorf("done while the request %s: %v after %v", name, err, time.Since(start))
			}
			r.Version[1]++
		}
		// The last answer was definite and the context ends in the pause.
		r.ID.Key[0]++
		faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			return throttled(r, next)
		})
		ctx, cancelled := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancelled)
		if got, err := s.Create(ctx, r); outcomeOf(t, r, got, err) != passing || !errors.Is(err, context.Canceled) {
			t.Errorf("done in a pause: %v", err)
		}
		// A pause takes no more than half of the time that is left.
		faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if i == 0 {
				return throttled(r, next)
			}
			return next.RoundTrip(r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if got, err := s.Create(ctx, r); outcomeOf(t, r, got, err) != stored {
			t.Errorf("throttled with 20 ms left: %v", err)
		}
		r.ID.Key[0]++
		// One attempt's own timeout is not the caller's.
		faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return hangs(r, next) })
		if _, err := s.Create(t.Context(), r); errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("attempts timed out: %v", err)
		}
	})
}
