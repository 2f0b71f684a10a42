package dynamo_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
)

// TestStoreTime: At is the Date of the very answer, and nothing if it told none or came from a cache.
func TestStoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.skew = -42 * time.Second
		s, faults := f.open(t, nil)
		want := time.Now().Add(f.skew).UTC().Truncate(time.Second)
		r := claim()
		r.At = time.Unix(1, 0)
		each := func(what string, want time.Time) {
			t.Helper()
			r.ID.Key[1]++
			absent, aerr := s.Load(t.Context(), r.ID)
			vanished, verr := s.Swap(t.Context(), idem.Version{3}, r)
			created, cerr := s.Create(t.Context(), r)
			own, oerr := s.Create(t.Context(), r)
			loaded, lerr := s.Load(t.Context(), r.ID)
			n := r
			n.Version = idem.Version{77}
			refused, rerr := s.Create(t.Context(), n)
			if err := errors.Join(aerr, verr, cerr, oerr, lerr, rerr); err != nil {
				t.Fatal(err)
			}
			for i, got := range []idem.Record{absent, vanished, created, own, loaded, refused} {
				if !got.At.Equal(want) {
					t.Errorf("%s, answer %d: At is %v, want %v", what, i, got.At, want)
				}
			}
		}
		each("Date", want)
		header := func(change func(http.Header)) {
			faults.set(func(_ int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					change(resp.Header)
				}
				return resp, err
			})
		}
		header(func(h http.Header) { h.Del("Date") })
		each("no Date", time.Time{})
		header(func(h http.Header) { h.Set("Date", "yesterday") })
		each("bad Date", time.Time{})
		header(func(h http.Header) { h.Set("Age", "3600") })
		each("cached", time.Time{})
	})
}

// TestConnections uses real ones.
func TestConnections(t *testing.T) {
	server := httptest.NewServer(newFake())
	defer server.Close()
	buildable := awshttp.NewBuildableClient()
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(server.URL), Region: "eu-central-1", Credentials: aws.CredentialsProviderFunc(credentials), HTTPClient: buildable,
	})
	s, err := dynamo.New(client, "records", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := claim()
	for i := range 20 { // each time the connection was closed by the server while idle
		r.ID.Key[0] = byte(i)
		r.Version[1] = byte(i)
		if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != stored {
			t.Fatal(err)
		}
		server.CloseClientConnections()
	}

	// The server carries the request out and closes the connection without an answer: that was sent.
	mute := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
			server.Config.Handler.ServeHTTP(w, r)
			return
		}
		server.Config.Handler.ServeHTTP(httptest.NewRecorder(), r)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}))
	defer mute.Close()
	if s, err = dynamo.New(clientOf(mute.URL, nil), "records", nil); err != nil {
		t.Fatal(err)
	}
	r.ID.Key[1]++
	if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != unclear {
		t.Errorf("closed after it was applied: %v", err)
	}
	if got, err := s.Load(t.Context(), r.ID); outcomeOf(t, r, got, err) != stored {
		t.Errorf("closed after it was applied, load: %v", err)
	}

	// Nothing listens there; or something does and never answers the handshake. Nothing was sent, whatever timed out.
	api := &passed{api: client, endpoint: server.URL}
	if s, err = dynamo.New(api, "records", &dynamo.Options{AttemptTimeout: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Generation(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api.endpoint = "https://" + l.Addr().String()
	r.ID.Key[1]++
	if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != passing {
		t.Errorf("no TLS handshake: %v", err)
	}
	l.Close()
	if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != passing || !strings.Contains(err.Error(), "refused") {
		t.Errorf("connection refused: %v", err)
	}
	api.endpoint = "http://idem-test.invalid"
	if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != passing {
		t.Errorf("no such host: %v", err)
	}
	if s, err = dynamo.New(api, "records", &dynamo.Options{AttemptTimeout: time.Minute}); err != nil { // a handshake takes its time
		t.Fatal(err)
	}
	api.endpoint = server.URL
	if _, err := s.Generation(t.Context()); err != nil {
		t.Fatal(err)
	}
	untrusted := httptest.NewTLSServer(newFake())
	defer untrusted.Close()
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.endpoint = untrusted.URL
	if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != final {
		t.Errorf("certificate of nobody: %v", err)
	}
}

// TestIdleConnectionsAreNotUsedAfterAFreeze: the wall clock went on and the monotonic one stood still.
func TestIdleConnectionsAreNotUsedAfterAFreeze(t *testing.T) {
	for name, client := range map[string]aws.HTTPClient{"http.Client": &http.Client{Transport: &http.Transport{}}, "BuildableClient": awshttp.NewBuildableClient()} {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int32
			server := httptest.NewUnstartedServer(newFake())
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			server.Start()
			defer server.Close()
			s, err := dynamo.New(dynamodb.New(dynamodb.Options{
				BaseEndpoint: aws.String(server.URL), Region: "eu-central-1", Credentials: aws.CredentialsProviderFunc(credentials), HTTPClient: client,
			}), "records", nil)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now().Round(0)
			s.SetClock(func() time.Time { return now })
			for i, gap := range []time.Duration{0, 29 * time.Second, 31 * time.Second, time.Second, -time.Second, time.Hour} {
				now = now.Add(gap)
				want := opened.Load()
				if i == 0 || gap > 30*time.Second || gap < 0 {
					want++
				}
				r := claim()
				r.ID.Key[0] = byte(i)
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if got := opened.Load(); got != want {
					t.Errorf("after %v: %d connections were opened, want %d", gap, got, want)
				}
			}
		})
	}
}

// passed sends to another endpoint.
type passed struct {
	api      dynamo.API
	endpoint string
}

func (p *passed) to(opts []func(*dynamodb.Options)) []func(*dynamodb.Options) {
	return append(opts, func(o *dynamodb.Options) { o.BaseEndpoint = &p.endpoint })
}

func (p *passed) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return p.api.UpdateItem(ctx, in, p.to(opts)...)
}

func (p *passed) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return p.api.GetItem(ctx, in, p.to(opts)...)
}

func (p *passed) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return p.api.DescribeTable(ctx, in, p.to(opts)...)
}

// TestCredentials: what fails before anything is sent is never in doubt.
func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		f := newFake()
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String("http://fake"), Region: "eu-central-1", HTTPClient: &http.Client{Transport: f},
			Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
				if fail != nil {
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
		fail = errors.New("no credentials, and a secret")
		r := claim()
		if got, err := s.Create(t.Context(), r); outcomeOf(t, r, got, err) != passing {
			t.Errorf("no credentials: %v", err)
		}
	})
}

// TestCABundle: with AWS_CA_BUNDLE the SDK wants a BuildableClient, of which only copies start with fresh connections; they must
// trust what it trusts.
func TestCABundle(t *testing.T) {
	server := httptest.NewTLSServer(newFake())
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("eu-central-1"), config.WithBaseEndpoint(server.URL),
		config.WithCredentialsProvider(aws.CredentialsProviderFunc(credentials)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.New(dynamodb.NewFromConfig(cfg), "records", nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Round(0)
	s.SetClock(func() time.Time { return now })
	for range 3 {
		if _, err := s.Generation(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
}
