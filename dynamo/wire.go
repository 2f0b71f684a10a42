package dynamo

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// watch stands between the SDK and the HTTP client for one attempt. It sees whether the request can have left this machine, and
// hands on no answer that is not there as a whole: the SDK takes a 200 with an empty body for an absent item, only logs a wrong
// checksum, and loses answers of applied writes now and then when it reads the body from a connection whose request it has
// closed already (aws-sdk-go-v2 issues 1825 and 2737).
type watch struct {
	client            aws.HTTPClient
	installed, handed atomic.Bool // the SDK knows of us; it handed the request over
	asked, got        atomic.Bool // net/http asked for a connection; it got one
}

// install is one attempt's [dynamodb.Options]: client is nil for the API client's own.
func (w *watch) install(o *dynamodb.Options, client aws.HTTPClient) {
	w.installed.Store(true)
	o.Retryer = aws.NopRetryer{}
	if w.client = client; client == nil {
		w.client = o.HTTPClient
	}
	o.HTTPClient = w
}

// trace is a context from which net/http tells of connections.
func (w *watch) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.got.Store(true) },
	})
}

// unsent says that nothing of the request can have left this machine: the SDK never handed it over, or net/http asked for a
// connection and got none. Other HTTP clients tell nothing, and prove nothing.
func (w *watch) unsent() bool {
	return w.installed.Load() && (!w.handed.Load() || w.asked.Load() && !w.got.Load())
}

var (
	errEmptyAnswer = errors.New("answer is empty")
	errChecksum    = errors.New("answer does not match its checksum")
)

// Do implements aws.HTTPClient.
func (w *watch) Do(r *http.Request) (*http.Response, error) {
	w.handed.Store(true)
	resp, err := w.client.Do(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if err := whole(resp, body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func whole(resp *http.Response, body []byte) error {
	if len(body) == 0 {
		return errEmptyAnswer
	}
	sum := resp.Header.Get("X-Amz-Crc32")
	if sum == "" || resp.Header.Get("Content-Encoding") != "" {
		return nil
	}
	if want, err := strconv.ParseUint(sum, 10, 32); err != nil || uint32(want) != crc32.ChecksumIEEE(body) {
		return errChecksum
	}
	return nil
}

// dateOf is the service's clock in the answer to a successful call, zero if it told none. Resolution: a second.
func dateOf(m middleware.Metadata) time.Time {
	resp, ok := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response)
	if !ok || resp == nil {
		return time.Time{}
	}
	return date(resp.Response)
}

// dateOfError is the service's clock in an answer that the SDK returns as an error.
func dateOfError(err error) time.Time {
	r, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || r.Response == nil {
		return time.Time{}
	}
	return date(r.Response.Response)
}

func date(resp *http.Response) time.Time {
	if resp == nil || resp.Header.Get("Age") != "" { // from a cache: not the time of this answer
		return time.Time{}
	}
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// maxIdle is how long a connection may have been idle, by the wall clock, and still be used: while a Lambda environment is frozen
// the service closes it, the client's own idle timer stands still, and the first request after the thaw would end in doubt.
const maxIdle = 30 * time.Second

// conns are the connections of the API client, as far as they can be reached.
type conns struct {
	mu     sync.Mutex
	client aws.HTTPClient // of the API client, or what took its place
	ours   bool           // client took its place
	last   time.Time      // wall clock of the last use
}

// connsOf finds the HTTP client behind an API, as in *dynamodb.Client.
func connsOf(api API) *conns {
	c := &conns{}
	if o, ok := api.(interface{ Options() dynamodb.Options }); ok {
		c.client = o.Options().HTTPClient
	}
	return c
}

// use returns the client that a request is to use, nil for the API client's own.
func (c *conns) use(now time.Time) aws.HTTPClient {
	now = now.Round(0) // the monotonic clock does not count a freeze
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle := now.Sub(c.last); !c.last.IsZero() && (idle > maxIdle || idle < 0) {
		switch client := c.client.(type) {
		case interface{ CloseIdleConnections() }:
			client.CloseIdleConnections()
		case *awshttp.BuildableClient: // cannot close its connections; a copy starts with none
			c.client, c.ours = client.WithTransportOptions(), true
		}
	}
	c.last = now
	if !c.ours {
		return nil
	}
	return c.client
}

func (c *conns) used(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now.Round(0)
}
