package kmsenc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// API is what a [Sealer] asks of KMS. *kms.Client has it.
type API interface {
	GenerateDataKey(context.Context, *kms.GenerateDataKeyInput, ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

// ReEncryptAPI is what [Sealer.Rewrap] asks of KMS. *kms.Client has it.
type ReEncryptAPI interface {
	ReEncrypt(context.Context, *kms.ReEncryptInput, ...func(*kms.Options)) (*kms.ReEncryptOutput, error)
}

// The SDK's own retries take up to a minute, and a function has seconds: each request is sent once, and at most one more is
// made here.
const (
	attempts     = 2
	callTimeout  = time.Second
	hurryTimeout = 500 * time.Millisecond // for a refresh, at most; and at most a quarter of the caller's time
	longestPause = 150 * time.Millisecond
)

func once(o *kms.Options) { o.Retryer = aws.NopRetryer{} }

// ask calls KMS within the bounds.
func ask[T any](ctx context.Context, call, arn string, hurry bool, send func(context.Context) (*T, error)) (*T, *Error) {
	timeout, tries := callTimeout, attempts
	if hurry {
		timeout, tries = hurryTimeout, 1
		if deadline, ok := ctx.Deadline(); ok {
			timeout = min(timeout, time.Until(deadline)/4)
		}
	}
	for try := 1; ; try++ {
		out, err := askOnce(ctx, call, arn, timeout, send)
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return nil, over(call, arn, ctx)
		case err.Kind != ErrUnavailable, try == tries:
			return nil, err
		}
		pause := time.NewTimer(longestPause/3 + time.Duration(rand.Int64N(int64(longestPause*2/3))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, over(call, arn, ctx)
		}
	}
}

func askOnce[T any](ctx context.Context, call, arn string, timeout time.Duration, send func(context.Context) (*T, error)) (*T, *Error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := send(ctx)
	switch {
	case err != nil:
		return nil, classify(call, arn, err)
	case out == nil:
		return nil, &Error{Kind: ErrUnavailable, Call: call, Key: arn, problem: "an empty answer"}
	}
	return out, nil
}

// question is what KMS is asked for: a new data key, or the one of an envelope.
type question struct {
	sealer  *Sealer
	scope   keyScope
	from    keyARN // that wrapped it
	wrapped []byte // nil asks for a new one
}

// fetch asks KMS for a data key, which is as old as born says and held once, for the caller. In a hurry it asks once, and not for
// long.
func (q question) fetch(ctx context.Context, born time.Duration, hurry bool) (*dataKey, *Error) {
	if q.wrapped == nil {
		return q.generate(ctx, born, hurry)
	}
	return q.unwrap(ctx, born, hurry)
}

// generate gets a new data key. The answer must be of the key that was named: a proxy or an endpoint that takes another would
// have us seal what nobody can open later.
func (q question) generate(ctx context.Context, born time.Duration, hurry bool) (*dataKey, *Error) {
	const call = "GenerateDataKey"
	key := q.sealer.key
	out, err := ask(ctx, call, key.text, hurry, func(ctx context.Context) (*kms.GenerateDataKeyOutput, error) {
		return q.sealer.api.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
			KeyId: aws.String(key.text), KeySpec: types.DataKeySpecAes256, EncryptionContext: q.scope.pairs(),
		}, once)
	})
	if err != nil {
		return nil, err
	}
	defer clear(out.Plaintext)
	k := &dataKey{hint: key.hint(), born: born}
	switch n := len(out.CiphertextBlob); {
	case aws.ToString(out.KeyId) != key.text:
		return nil, &Error{Kind: ErrRefused, Call: call, Key: key.text, problem: "KMS answers with another key"}
	case len(out.Plaintext) != len(k.secret), n == 0, n > maxWrapped:
		return nil, &Error{Kind: ErrUnavailable, Call: call, Key: key.text, problem: fmt.Sprintf("the answer has a data key of %d and a wrapped key of %d bytes", len(out.Plaintext), n)}
	}
	k.wrapped = slices.Clone(out.CiphertextBlob)
	k.opening = openingID(q.scope.id(), key.text, k.wrapped)
	copy(k.secret[:], out.Plaintext)
	k.hold()
	return k, nil
}

// unwrap gets the data key of an envelope. KMS is told which key it has to be, so what was wrapped with any other does not open,
// whatever our role may do with that one.
func (q question) unwrap(ctx context.Context, born time.Duration, hurry bool) (*dataKey, *Error) {
	out, err := ask(ctx, "Decrypt", q.from.text, hurry, func(ctx context.Context) (*kms.DecryptOutput, error) {
		return q.sealer.api.Decrypt(ctx, &kms.DecryptInput{
			KeyId: aws.String(q.from.text), CiphertextBlob: slices.Clone(q.wrapped), EncryptionContext: q.scope.pairs(),
		}, once)
	})
	if err != nil {
		return nil, err
	}
	defer clear(out.Plaintext)
	k := &dataKey{born: born}
	if aws.ToString(out.KeyId) != q.from.text || len(out.Plaintext) != len(k.secret) {
		return nil, tampered(nil)
	}
	copy(k.secret[:], out.Plaintext)
	k.hold()
	return k, nil
}

// openingID is the name of a data key that is read: the same wrapped key under another scope, or for another KMS key, is another,
// and so KMS decides about it.
func openingID(scope, arn string, wrapped []byte) string {
	b := make([]byte, 0, 1024)
	b = append(b, "kmsenc/1 opening\x00"...)
	b = appendPart(b, scope)
	b = appendPart(b, arn)
	b = appendPart(b, wrapped)
	sum := sha256.Sum256(b)
	return string(sum[:])
}
