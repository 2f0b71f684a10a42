package kmsenc

import (
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// rewrapped remembers what became of wrapped keys: many records have the same.
type rewrapped struct {
	mu   sync.Mutex
	keys map[string][]byte // by openingID
}

const maxRewrapped = 1 << 12

// Rewrap moves a sealed text from a retired KMS key to the sealing key: its data key is wrapped anew, inside KMS, and what it
// protects stays as it is, to the byte. Neither data key nor plaintext are seen here, so this needs kms:ReEncryptFrom on the retired
// key and kms:ReEncryptTo on the sealing key, and no right to decrypt. The scope is the one that it was sealed under.
//
// A text that the sealing key wraps already is returned as it is, in a copy, without a call. Records that have their data key in
// common cost one call. The text is not authenticated by this: a forged one stays forged. The error is an [*Error].
func (s *Sealer) Rewrap(ctx context.Context, api ReEncryptAPI, scope map[string]string, sealed []byte) ([]byte, error) {
	c, err := s.scopeOf(scope)
	if err != nil {
		return nil, err
	}
	e, from, err := s.source(sealed)
	if err != nil {
		return nil, err
	}
	if from == s.key {
		return slices.Clone(sealed), nil
	}
	id := openingID(c.id(), from.text, e.wrapped)
	s.rewrapped.mu.Lock()
	wrapped := s.rewrapped.keys[id]
	s.rewrapped.mu.Unlock()
	if wrapped == nil {
		if wrapped, err = s.reencrypt(ctx, api, c, from, e.wrapped); err != nil {
			return nil, err
		}
		s.rewrapped.keep(id, wrapped)
	}
	e.hint, e.wrapped = s.key.hint(), wrapped
	return e.append(nil), nil
}

func (r *rewrapped) keep(id string, wrapped []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil || len(r.keys) >= maxRewrapped {
		r.keys = make(map[string][]byte)
	}
	r.keys[id] = wrapped
}

// reencrypt names both keys and both contexts, and believes no answer that is about others.
func (s *Sealer) reencrypt(ctx context.Context, api ReEncryptAPI, c keyScope, from keyARN, wrapped []byte) ([]byte, error) {
	const call = "ReEncrypt"
	out, err := ask(ctx, call, from.text, false, func(ctx context.Context) (*kms.ReEncryptOutput, error) {
		return api.ReEncrypt(ctx, &kms.ReEncryptInput{
			CiphertextBlob: slices.Clone(wrapped),
			SourceKeyId:    aws.String(from.text), SourceEncryptionContext: c.pairs(),
			DestinationKeyId: aws.String(s.key.text), DestinationEncryptionContext: c.pairs(),
		}, once)
	})
	if err != nil {
		if err.Kind == ErrRefused {
			err.problem += "; the sealing key is " + s.key.text
		}
		return nil, err
	}
	if aws.ToString(out.SourceKeyId) != from.text || aws.ToString(out.KeyId) != s.key.text {
		return nil, &Error{Kind: ErrRefused, Call: call, Key: from.text, problem: "KMS answers with another key"}
	}
	if n := len(out.CiphertextBlob); n == 0 || n > maxWrapped {
		return nil, &Error{Kind: ErrUnavailable, Call: call, Key: from.text, problem: "the answer has no usable wrapped key"}
	}
	return slices.Clone(out.CiphertextBlob), nil
}
