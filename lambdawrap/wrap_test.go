package lambdawrap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

type order struct {
	Merchant, ID string
	Amount       json.Number
}

type receipt struct{ Text string }

func identify(_ context.Context, o order) (idem.Request, error) {
	if o.ID == "" {
		return idem.Request{}, errNoID
	}
	return idem.Request{Tenant: o.Merchant, Key: o.ID}, nil
}

var errNoID = errors.New("order without id")

func invoked(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func operation[T any](t testing.TB, store idem.Store, o *idem.Options) *idem.Operation[T] {
	t.Helper()
	op, err := idem.New[T](store, idem.InsecureCleartext(), "charge", o)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

const event = `{"Merchant":"acme","ID":"o-1","Amount":12345678901234567890}`

func TestHandlerRunsOnceAndReplaysItsBytes(t *testing.T) {
	runs := 0
	h := lambdawrap.Wrap(operation[receipt](t, idemtest.NewMemory(t), nil), identify, func(_ context.Context, o order) (receipt, error) {
		runs++
		return receipt{Text: "<paid> " + o.Amount.String()}, nil
	})
	var first []byte
	for k, sent := range []string{event, event, ` { "ID":"o-1", "Merchant":"acme", "Amount":12345678901234567890 } `} {
		got, err := h.Invoke(invoked(t), []byte(sent))
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			first = got
		}
		if string(got) != `{"Text":"<paid> 12345678901234567890"}` || !bytes.Equal(got, first) {
			t.Errorf("delivery %d: %s", k, got)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// The fingerprint is of the event as sent: also of members that the handler's type does not have.
func TestAnotherEventUnderTheKeyIsAMismatch(t *testing.T) {
	h := lambdawrap.Wrap(operation[receipt](t, idemtest.NewMemory(t), nil), identify, func(context.Context, order) (receipt, error) { return receipt{}, nil })
	if _, err := h.Invoke(invoked(t), []byte(event)); err != nil {
		t.Fatal(err)
	}
	for _, sent := range []string{strings.Replace(event, "890}", "891}", 1), strings.Replace(event, "}", `,"new":1}`, 1)} {
		_, err := h.Invoke(invoked(t), []byte(sent))
		if _, ok := err.(*idem.MismatchError); !ok {
			t.Errorf("%s: got %T", sent, err)
		}
	}
}

func TestBadEventsRunNothing(t *testing.T) {
	store := idemtest.NewMemory(t)
	h := lambdawrap.Wrap(operation[receipt](t, store, nil), identify, func(context.Context, order) (receipt, error) {
		t.Error("the handler ran")
		return receipt{}, nil
	})
	for _, sent := range []string{``, `{`, `[]`, `{"Merchant":"a","ID":"x"} {}`, `{"Merchant":"a","ID":"s3cret","ID":"s3cret"}`, `{"Merchant":1}`, `{"Merchant":"","ID":"s3cret"}`} {
		_, err := h.Invoke(invoked(t), []byte(sent))
		e, ok := err.(*idem.RequestError)
		if !ok {
			t.Errorf("%s: got %T (%v)", sent, err, err)
			continue
		}
		if strings.Contains(e.Error(), "s3cret") {
			t.Errorf("tells %v", e)
		}
	}
	if _, err := h.Invoke(invoked(t), []byte(`{"Merchant":"a"}`)); err != errNoID {
		t.Errorf("got %v, want the id function's own error", err)
	}
	if len(store.Records()) != 0 {
		t.Error("something was written")
	}
}

func TestRawHandlersKeepTheirBytes(t *testing.T) {
	for _, want := range []string{` {"b": 1,"a":12345678901234567890} `, "\"<>&\u2028\"", "null"} {
		h := lambdawrap.Wrap(operation[json.RawMessage](t, idemtest.NewMemory(t), nil),
			func(context.Context, json.RawMessage) (idem.Request, error) {
				return idem.Request{Tenant: "a", Key: "k"}, nil
			},
			func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
				if string(in) != event {
					t.Errorf("handler got %s", in)
				}
				return json.RawMessage(want), nil
			})
		for range 2 {
			got, err := h.Invoke(invoked(t), []byte(event))
			if err != nil || string(got) != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
	}
}

func TestHandlerWithoutInputOrOutput(t *testing.T) {
	h := lambdawrap.Wrap(operation[idem.None](t, idemtest.NewMemory(t), nil),
		func(context.Context, idem.None) (idem.Request, error) {
			return idem.Request{Tenant: "a", Key: "k"}, nil
		},
		func(context.Context, idem.None) (idem.None, error) { return idem.None{}, nil })
	for range 2 {
		got, err := h.Invoke(invoked(t), []byte(`{"any":"thing"}`))
		if err != nil || string(got) != "null" {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// CardDeclined is an error whose name Step Functions matches.
type CardDeclined struct{}

func (*CardDeclined) Error() string { return "card declined" }

// reported is the errorType that the Lambda runtime reports.
func reported(err error) (name, message string) {
	if e, ok := err.(messages.InvokeResponse_Error); ok {
		return e.Type, e.Message
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name(), err.Error()
}

func TestFinalFailureHasOneNameOnEveryDelivery(t *testing.T) {
	for _, fail := range []error{&CardDeclined{}, messages.InvokeResponse_Error{Type: "CardDeclined", Message: "card declined"}} {
		h := lambdawrap.Wrap(operation[receipt](t, idemtest.NewMemory(t), nil), identify, func(context.Context, order) (receipt, error) {
			return receipt{}, idem.Final(fail)
		})
		for k := range 3 {
			_, err := h.Invoke(invoked(t), []byte(event))
			if name, message := reported(err); name != "CardDeclined" || message != "card declined" {
				t.Errorf("delivery %d: %s, %s", k, name, message)
			}
		}
	}
}

func TestErrorTypeNamesAreAsDocumented(t *testing.T) {
	want := map[string]bool{}
	got := func(err error) { name, _ := reported(err); want[name] = true }
	store := idemtest.NewMemory(t)
	op := operation[receipt](t, store, nil)
	h := lambdawrap.Wrap(op, identify, func(context.Context, order) (receipt, error) { return receipt{}, errors.New("who knows") })
	_, err := h.Invoke(invoked(t), []byte(event))
	got(err)
	_, err = h.Invoke(invoked(t), []byte(event))
	got(err)
	_, err = h.Invoke(invoked(t), []byte(`{"Merchant":"acme","ID":"o-1"}`))
	got(err)
	_, err = h.Invoke(t.Context(), []byte(event))
	got(err)
	store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
	_, err = h.Invoke(invoked(t), []byte(event))
	got(err)
	for _, name := range []string{"errorString", "IndeterminateError", "MismatchError", "RequestError", "UnavailableError"} {
		if !want[name] {
			t.Errorf("%s was not reported: %v", name, want)
		}
	}
}

func TestHandlerMayKeepTheEvent(t *testing.T) {
	var kept json.RawMessage
	h := lambdawrap.Wrap(operation[idem.None](t, idemtest.NewMemory(t), nil),
		func(context.Context, json.RawMessage) (idem.Request, error) {
			return idem.Request{Tenant: "a", Key: "k"}, nil
		},
		func(_ context.Context, in json.RawMessage) (idem.None, error) { kept = in; return idem.None{}, nil })
	sent := []byte(event)
	h.Invoke(invoked(t), sent)
	copy(sent, "overwritten by the next invocation")
	if string(kept) != event {
		t.Errorf("kept %s", kept)
	}
}

func TestWrapRefusesNil(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	lambdawrap.Wrap[order, receipt](nil, identify, nil)
}

func ExampleWrap() {
	charge := func(ctx context.Context, o order) (receipt, error) { return receipt{Text: "paid"}, nil }

	op, err := idem.New[receipt](idemtest.NewMemory(nil), idem.InsecureCleartext(), "charge", nil)
	if err != nil {
		panic(err)
	}
	handler := lambdawrap.Wrap(op, identify, charge)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		out, err := handler.Invoke(ctx, []byte(event))
		fmt.Println(string(out), err)
	}
	// Output:
	// {"Text":"paid"} <nil>
	// {"Text":"paid"} <nil>
}
