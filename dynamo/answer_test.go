package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
)

// outcome is how a call ends: stored, or an error of one of three kinds.
type outcome string

const (
	stored  outcome = "stored"
	passing outcome = "not applied, may help to retry"
	final   outcome = "not applied, no use to retry"
	unclear outcome = "ambiguous"
)

func outcomeOf(t *testing.T, r idem.Record, got idem.Record, err error) outcome {
	t.Helper()
	var retry interface{ Retryable() bool }
	switch {
	case err == nil && got.Version == r.Version:
		return stored
	case err == nil:
		t.Errorf("got a record of version %x", got.Version)
		return ""
	case !errors.As(err, &retry):
		t.Errorf("error has no Retryable: %v", err)
	}
	for _, word := range []string{"secret", "tenant-1", "AQEB"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("error shows %s: %v", word, err)
		}
	}
	switch {
	case errors.Is(err, idem.ErrAmbiguous):
		return unclear
	case retry.Retryable():
		return passing
	}
	return final
}

func claim() idem.Record {
	r := idem.Record{ID: idem.ID{Tenant: "tenant-1", Operation: "charge"}, Version: idem.Version{1}, State: idem.Pending, Begun: true, Fence: 7, Life: 7}
	for i := range r.ID.Key {
		r.ID.Key[i] = 1
	}
	r.Lease = time.Now().Add(time.Minute)
	return r
}

func completion(r idem.Record) idem.Record {
	r.Version[0]++
	r.State, r.Receipt, r.Expires = idem.Completed, idem.Sealed{Fence: 7, Bytes: []byte("sealed")}, time.Now().Add(time.Hour)
	return r
}

// TestAnswers is the table of what each kind of answer means for a claim, and for the record of an outcome with ten seconds left. Where
// an answer of an applied write is lost, the next attempt meets the item of the first: that must be found out.
func TestAnswers(t *testing.T) {
	repeat := func(s step, n int) []step { return slices.Repeat([]step{s}, n) }
	for name, row := range map[string]struct {
		steps   []step
		claim   outcome
		sent    int
		outcome outcome
		again   int // sent for the outcome; 0: any number
		is      error
	}{
		"at once":                     {steps: nil, claim: stored, sent: 1, outcome: stored, again: 1},
		"applied, answer lost":        {steps: []step{lose}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, answers lost":       {steps: repeat(lose, 2), claim: stored, sent: 3, outcome: stored, again: 3},
		"applied, no answer ever":     {steps: repeat(lose, 99), claim: unclear, sent: 3, outcome: unclear},
		"applied, 500":                {steps: []step{after(says(500, "InternalServerError"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 503 of a proxy":     {steps: []step{after(instead(503, "<html>"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 200 empty":          {steps: []step{after(instead(200, ""))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 200 no JSON":        {steps: []step{after(instead(200, "<html>"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 400 empty":          {steps: []step{after(instead(400, ""))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 408 of a proxy":     {steps: []step{after(instead(408, "timeout"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, 302 of a portal":    {steps: []step{after(instead(302, "{}"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, cut in mid-body":    {steps: []step{breaks(io.ErrUnexpectedEOF)}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, closed in mid-body": {steps: []step{breaks(errClosedConn)}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, bits flipped":       {steps: []step{changed(func(b []byte) []byte { return []byte(`{ }`) })}, claim: stored, sent: 2, outcome: stored, again: 2},
		"applied, attempt timed out":  {steps: []step{after(hangs)}, claim: stored, sent: 2, outcome: stored, again: 2},
		"not applied, timed out":      {steps: []step{hangs}, claim: stored, sent: 2, outcome: stored, again: 2},
		"never answered":              {steps: repeat(hangs, 99), claim: unclear, sent: 3, outcome: unclear},
		"500 before":                  {steps: repeat(says(500, "InternalServerError"), 2), claim: stored, sent: 3, outcome: stored, again: 3},
		"500 for ever":                {steps: repeat(says(500, "InternalServerError"), 99), claim: unclear, sent: 3, outcome: unclear},
		"unknown code":                {steps: repeat(says(400, "NewException"), 99), claim: unclear, sent: 3, outcome: unclear},
		"throttled twice":             {steps: repeat(throttled, 2), claim: stored, sent: 3, outcome: stored, again: 3},
		"throttled ten times":         {steps: repeat(throttled, 10), claim: passing, sent: 3, outcome: stored, again: 11},
		"throttled for ever":          {steps: repeat(throttled, 999), claim: passing, sent: 3, outcome: passing},
		"hot key":                     {steps: repeat(hotKey, 999), claim: passing, sent: 3, outcome: passing, is: dynamo.ErrHotKey},
		"lost, then throttled":        {steps: append(repeat(lose, 1), repeat(throttled, 999)...), claim: unclear, sent: 3, outcome: unclear},
		"lost, throttled, then found": {steps: append(repeat(lose, 1), throttled), claim: stored, sent: 3, outcome: stored, again: 3},
		"lost, then denied":           {steps: []step{lose, denied}, claim: unclear, sent: 2, outcome: unclear, again: 2},
		"denied":                      {steps: []step{denied}, claim: final, sent: 1, outcome: final, again: 1},
		"throttled, then denied":      {steps: []step{throttled, denied}, claim: final, sent: 2, outcome: final, again: 2},
		"connection refused":          {steps: repeat(fails(errRefusedDial), 999), claim: passing, sent: 3, outcome: passing},
		"connection refused twice":    {steps: repeat(fails(errRefusedDial), 2), claim: stored, sent: 3, outcome: stored, again: 3},
		"no such host":                {steps: repeat(fails(errNoSuchHost), 999), claim: passing, sent: 3, outcome: passing},
		"lost, then no such host":     {steps: append(repeat(lose, 1), repeat(fails(errNoSuchHost), 999)...), claim: unclear, sent: 3, outcome: unclear},
		"EOF on a reused connection":  {steps: []step{fails(io.EOF)}, claim: stored, sent: 2, outcome: stored, again: 2},
		"reset":                       {steps: []step{fails(errors.New("read: connection reset by peer"))}, claim: stored, sent: 2, outcome: stored, again: 2},
		"closed connection":           {steps: []step{fails(errClosedConn)}, claim: stored, sent: 2, outcome: stored, again: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, faults := newFake().open(t, nil)
				play := func(steps []step) {
					faults.sent()
					faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
						if i < len(steps) {
							return steps[i](r, next)
						}
						return next.RoundTrip(r)
					})
				}
				check := func(what string, want outcome, sent int, r, got idem.Record, err error) {
					t.Helper()
					if o := outcomeOf(t, r, got, err); o != want {
						t.Errorf("%s: %s, want %s; error %v", what, o, want, err)
					}
					calls := faults.sent()
					if sent > 0 && len(calls) != sent || sent == 0 && len(calls) < 8 {
						t.Errorf("%s: sent %d requests, want %d", what, len(calls), sent)
					}
					if row.is != nil && !errors.Is(err, row.is) {
						t.Errorf("%s: error %v, want %v", what, err, row.is)
					}
				}
				r := claim()
				play(row.steps)
				start := time.Now()
				got, err := s.Create(t.Context(), r)
				check("claim", row.claim, row.sent, r, got, err)
				if d := time.Since(start); d > 3500*time.Millisecond {
					t.Errorf("claim took %v", d)
				}

				play(nil)
				if got, err := s.Create(t.Context(), r); err != nil || got.Version != r.Version { // there now, if it was not
					t.Fatalf("claim again: %v", err)
				}
				n := completion(r)
				play(row.steps)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				got, err = s.Swap(ctx, r.Version, n)
				check("outcome", row.outcome, row.again, n, got, err)
				if ctx.Err() == nil && (row.outcome == passing) {
					if d, _ := ctx.Deadline(); time.Until(d) > 100*time.Millisecond {
						t.Errorf("gave up %v before the context was done", time.Until(d))
					}
				}
				play(nil)
				if got, err := s.Load(t.Context(), r.ID); err != nil || row.outcome == stored && got.Version != n.Version {
					t.Errorf("load: version %x, %v", got.Version, err)
				}
			})
		})
	}
}

// TestCodes has every error code the store knows, and what it makes of it.
func TestCodes(t *testing.T) {
	once := map[outcome]string{
		passing: "ProvisionedThroughputExceededException ThrottlingException Throttling ThrottledException RequestThrottledException " +
			"RequestLimitExceeded TooManyRequestsException LimitExceededException TransactionConflictException ReplicatedWriteConflictException",
		unclear: "TransactionInProgressException InternalServerError InternalFailure ServiceUnavailable RequestTimeout RequestTimeoutException",
		final: "AccessDeniedException AccessDenied OptInRequired ResourceNotFoundException TableNotFoundException UnrecognizedClientException " +
			"InvalidClientTokenId MissingAuthenticationToken MissingAuthenticationTokenException IncompleteSignature IncompleteSignatureException " +
			"InvalidSignatureException SignatureDoesNotMatch AuthFailure RequestTimeTooSkewed RequestExpired ExpiredToken ExpiredTokenException " +
			"ValidationException ValidationError SerializationException UnknownOperationException InvalidEndpointException " +
			"IdempotentParameterMismatchException ItemCollectionSizeLimitExceededException",
	}
	seen := []string{"ConditionalCheckFailedException"}
	for want, codes := range once {
		for _, code := range strings.Fields(codes) {
			seen = append(seen, code)
			t.Run(code, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, faults := newFake().open(t, nil)
					faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
						return says(400, code)(r, next)
					})
					r := claim()
					got, err := s.Create(t.Context(), r)
					sent := 3
					if want == final {
						sent = 1
					}
					if o := outcomeOf(t, r, got, err); o != want || len(faults.sent()) != sent {
						t.Errorf("%s: %v, want %s after %d requests", o, err, want, sent)
					}
					if !strings.Contains(err.Error(), code) || !strings.Contains(err.Error(), "UpdateItem") {
						t.Errorf("message does not tell what happened: %v", err)
					}
					faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
						return says(500, code)(r, next)
					})
					if got, err = s.Create(t.Context(), r); outcomeOf(t, r, got, err) != unclear {
						t.Errorf("with status 500: %v, want it ambiguous", err)
					}
				})
			})
		}
	}
	if slices.Sort(seen); !slices.Equal(seen, dynamo.Codes()) {
		t.Errorf("the store knows %v\nthe test %v", dynamo.Codes(), seen)
	}
}

// TestCancellations is the table of the reasons for which a transaction is cancelled. The first reason is the record's.
func TestCancellations(t *testing.T) {
	for name, row := range map[string]struct {
		codes []string
		sent  int // in all; the last one goes through if it is more than one
		index int // of a CanceledError; -1: none
	}{
		"conflict":                      {[]string{"None", "TransactionConflict"}, 2, -1},
		"conflict of the record":        {[]string{"TransactionConflict", "None"}, 2, -1},
		"throttled":                     {[]string{"None", "ThrottlingError"}, 2, -1},
		"throughput":                    {[]string{"ProvisionedThroughputExceeded", "None"}, 2, -1},
		"conflict and throttled":        {[]string{"TransactionConflict", "ThrottlingError"}, 2, -1},
		"own condition":                 {[]string{"None", "ConditionalCheckFailed"}, 1, 0},
		"own condition and conflict":    {[]string{"TransactionConflict", "ConditionalCheckFailed"}, 1, 0},
		"conflict and second condition": {[]string{"None", "TransactionConflict", "ConditionalCheckFailed"}, 1, 1},
		"not valid":                     {[]string{"None", "None", "None", "ValidationError"}, 1, 2},
		"too large":                     {[]string{"None", "ItemCollectionSizeLimitExceeded"}, 1, 0},
		"unknown":                       {[]string{"None", "SomethingNew"}, 1, 0},
		"the record is not valid":       {[]string{"ValidationError", "None"}, 1, -1},
		"no reasons":                    {nil, 1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, faults := newFake().open(t, nil)
				faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
					if i == 0 {
						return canceledWith(row.codes...)(r, next)
					}
					return next.RoundTrip(r)
				})
				items := make([]types.TransactWriteItem, max(len(row.codes)-1, 1))
				for i := range items {
					items[i].Update = &types.Update{
						TableName: aws.String("records"), Key: keyAt(string(rune('a' + i))), UpdateExpression: aws.String("SET n = :n REMOVE x"),
						ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: "1"}},
					}
				}
				_, err := dynamo.Transact(t.Context(), export(t, s), asked("k"), func(context.Context) (json.RawMessage, []types.TransactWriteItem, error) {
					return json.RawMessage(`1`), items, nil
				})
				if calls := faults.sent(); len(calls) != row.sent {
					t.Errorf("sent %v, want %d", calls, row.sent)
				}
				own, canceled := errors.AsType[*dynamo.CanceledError](err)
				switch {
				case canceled != (row.index >= 0) || canceled && (own.Index != row.index || own.Code != row.codes[row.index+1]):
					t.Errorf("got %+v, %v; want item %d", own, err, row.index)
				case row.sent > 1 && err != nil, row.sent == 1 && err == nil:
					t.Errorf("error %v", err)
				case err != nil && (errors.Is(err, idem.ErrAmbiguous) || strings.Contains(err.Error(), "secret")):
					t.Errorf("error %v", err)
				}
				if _, again := idem.RetryAfter(err); again {
					t.Errorf("to be tried again: %v", err)
				}
			})
		})
	}
}
