package dynamo

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// effect is what an answer says about the write it answers.
type effect uint8

const (
	applied    effect = iota + 1
	refused           // the condition does not hold: the item that holds the key comes with the answer
	notApplied        // and never will be: the service rejected the request, or it was never sent
	unclear           // it may have been applied, or may yet be: the request is, or may be, under way
)

// pace is whether, and how fast, the same request is sent again.
type pace uint8

const (
	never pace = iota + 1 // it would get the same answer
	soon                  // the fault is expected to be gone at once
	slow                  // the service asks for less
)

// class of an answer.
type class struct {
	effect effect
	pace   pace
	what   string // as a message shows it
}

// The table of all answers. What is in none of its rows is unclear: only a definite answer of the service, or the proof that
// nothing was sent, makes a write "not applied".
var (
	answerApplied     = class{applied, never, "applied"}
	answerRefused     = class{refused, never, "condition not met"}
	answerThrottled   = class{notApplied, slow, "throttled"}
	answerConflict    = class{notApplied, soon, "conflict with a transaction or another Region"}
	answerDenied      = class{notApplied, never, "access denied"}
	answerNoTable     = class{notApplied, never, "no such table"}
	answerUnsigned    = class{notApplied, never, "credentials or signature not accepted"}
	answerSkewed      = class{notApplied, soon, "signature out of date: the clock is wrong"} // the SDK has learnt the difference
	answerInvalid     = class{notApplied, never, "request not valid"}
	answerUnsent      = class{notApplied, soon, "not sent"}      // no credentials, no endpoint or no connection in time
	answerNoConn      = class{notApplied, soon, "no connection"} // the name or the port does not answer, nothing was sent
	answerCanceled    = class{notApplied, never, "cancelled by an item of the transaction"}
	answerBarred      = class{notApplied, never, "not sent again"}        // the table is not, or no longer, the one the write is for
	answerUntrusted   = class{notApplied, never, "TLS not trusted"}       // nothing was sent
	answerServer      = class{unclear, soon, "server error"}              // "the operation may have succeeded or failed" (Programming.Errors)
	answerRunning     = class{unclear, soon, "still in progress"}         // an earlier attempt with the same token
	answerTimeout     = class{unclear, soon, "no answer in time"}         // of one attempt
	answerCancelled   = class{unclear, soon, "no answer"}                 // before the caller's context was done
	answerLost        = class{unclear, soon, "answer lost"}               // connection closed, cut, checksum wrong, not decodable
	answerContradicts = class{unclear, soon, "answer contradicts itself"} // refused although the item meets the condition
	answerUnknown     = class{unclear, soon, "answer not understood"}     // an error code this version does not know
)

// codes are the rows of the table that are told by DynamoDB's error code, with a status below 500.
var codes = map[string]class{
	"ConditionalCheckFailedException": answerRefused,

	"ProvisionedThroughputExceededException": answerThrottled,
	"ThrottlingException":                    answerThrottled,
	"Throttling":                             answerThrottled,
	"ThrottledException":                     answerThrottled,
	"RequestThrottledException":              answerThrottled,
	"RequestLimitExceeded":                   answerThrottled,
	"TooManyRequestsException":               answerThrottled,
	"LimitExceededException":                 answerThrottled, // control plane

	"TransactionConflictException":     answerConflict,
	"ReplicatedWriteConflictException": answerConflict,

	"TransactionInProgressException": answerRunning,
	"InternalServerError":            answerServer,
	"InternalFailure":                answerServer,
	"ServiceUnavailable":             answerServer,
	"RequestTimeout":                 answerServer,
	"RequestTimeoutException":        answerServer,

	"AccessDeniedException":     answerDenied,
	"AccessDenied":              answerDenied,
	"OptInRequired":             answerDenied,
	"ResourceNotFoundException": answerNoTable,
	"TableNotFoundException":    answerNoTable,

	"UnrecognizedClientException":          answerUnsigned,
	"InvalidClientTokenId":                 answerUnsigned,
	"MissingAuthenticationToken":           answerUnsigned,
	"MissingAuthenticationTokenException":  answerUnsigned,
	"IncompleteSignature":                  answerUnsigned,
	"IncompleteSignatureException":         answerUnsigned,
	"InvalidSignatureException":            answerUnsigned,
	"SignatureDoesNotMatch":                answerUnsigned,
	"AuthFailure":                          answerUnsigned,
	"RequestTimeTooSkewed":                 answerUnsigned,
	"RequestExpired":                       answerUnsigned,
	"ExpiredToken":                         answerUnsigned,
	"ExpiredTokenException":                answerUnsigned,
	"ValidationException":                  answerInvalid,
	"ValidationError":                      answerInvalid,
	"SerializationException":               answerInvalid,
	"UnknownOperationException":            answerInvalid,
	"InvalidEndpointException":             answerInvalid,
	"IdempotentParameterMismatchException": answerInvalid,

	"ItemCollectionSizeLimitExceededException": answerInvalid,
}

// classify reads one answer. unsent says that nothing of the request can have left this machine.
func classify(err error, unsent bool) class {
	api, isAPI := errors.AsType[smithy.APIError](err)
	answer, isAnswer := errors.AsType[*smithyhttp.ResponseError](err)
	canceled, isCanceled := errors.AsType[*types.TransactionCanceledException](err)
	isAnswer = isAnswer && answer.Response != nil && answer.HTTPStatusCode() != 0 // the SDK makes one up where there was none
	switch {
	case err == nil:
		return answerApplied
	case unsent:
		return classifyUnsent(err, api)
	case errors.Is(err, errContradiction):
		return answerContradicts
	case isAPI && isAnswer && answer.HTTPStatusCode() >= 500:
		return answerServer
	case isCanceled:
		return classifyCanceled(canceled)
	case isAPI:
		return classifyCode(err, api.ErrorCode())
	case isAnswer: // and it could not be read
		return answerLost
	case isInvalid(err):
		return answerInvalid
	case isUntrusted(err):
		return answerUntrusted
	case isDial(err):
		return answerNoConn
	case errors.Is(err, errAttemptTimeout):
		return answerTimeout
	case isContext(err):
		return answerCancelled
	}
	return answerLost
}

func classifyCode(err error, code string) class {
	c, ok := codes[code]
	switch {
	case !ok:
		return answerUnknown
	case c == answerUnsigned && isSkew(err):
		return answerSkewed
	}
	return c
}

// classifyUnsent tells only whether a repetition helps. An API error here is of the service that gives credentials.
func classifyUnsent(err error, api smithy.APIError) class {
	switch {
	case isInvalid(err):
		return answerInvalid
	case isUntrusted(err):
		return answerUntrusted
	case isDial(err):
		return answerNoConn
	case api != nil && codes[api.ErrorCode()].pace == never:
		return answerUnsigned
	}
	return answerUnsent
}

// isDial says that there never was a connection, so nothing can have been sent on it.
func isDial(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// isUntrusted says that the handshake ended before anything was sent.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isInvalid says that the SDK itself would not send such a request.
func isInvalid(err error) bool {
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return true
	}
	_, ok := errors.AsType[*smithy.SerializationError](err)
	return ok
}

// isSkew says that the SDK found our clock to be wrong and signs by the service's clock from now on. It marks AccessDenied so too,
// but that is never repeated.
func isSkew(err error) bool {
	r, ok := errors.AsType[interface {
		error
		RetryableError() bool
	}](err)
	return ok && r.RetryableError()
}

// isHotKey reads the reasons of a throttled answer.
func isHotKey(err error) bool {
	var reasons []types.ThrottlingReason
	if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.RequestLimitExceeded](err); ok {
		reasons = e.ThrottlingReasons
	}
	for _, r := range reasons {
		if r.Reason != nil && strings.Contains(*r.Reason, "KeyRange") {
			return true
		}
	}
	return false
}

// isKMS says that a denial is about the key the table is encrypted with, which is not the key that seals records.
func isKMS(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.Contains(strings.ToLower(api.ErrorMessage()), "kms")
}
