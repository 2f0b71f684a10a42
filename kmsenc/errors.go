package kmsenc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// What an [Error] is, for errors.Is.
var (
	// ErrUnavailable says that KMS did not answer, is throttling or is out of order. Nothing ran for want of a key, or what
	// ran before is known and only cannot be read now: the same request may be sent again.
	ErrUnavailable = errors.New("KMS is unavailable")

	// ErrRefused says that KMS will not do it, or that it was not asked because of a setting: the key is disabled, to be
	// deleted or not there, a right is missing, or the text was sealed with a key that is not allowed here. Somebody has to act.
	ErrRefused = errors.New("key refused")

	// ErrTampered says that a text was not sealed for this record, by these keys, in this namespace; or that it was altered. No
	// retry helps.
	ErrTampered = errors.New("sealed text refused")
)

// Error is the one type of error of a [Sealer]. Its text names KMS's operation, the key's ARN, the error code and the request id;
// it never has a plaintext, a data key, an encryption context or KMS's own text. The SDK's error is found by errors.As.
type Error struct {
	Kind error  // ErrUnavailable, ErrRefused or ErrTampered
	Call string // GenerateDataKey, Decrypt or ReEncrypt; empty if KMS has no part in it
	Key  string // ARN of the key that was asked for; empty with ErrTampered
	Code string // KMS's error code, if it gave one

	problem string
	err     error
	_       struct{}
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("kmsenc: ")
	if e.Call != "" && e.Kind != ErrTampered {
		fmt.Fprintf(&b, "%s with %s: ", e.Call, e.Key)
	}
	b.WriteString(e.problem)
	if d := detail(e.err); d != "" && e.Kind != ErrTampered {
		fmt.Fprintf(&b, " (%s)", d)
	}
	return b.String()
}

// Unwrap gives Kind and the cause.
func (e *Error) Unwrap() []error {
	if e.err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.err}
}

// Retryable says whether the same request may succeed later without anybody acting.
func (e *Error) Retryable() bool { return e.Kind == ErrUnavailable }

// tampered is the same for every reason: a forger learns nothing from it.
func tampered(err error) *Error {
	return &Error{Kind: ErrTampered, problem: "the text was not sealed for this record, or was altered", err: err}
}

// malformed is what is refused by its form alone, before any key is used.
func malformed(how string) *Error {
	problem := "the text is not a sealed text"
	if how != "" {
		problem += ": " + how
	}
	return &Error{Kind: ErrTampered, problem: problem}
}

// over is a call that was not begun, or not waited for, because the caller's context ended.
func over(call, key string, ctx context.Context) *Error {
	return &Error{Kind: ErrUnavailable, Call: call, Key: key, problem: "there is no time to wait for KMS", err: ctx.Err()}
}

// refusals tell what to do about an error code that no retry removes.
var refusals = map[string]string{
	"DisabledException":                   "the key is disabled",
	"KMSInvalidStateException":            "the key cannot be used in its state: pending deletion, without its imported material, or with its key store disconnected",
	"NotFoundException":                   "there is no such key in this account and Region",
	"InvalidArnException":                 "KMS does not take this ARN",
	"InvalidKeyUsageException":            "the key is not a symmetric encryption key",
	"InvalidGrantTokenException":          "the grant token is not valid",
	"ValidationException":                 "KMS finds the request invalid",
	"UnsupportedOperationException":       "the key does not do this",
	"DryRunOperationException":            "the client is set to dry runs",
	"UnrecognizedClientException":         "the credentials are not known",
	"InvalidClientTokenId":                "the credentials are not known",
	"MissingAuthenticationTokenException": "the request has no credentials",
	"OptInRequired":                       "the account is not subscribed to KMS",
}

// passing are codes of refused requests that the next request may not get: new credentials and a corrected clock come by
// themselves (the SDK's client remembers the service's time).
var passing = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "RequestExpired": true, "RequestTimeTooSkewed": true,
	"InvalidSignatureException": true, "SignatureDoesNotMatch": true,
	"KeyUnavailableException": true, "DependencyTimeoutException": true, "KMSInternalException": true, "LimitExceededException": true,
	"InternalFailure": true, "ServiceUnavailable": true, "ServiceUnavailableException": true,
}

// classify says what an error of the SDK means. What is no answer of KMS at all, such as a connection that broke, says nothing
// about the text: it is unavailable, never tampered.
func classify(call, key string, err error) *Error {
	e := &Error{Kind: ErrUnavailable, Call: call, Key: key, problem: "no answer", err: err}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return e
	}
	e.Code, e.problem = api.ErrorCode(), "KMS is unavailable"
	_, throttled := retry.DefaultThrottleErrorCodes[e.Code]
	switch problem, refused := refusals[e.Code]; {
	case e.Code == "InvalidCiphertextException", e.Code == "IncorrectKeyException":
		return tampered(err)
	case e.Code == "AccessDeniedException":
		e.Kind, e.problem = ErrRefused, "access denied: the role needs the right "+right(call)+" on the key, under this encryption context"
	case refused:
		e.Kind, e.problem = ErrRefused, problem
	case throttled, strings.Contains(e.Code, "Throttl"):
		e.problem = "KMS is throttling"
	case passing[e.Code], api.ErrorFault() == smithy.FaultServer, status(err) >= 500, status(err) == 429:
	default:
		e.Kind, e.problem = ErrRefused, "KMS refuses the request"
	}
	return e
}

// right names the permissions that a call needs.
func right(call string) string {
	if call == "ReEncrypt" {
		return "kms:ReEncryptFrom on the old key and kms:ReEncryptTo"
	}
	return "kms:" + call
}

// unusable says that the key itself cannot be used, by anybody.
func (e *Error) unusable() bool {
	switch e.Code {
	case "DisabledException", "KMSInvalidStateException", "NotFoundException":
		return e.Kind == ErrRefused
	}
	return false
}

func status(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// detail tells an error of the SDK without its free text, which may quote anything.
func detail(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	var parts []string
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		parts = append(parts, api.ErrorCode())
	}
	if n := status(err); n != 0 {
		parts = append(parts, fmt.Sprintf("status %d", n))
	}
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok && r.RequestID != "" {
		parts = append(parts, "request "+r.RequestID)
	}
	if len(parts) == 0 {
		parts = append(parts, "the connection failed")
	}
	return strings.Join(parts, ", ")
}
