package idem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Result is a recorded success. Value is decoded from Raw on every path, the first run included, so that the first answer and
// every replay are equal.
type Result[T any] struct {
	Value   T
	Raw     json.RawMessage // as recorded
	Outcome Outcome
	_       struct{}
}

// Outcome says how a [Result] came about.
type Outcome uint8

const (
	Executed   Outcome = iota + 1 // the function ran for this request
	Replayed                      // it was recorded before
	Reconciled                    // this request's reconciler established it
)

// String names the outcome.
func (o Outcome) String() string {
	if names := [...]string{"", "executed", "replayed", "reconciled"}; o > 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// None is the result of an operation that has none, and the input of a handler without one. It is null in JSON.
type None struct{}

// MarshalJSON gives null.
func (None) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// UnmarshalJSON takes anything.
func (*None) UnmarshalJSON([]byte) error { return nil }

// product is what a function gave: a result, and why it cannot be kept, if so.
type product struct {
	raw    json.RawMessage
	unkept error
}

// made is the product of a function that returned.
func made[T any](v T, err error) (product, error) {
	if err != nil {
		return product{}, err
	}
	raw, err := encode(v)
	return product{raw, err}, nil
}

// encode is how a result is recorded and answered: like the Lambda runtime does it, without HTML escapes. Raw JSON stays as it is,
// to the byte. A method of the value that panics leaves it without a form; what it was about has happened all the same.
func encode[T any](v T) (raw json.RawMessage, err error) {
	if raw, ok := any(v).(json.RawMessage); ok {
		return raw, nil
	}
	defer func() {
		if recover() != nil {
			raw, err = nil, noForm[T]()
		}
	}()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // what it says may quote the value
		return nil, noForm[T]()
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func noForm[T any]() error {
	return fmt.Errorf("a value of type %v has no JSON form", reflect.TypeFor[T]())
}

func decode[T any](raw json.RawMessage) (v T, err error) {
	if p, ok := any(&v).(*json.RawMessage); ok {
		if len(raw) > 0 { // nil and empty are the same, in the first answer as in a replay
			*p = raw
		}
		return v, nil
	}
	if json.Unmarshal(raw, &v) != nil {
		return v, fmt.Errorf("it does not decode as %T", v) // the cause may quote it
	}
	return v, nil
}

// answer is a result without its type.
type answer struct {
	raw     json.RawMessage
	outcome Outcome
}

// failure is what a recorded final failure is sealed as, and evidence what a replaced attempt leaves.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type evidence struct {
	Result  *json.RawMessage `json:"result,omitempty"`
	Failure *failure         `json:"failure,omitempty"`
}

const maxMessage = 1 << 10 // bytes of a recorded error message

// failureOf is an error as the Lambda runtime reports it: under its type's bare name. An error that brings its name with it keeps
// it: a replayed FailedError, and messages.InvokeResponse_Error of aws-lambda-go, known here by its name alone.
func failureOf(err error) failure {
	for {
		a, ok := err.(*answered)
		if !ok {
			break
		}
		err = a.err
	}
	t, m := reflect.TypeOf(err), messageOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f := failure{t.Name(), ""}
	if e, ok := err.(*FailedError); ok {
		f.Type = e.Type
	} else if v := reflect.ValueOf(err); f.Type == "InvokeResponse_Error" && v.Kind() == reflect.Struct {
		f.Type, m = v.FieldByName("Type").String(), v.FieldByName("Message").String()
	}
	if len(m) > maxMessage {
		m = m[:maxMessage]
		for !utf8.ValidString(m) && len(m) > maxMessage-utf8.UTFMax {
			m = m[:len(m)-1]
		}
	}
	f.Message = m
	return f
}

func messageOf(err error) (m string) {
	defer func() {
		if recover() != nil {
			m = "its Error method panics"
		}
	}()
	return err.Error()
}

// sealed seals a text for a record. An attempt's fence may be older than the record's.
func (c *call) sealed(k kind, fence uint64, text []byte) (Sealed, error) {
	b, err := c.seal(nil, bindingV1(c.id, c.fingerprint, k, fence), text)
	return Sealed{Fence: fence, Bytes: b}, err
}

// open gives what was sealed into a record.
func open(ctx context.Context, s Sealer, r Record, k kind, from Sealed) ([]byte, error) {
	return s.Open(ctx, scope(r.ID), nil, bindingV1(r.ID, r.Fingerprint, k, from.Fence), from.Bytes)
}

// fetched is a terminal record with its receipt in hand, wherever the store keeps it.
func (e *engine) fetched(ctx context.Context, r Record) (Record, error) {
	if len(r.Receipt.Bytes) > 0 || r.Receipt.Ref == "" {
		return r, nil
	}
	full, err := e.store.Fetch(ctx, r)
	switch {
	case err == nil:
		return full, nil
	case retryable(err, true):
		return r, &UnavailableError{ID: r.ID.String(), Err: err} // for this request nothing ran
	}
	return r, &UnreadableError{ID: r.ID.String(), Err: err}
}

// replay answers with what a terminal record holds.
func (e *engine) replay(ctx context.Context, r Record, how Outcome) (answer, error) {
	id := r.ID.String()
	if r.State == Completed && r.Receipt.empty() {
		return answer{}, &UnreadableError{ID: id, Err: errNotKept}
	}
	k := kindResult
	if r.State == Failed {
		k = kindFailure
	}
	text, err := open(ctx, e.sealer, r, k, r.Receipt)
	switch {
	case err != nil && retryable(err, false):
		return answer{}, &UnavailableError{ID: id, Err: err} // for this request nothing ran
	case err != nil:
		return answer{}, &UnreadableError{ID: id, Err: err}
	case r.State == Completed:
		return answer{text, how}, nil
	}
	var f failure
	if json.Unmarshal(text, &f) != nil {
		return answer{}, &UnreadableError{ID: id, Err: errors.New("the recorded failure does not decode")}
	}
	return answer{}, &FailedError{ID: id, Type: f.Type, Message: f.Message}
}
