package dynamo_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/idem-go/idem/dynamo"
)

// TestAnswersForEver: what a claim ends with if the same answer comes every time.
func TestAnswersForEver(t *testing.T) {
	for name, row := range map[string]struct {
		step step
		want outcome
		sent int
	}{
		"no JSON":             {instead(200, "<html>"), unclear, 3},
		"500 of a conflict":   {says(500, "TransactionConflictException"), unclear, 3},
		"reset while reading": {fails(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}), unclear, 3},
		"reset while writing": {fails(&net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}), unclear, 3},
		"no such host":        {fails(&net.DNSError{Err: "no such host", Name: "fake", IsNotFound: true}), passing, 3},
		"proxy is down":       {fails(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: syscall.ECONNREFUSED}), passing, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, faults := newFake().open(t, nil)
				faults.sent()
				faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) { return row.step(r, next) })
				r := claim()
				got, err := s.Create(t.Context(), r)
				if o := outcomeOf(t, r, got, err); o != row.want || len(faults.sent()) != row.sent {
					t.Errorf("%s, want %s; error %v", o, row.want, err)
				}
			})
		})
	}
}

// The service asks for less: a throttled request waits longer than one that got no answer.
func TestThrottledRequestsWaitLonger(t *testing.T) {
	pause := func(s step) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			store, faults := newFake().open(t, nil)
			steps := slices.Repeat([]step{s}, 2)
			faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if i < len(steps) {
					return steps[i](r, next)
				}
				return next.RoundTrip(r)
			})
			start := time.Now()
			if _, err := store.Create(t.Context(), claim()); err != nil {
				t.Error(err)
			}
			d = time.Since(start)
		})
		return d
	}
	if d := pause(throttled); d < 75*time.Millisecond || d > 150*time.Millisecond {
		t.Errorf("throttled twice: waited %v", d)
	}
	if d := pause(fails(errRefusedDial)); d < 15*time.Millisecond || d > 30*time.Millisecond {
		t.Errorf("not connected twice: waited %v", d)
	}
}

// An attempt has a second, and a second per megabyte more.
func TestLargeItemsHaveMoreTime(t *testing.T) {
	for _, size := range []int{10, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			s, faults := newFake().open(t, nil)
			r := claim()
			if _, err := s.Create(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			var first time.Duration
			faults.set(func(i int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if i > 0 {
					return next.RoundTrip(req)
				}
				start := time.Now()
				resp, err := hangs(req, next)
				first = time.Since(start)
				return resp, err
			})
			n := completion(r)
			n.Receipt.Bytes = make([]byte, size)
			if _, err := s.Swap(t.Context(), r.Version, n); err != nil {
				t.Error(err)
			}
			least := time.Second + time.Duration(size)*time.Microsecond
			if first < least || first > least+5*time.Millisecond {
				t.Errorf("%d bytes: the first attempt ended after %v, want %v", size, first, least)
			}
		})
	}
}

// TestCredentialsService: what the service that gives credentials answers says nothing about the write: that was never sent.
func TestCredentialsService(t *testing.T) {
	for code, want := range map[string]struct {
		outcome outcome
		tries   int
	}{
		"AccessDenied":        {final, 1},
		"InternalFailure":     {passing, 3},
		"RequestTimeout":      {passing, 3},
		"ThrottlingException": {passing, 3},
		"NewException":        {passing, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			var fail error
			tries := 0
			f := newFake()
			client := dynamodb.New(dynamodb.Options{
				BaseEndpoint: aws.String("http://fake"), Region: "eu-central-1", HTTPClient: &http.Client{Transport: f},
				Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
					if fail != nil {
						tries++
						return aws.Credentials{}, fail
					}
					return credentials(ctx)
				}),
			})
			s, err := dynamo.New(client, "records", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Generation(t.Context()); err != nil {
				t.Fatal(err)
			}
			fail = &smithy.GenericAPIError{Code: code, Message: "secret"}
			r := claim()
			got, err := s.Create(t.Context(), r)
			if o := outcomeOf(t, r, got, err); o != want.outcome || tries != want.tries {
				t.Errorf("%s: %s after %d tries, want %s after %d; %v", code, o, tries, want.outcome, want.tries, err)
			}
		})
	}
}

// deaf is an API that does not take options, so that nothing is known about what was sent.
type deaf struct {
	*dynamodb.Client
	err error
}

func (d *deaf) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return nil, d.err
}

// TestAPIThatTakesNoOptions: only an error that proves it says that nothing was sent.
func TestAPIThatTakesNoOptions(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want outcome
	}{
		"something":  {errors.New("something"), unclear},
		"not valid":  {&smithy.InvalidParamsError{}, final},
		"no form":    {&smithy.SerializationError{Err: errors.New("x")}, final},
		"not dialed": {errRefusedDial, passing},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &deaf{clientOver(newFake(), "http://fake"), row.err}
			s, err := dynamo.New(d, "records", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := claim()
			got, err := s.Create(t.Context(), r)
			if o := outcomeOf(t, r, got, err); o != row.want {
				t.Errorf("%s: %s, want %s; error %v", name, o, row.want, err)
			}
		})
	}
}
