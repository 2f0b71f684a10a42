package dynamo_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// step is what happens to one request.
type step func(r *http.Request, next http.RoundTripper) (*http.Response, error)

func pass(r *http.Request, next http.RoundTripper) (*http.Response, error) { return next.RoundTrip(r) }

// fails is an error of the transport; nothing arrives.
func fails(err error) step {
	return func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, err }
}

// says is an answer of the service, which did nothing.
func says(status int, code string) step {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return respond(r, status, nil, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"secret"}`, code)), nil
	}
}

func instead(status int, body string) step {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return respond(r, status, nil, body), nil
	}
}

// after is what the caller gets in place of the answer, once the service has carried the request out.
func after(s step) step {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if _, err := lose(r, next); !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return s(r, next)
	}
}

// hangs until the request's context is done.
func hangs(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// changed is the true answer with another body.
func changed(change func([]byte) []byte) step {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(strings.NewReader(string(change(body))))
		return resp, err
	}
}

// breaks is the true answer's first bytes and then an error.
func breaks(err error) step {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, rerr := next.RoundTrip(r)
		if rerr != nil {
			return nil, rerr
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, 1), errReader{err}), resp.Body}
		return resp, nil
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

var (
	errRefusedDial = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	errNoSuchHost  = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "fake", IsNotFound: true}}
	errClosedConn  = errors.New("read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection")
	throttled      = says(400, "ThrottlingException")
	denied         = says(400, "AccessDeniedException")
)

func hotKey(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
	return respond(r, 400, nil, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","throttlingReasons":[{"reason":"TableWriteKeyRangeThroughputExceeded"}]}`), nil
}
