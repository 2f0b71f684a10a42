package idem

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of what identifies an intent.
const (
	maxTenant    = 256     // bytes
	maxKey       = 255     // bytes
	maxOperation = 64      // bytes
	maxPayload   = 6 << 20 // bytes, canonical
)

// Request identifies one intent.
type Request struct {
	// Tenant is the owner of the key as the server knows it, never as the request's body says: 1 to 256 bytes of UTF-8 without
	// control characters. Empty iff the operation is SingleTenant.
	Tenant string

	// Key is the caller's idempotency key: 1 to 255 bytes of UTF-8 without control characters. Only its SHA-256 is kept.
	Key string

	// Payload is what must be equal in every request under the key; at most 6 MB. json.RawMessage is compared as JSON:
	// white space, member order and escapes do not matter, numbers as they are written do (1 and 1.0 differ), and what is no
	// JSON, has duplicate members or invalid UTF-8 is refused. []byte is compared byte for byte. [AnyPayload] says that the
	// key alone identifies the intent. Any other value is marshalled to JSON first, so adding a field to its type changes
	// the fingerprint: give the request as it was sent where there is one.
	Payload any

	// Issued is when the key was made, if the key itself proves it, as a UUIDv7 or ULID does; message times do not count. A key
	// older than the operation's Retain is refused: it may have been used and forgotten.
	Issued time.Time

	_ struct{}
}

// AnyPayload is a [Request] Payload that equals every other AnyPayload: the key alone identifies the intent.
type AnyPayload struct{}

// id validates everything that addresses the record.
func (r Request) id(operation string, single bool) (ID, error) {
	switch {
	case single && r.Tenant != "":
		return ID{}, errors.New("Request.Tenant is set, but the operation is SingleTenant")
	case !single && r.Tenant == "":
		return ID{}, errors.New("Request.Tenant is empty")
	case r.Key == "":
		return ID{}, errors.New("Request.Key is empty")
	}
	if err := checkText("Request.Tenant", r.Tenant, maxTenant); err != nil {
		return ID{}, err
	}
	if err := checkText("Request.Key", r.Key, maxKey); err != nil {
		return ID{}, err
	}
	return ID{Tenant: r.Tenant, Operation: operation, Key: sha256.Sum256([]byte(r.Key))}, nil
}

// checkText never repeats the text.
func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s has %d bytes: at most %d", field, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not valid UTF-8", field)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s contains a control character", field)
	}
	return nil
}

// Kinds of payload; the kind is hashed, so that equal bytes of different kinds differ.
const (
	payloadAny byte = iota + 1
	payloadRaw
	payloadJSON
)

// fingerprint is a SHA-256 over the ID and the canonical payload.
func (r Request) fingerprint(id ID) ([32]byte, error) {
	k, text, err := canonical(r.Payload)
	switch {
	case err != nil:
		return [32]byte{}, err
	case len(text) > maxPayload:
		return [32]byte{}, fmt.Errorf("Request.Payload has %d bytes: at most %d", len(text), maxPayload)
	}
	d := id.Digest()
	return digest("idem fingerprint v1", d[:], []byte{k}, text), nil
}

func canonical(payload any) (byte, []byte, error) {
	switch p := payload.(type) {
	case nil:
		return 0, nil, errors.New("Request.Payload is nil: AnyPayload{} says that the key alone identifies the intent")
	case AnyPayload:
		return payloadAny, nil, nil
	case []byte:
		return payloadRaw, p, nil
	case json.RawMessage:
		return canonicalJSON(p)
	case jsontext.Value:
		return canonicalJSON(p)
	default:
		b, err := json.Marshal(p)
		if err != nil {
			return 0, nil, fmt.Errorf("Request.Payload of type %T cannot be encoded as JSON", p) // the cause may quote the value
		}
		return canonicalJSON(b)
	}
}

// canonicalJSON is RFC 8785 except for numbers, which stay as written: that RFC rounds them to doubles, and two amounts of 20
// digits must not become equal.
func canonicalJSON(b []byte) (byte, []byte, error) {
	if len(b) > 2*maxPayload { // white space may go, but not so much of it
		return 0, nil, fmt.Errorf("Request.Payload has %d bytes: at most %d", len(b), maxPayload)
	}
	v := jsontext.Value(b).Clone()
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err == nil {
		return payloadJSON, v, nil
	}
	switch syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return 0, nil, errors.New("Request.Payload has an object with a duplicate member")
	case ok:
		return 0, nil, fmt.Errorf("Request.Payload is not valid JSON at byte %d", syntactic.ByteOffset) // the cause quotes it
	}
	return 0, nil, errors.New("Request.Payload is not valid JSON")
}
