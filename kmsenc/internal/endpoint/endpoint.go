// Package endpoint checks kmsenc on servers that speak KMS's protocol, by the SDK's real client: what the fake of kmstest cannot
// show is whether requests and errors have the form that the wire gives them.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem/kmsenc"
)

// gaps are what servers are known to do otherwise than KMS, by server and check. The check runs all the same, and fails when the
// gap is no longer there: nothing is skipped, and a server that got better is noticed.
var gaps = map[string]map[string]string{
	"ministack": {
		"altered wrapped key is refused by KMS":         "its ciphertexts are not authenticated; the commitment refuses what it gives",
		"text from before a rotation opens":             "it has no RotateKeyOnDemand",
		"rewrapped text opens under the new key alone":  "it has no ReEncrypt",
		"rewrapping under another operation is refused": "it has no ReEncrypt",
	},
	"local-kms": {
		"context with shifted boundaries is refused by KMS": "it joins the pairs of a context without lengths; the binding refuses",
		"text from before a rotation opens":                 "it has no RotateKeyOnDemand",
	},
	"localstack": {
		"context with shifted boundaries is refused by KMS": "it joins the pairs of a context without lengths; the binding refuses",
	},
}

// Client is a client of the SDK for a server.
func Client(url string) *kms.Client {
	return kms.New(kms.Options{
		Region: "eu-central-1", BaseEndpoint: &url, HTTPClient: awshttp.NewBuildableClient(),
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("test", "test", "")),
	})
}

// Exercise runs every check on a server. The server's name chooses its known gaps. Each check makes keys of its own; they are
// left in the server.
func Exercise(t *testing.T, server string, client *kms.Client) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			err := c.run(t.Context(), &lab{client})
			gap, known := gaps[server][c.name]
			switch {
			case err != nil && known:
				t.Logf("known gap of %s: %s (%v)", server, gap, err)
			case err != nil:
				t.Error(err)
			case known:
				t.Errorf("%s has no such gap any more, take it off the list: %s", server, gap)
			}
		})
	}
	for name := range gaps[server] {
		if !isCheck(name) {
			t.Errorf("gaps of %s names %q, which is no check", server, name)
		}
	}
}

func isCheck(name string) bool {
	for _, c := range checks {
		if c.name == name {
			return true
		}
	}
	return false
}

// lab is what checks work with.
type lab struct{ *kms.Client }

func (l *lab) key(ctx context.Context) (string, error) {
	out, err := l.CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		return "", fmt.Errorf("CreateKey: %w", err)
	}
	return aws.ToString(out.KeyMetadata.Arn), nil
}

// keys makes n keys.
func (l *lab) keys(ctx context.Context, n int) ([]string, error) {
	arns := make([]string, n)
	for i := range arns {
		var err error
		if arns[i], err = l.key(ctx); err != nil {
			return nil, err
		}
	}
	return arns, nil
}

func (l *lab) sealer(arn string, opts *kmsenc.Options) *kmsenc.Sealer {
	s, err := kmsenc.New(l.Client, arn, opts)
	if err != nil {
		panic(err) // the server's ARN is none
	}
	return s
}

var (
	scope   = map[string]string{"operation": "charge", "tenant": "acme"}
	binding = []byte("a record")
)

const text = `{"paid":true}`

func seal(ctx context.Context, s *kmsenc.Sealer, scope map[string]string) ([]byte, error) {
	f, err := s.Prepare(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("Prepare: %w", err)
	}
	return f(nil, binding, []byte(text))
}

func opens(ctx context.Context, s *kmsenc.Sealer, sealed []byte) error {
	got, err := s.Open(ctx, scope, nil, binding, sealed)
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	if string(got) != text {
		return fmt.Errorf("opens as %q", got)
	}
	return nil
}

// fails is nil if there is an error of that kind.
func fails(what string, err, kind error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s: no error, want %v", what, kind)
	case !errors.Is(err, kind):
		return fmt.Errorf("%s: %w, want %v", what, err, kind)
	}
	return nil
}
