package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/idem-go/idem/kmsenc"
)

// header is what comes before the wrapped key in an envelope.
const header = 16

var checks = []struct {
	name string
	run  func(ctx context.Context, l *lab) error
}{
	{"what one process seals, another opens", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		return opens(ctx, l.sealer(arn, nil), sealed)
	}},
	{"another operation is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		_, err = l.sealer(arn, nil).Open(ctx, map[string]string{"operation": "refund"}, nil, binding, sealed)
		return fails("Open", err, kmsenc.ErrTampered)
	}},
	{"another tenant is refused by KMS", func(ctx context.Context, l *lab) error {
		opts := &kmsenc.Options{PerTenant: true}
		arn, sealed, err := l.sealed(ctx, opts)
		if err != nil {
			return err
		}
		_, err = l.sealer(arn, opts).Open(ctx, map[string]string{"operation": "charge", "tenant": "evil"}, nil, binding, sealed)
		return errors.Join(fails("Open", err, kmsenc.ErrTampered), opens(ctx, l.sealer(arn, opts), sealed))
	}},
	{"context with shifted boundaries is refused by KMS", func(ctx context.Context, l *lab) error {
		opts := &kmsenc.Options{PerTenant: true}
		arn, sealed, err := l.sealed(ctx, opts)
		if err != nil {
			return err
		}
		_, err = l.sealer(arn, opts).Open(ctx, map[string]string{"operation": "chargetenantacme"}, nil, binding, sealed)
		return fails("Open", err, kmsenc.ErrTampered)
	}},
	{"context with shifted boundaries is refused", func(ctx context.Context, l *lab) error {
		opts := &kmsenc.Options{PerTenant: true}
		arn, sealed, err := l.sealed(ctx, opts)
		if err != nil {
			return err
		}
		_, err = l.sealer(arn, opts).Open(ctx, map[string]string{"operation": "chargetenantacme"}, nil, []byte("another record"), sealed)
		return fails("Open", err, kmsenc.ErrTampered)
	}},
	{"altered text is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		s := l.sealer(arn, nil)
		for at := len(sealed) - len(text) - 16 - 12 - 64; at < len(sealed); at++ {
			b := bytes.Clone(sealed)
			b[at] ^= 1
			if _, openErr := s.Open(ctx, scope, nil, binding, b); fails("", openErr, kmsenc.ErrTampered) != nil {
				err = errors.Join(err, fmt.Errorf("byte %d: %w", at, openErr))
			}
		}
		return err
	}},
	{"altered wrapped key is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		n := len(sealed) - 108 - len(text)
		for _, at := range []int{n - 1, n - 20, n - 40} { // tag, ciphertext, whatever each server has there
			b := bytes.Clone(sealed)
			b[header+at] ^= 1
			_, openErr := l.sealer(arn, nil).Open(ctx, scope, nil, binding, b)
			err = errors.Join(err, fails(fmt.Sprintf("byte %d of %d", at, n), openErr, kmsenc.ErrTampered))
		}
		return err
	}},
	{"altered wrapped key is refused by KMS", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		n := len(sealed) - 108 - len(text)
		for _, at := range []int{n - 1, n - 20, n - 40} {
			b := bytes.Clone(sealed[header : header+n])
			b[at] ^= 1
			_, decryptErr := l.Decrypt(ctx, &kms.DecryptInput{KeyId: &arn, CiphertextBlob: b, EncryptionContext: map[string]string{"kmsenc": "1", "ns": "idem", "operation": "charge"}})
			if _, refused := errors.AsType[*types.InvalidCiphertextException](decryptErr); !refused {
				err = errors.Join(err, fmt.Errorf("byte %d of %d: %v, want an InvalidCiphertextException", at, n, decryptErr))
			}
		}
		return err
	}},
	{"cut wrapped key opens nothing", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		n := len(sealed) - 108 - len(text)
		for _, keep := range []int{1, 40, n / 2, n - 1} {
			b := bytes.Clone(sealed[:header+keep])
			b[header-2], b[header-1] = byte(keep>>8), byte(keep)
			b = append(b, sealed[header+n:]...)
			_, openErr := l.sealer(arn, nil).Open(ctx, scope, nil, binding, b)
			if !errors.Is(openErr, kmsenc.ErrTampered) && !errors.Is(openErr, kmsenc.ErrUnavailable) { // some servers crash
				err = errors.Join(err, fmt.Errorf("%d bytes of %d: %v", keep, n, openErr))
			}
		}
		return err
	}},
	{"another record's wrapped key is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		other, err := seal(ctx, l.sealer(arn, nil), scope)
		if err != nil {
			return err
		}
		n := len(sealed) - 108 - len(text)
		b := append(bytes.Clone(other[:header+n]), sealed[header+n:]...)
		_, err = l.sealer(arn, nil).Open(ctx, scope, nil, binding, b)
		return fails("Open", err, kmsenc.ErrTampered)
	}},
	{"key that is not allowed is refused", func(ctx context.Context, l *lab) error {
		_, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		other, err := l.key(ctx)
		if err != nil {
			return err
		}
		_, err = l.sealer(other, nil).Open(ctx, scope, nil, binding, sealed)
		return fails("Open", err, kmsenc.ErrRefused)
	}},
	{"text under another key than it names is refused by KMS", func(ctx context.Context, l *lab) error {
		keys, err := l.keys(ctx, 2)
		if err != nil {
			return err
		}
		sealed, err := seal(ctx, l.sealer(keys[0], nil), scope)
		if err != nil {
			return err
		}
		other, err := seal(ctx, l.sealer(keys[1], nil), scope)
		if err != nil {
			return err
		}
		copy(sealed[6:14], other[6:14]) // the hint
		_, err = l.sealer(keys[0], &kmsenc.Options{Retired: keys[1:]}).Open(ctx, scope, nil, binding, sealed)
		return fails("Open", err, kmsenc.ErrTampered)
	}},
	{"retired key opens", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		now, err := l.key(ctx)
		if err != nil {
			return err
		}
		return opens(ctx, l.sealer(now, &kmsenc.Options{Retired: []string{arn}}), sealed)
	}},
	{"disabled key does not seal", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := l.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &arn}); err != nil {
			return err
		}
		_, err = l.sealer(arn, nil).Prepare(ctx, scope)
		err = fails("Prepare", err, kmsenc.ErrRefused)
		if _, e := l.EnableKey(ctx, &kms.EnableKeyInput{KeyId: &arn}); e != nil {
			return e
		}
		return errors.Join(err, opens(ctx, l.sealer(arn, nil), sealed))
	}},
	{"disabled key does not open", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := l.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &arn}); err != nil {
			return err
		}
		_, err = l.sealer(arn, nil).Open(ctx, scope, nil, binding, sealed)
		return fails("Open", err, kmsenc.ErrRefused)
	}},
	{"key pending deletion is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := l.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: &arn, PendingWindowInDays: aws.Int32(7)}); err != nil {
			return err
		}
		_, err = l.sealer(arn, nil).Prepare(ctx, scope)
		err = fails("Prepare", err, kmsenc.ErrRefused)
		_, openErr := l.sealer(arn, nil).Open(ctx, scope, nil, binding, sealed)
		return errors.Join(err, fails("Open", openErr, kmsenc.ErrRefused))
	}},
	{"missing key is refused", func(ctx context.Context, l *lab) error {
		arn, err := l.key(ctx)
		if err != nil {
			return err
		}
		arn = arn[:len(arn)-12] + "000000000000"
		_, err = l.sealer(arn, nil).Prepare(ctx, scope)
		return fails("Prepare", err, kmsenc.ErrRefused)
	}},
	{"text from before a rotation opens", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := l.RotateKeyOnDemand(ctx, &kms.RotateKeyOnDemandInput{KeyId: &arn}); err != nil {
			return err
		}
		after, err := seal(ctx, l.sealer(arn, nil), scope)
		if err != nil {
			return err
		}
		return errors.Join(opens(ctx, l.sealer(arn, nil), sealed), opens(ctx, l.sealer(arn, nil), after))
	}},
	{"rewrapped text opens under the new key alone", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		now, err := l.key(ctx)
		if err != nil {
			return err
		}
		moved, err := l.sealer(now, &kmsenc.Options{Retired: []string{arn}}).Rewrap(ctx, l, scope, sealed)
		if err != nil {
			return err
		}
		if _, err := l.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &arn}); err != nil {
			return err
		}
		return opens(ctx, l.sealer(now, nil), moved)
	}},
	{"rewrapping under another operation is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		now, err := l.key(ctx)
		if err != nil {
			return err
		}
		_, err = l.sealer(now, &kmsenc.Options{Retired: []string{arn}}).Rewrap(ctx, l, map[string]string{"operation": "refund"}, sealed)
		return fails("Rewrap", err, kmsenc.ErrTampered)
	}},
	{"rewrapping with a disabled key is refused", func(ctx context.Context, l *lab) error {
		arn, sealed, err := l.sealed(ctx, nil)
		if err != nil {
			return err
		}
		now, err := l.key(ctx)
		if err != nil {
			return err
		}
		if _, err := l.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &arn}); err != nil {
			return err
		}
		_, err = l.sealer(now, &kmsenc.Options{Retired: []string{arn}}).Rewrap(ctx, l, scope, sealed)
		return fails("Rewrap", err, kmsenc.ErrRefused)
	}},
}

// sealed makes a key and a text sealed with it.
func (l *lab) sealed(ctx context.Context, opts *kmsenc.Options) (arn string, text []byte, err error) {
	if arn, err = l.key(ctx); err != nil {
		return "", nil, err
	}
	text, err = seal(ctx, l.sealer(arn, opts), scope)
	return arn, text, err
}
