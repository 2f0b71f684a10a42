package kmstest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
)

// GenerateDataKey is the service's.
func (k *KMS) GenerateDataKey(ctx context.Context, in *kms.GenerateDataKeyInput, opts ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error) {
	r := request{operation: "GenerateDataKey", keyID: aws.ToString(in.KeyId), context: in.EncryptionContext, tokens: in.GrantTokens, dry: in.DryRun}
	out, err := k.serve(ctx, r, opts, func() (Answer, smithy.APIError) {
		n := int(aws.ToInt32(in.NumberOfBytes))
		switch {
		case (in.KeySpec == "") == (in.NumberOfBytes == nil):
			return Answer{}, invalid("specify either KeySpec or NumberOfBytes")
		case in.KeySpec == types.DataKeySpecAes256:
			n = 32
		case in.KeySpec == types.DataKeySpecAes128:
			n = 16
		case in.KeySpec != "", n < 1, n > 1024:
			return Answer{}, invalid("KeySpec or NumberOfBytes")
		}
		key, err := k.use(r.keyID)
		if err != nil {
			return Answer{}, err
		}
		p := make([]byte, n)
		rand.Read(p)
		return Answer{KeyID: key.arn, Plaintext: p, Ciphertext: key.wrap(p, in.EncryptionContext)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.GenerateDataKeyOutput{KeyId: &out.KeyID, Plaintext: out.Plaintext, CiphertextBlob: out.Ciphertext}, nil
}

// Decrypt is the service's, with and without KeyId.
func (k *KMS) Decrypt(ctx context.Context, in *kms.DecryptInput, opts ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	r := request{operation: "Decrypt", keyID: aws.ToString(in.KeyId), context: in.EncryptionContext, tokens: in.GrantTokens, dry: in.DryRun, blob: in.CiphertextBlob}
	out, err := k.serve(ctx, r, opts, func() (Answer, smithy.APIError) {
		if a := in.EncryptionAlgorithm; a != "" && a != types.EncryptionAlgorithmSpecSymmetricDefault {
			return Answer{}, &types.InvalidKeyUsageException{}
		}
		key, p, err := k.decrypt(in.KeyId, in.CiphertextBlob, in.EncryptionContext)
		if err != nil {
			return Answer{}, err
		}
		return Answer{KeyID: key.arn, Plaintext: p}, nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.DecryptOutput{KeyId: &out.KeyID, Plaintext: out.Plaintext, EncryptionAlgorithm: types.EncryptionAlgorithmSpecSymmetricDefault}, nil
}

// ReEncrypt is the service's, with and without SourceKeyId.
func (k *KMS) ReEncrypt(ctx context.Context, in *kms.ReEncryptInput, opts ...func(*kms.Options)) (*kms.ReEncryptOutput, error) {
	r := request{operation: "ReEncrypt", keyID: aws.ToString(in.DestinationKeyId), context: in.DestinationEncryptionContext, source: in.SourceEncryptionContext, tokens: in.GrantTokens, dry: in.DryRun, blob: in.CiphertextBlob}
	out, err := k.serve(ctx, r, opts, func() (Answer, smithy.APIError) {
		from, p, err := k.decrypt(in.SourceKeyId, in.CiphertextBlob, in.SourceEncryptionContext)
		if err != nil {
			return Answer{}, err
		}
		to, err := k.use(r.keyID)
		if err != nil {
			return Answer{}, err
		}
		return Answer{KeyID: to.arn, SourceKeyID: from.arn, Ciphertext: to.wrap(p, in.DestinationEncryptionContext)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.ReEncryptOutput{KeyId: &out.KeyID, SourceKeyId: &out.SourceKeyID, CiphertextBlob: out.Ciphertext}, nil
}

// use finds a key that may be used. The lock is held.
func (k *KMS) use(keyID string) (*key, smithy.APIError) {
	key := k.find(keyID)
	if key == nil {
		return nil, &types.NotFoundException{Message: new("Key " + keyID + " does not exist")}
	}
	return key, key.usable()
}

// decrypt opens a ciphertext with the key it names, which must be keyID if there is one. The lock is held.
func (k *KMS) decrypt(keyID *string, blob []byte, context map[string]string) (*key, []byte, smithy.APIError) {
	var maker *key
	if len(blob) >= minBlob {
		for _, x := range k.keys {
			if tagOf("key", []byte(x.id)) == header(blob).key() {
				maker = x
			}
		}
	}
	named := maker
	if keyID != nil {
		var err smithy.APIError
		if named, err = k.use(*keyID); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case maker == nil:
		return nil, nil, &types.InvalidCiphertextException{}
	case maker != named:
		return nil, nil, &types.IncorrectKeyException{Message: new("The key ID in the request does not identify a CMK that can perform this operation.")}
	}
	if err := maker.usable(); err != nil {
		return nil, nil, err
	}
	p, ok := maker.unwrap(blob, context)
	if !ok {
		return nil, nil, &types.InvalidCiphertextException{}
	}
	return maker, p, nil
}

// request is what the operations have in common.
type request struct {
	operation       string
	keyID           string
	context, source map[string]string
	tokens          []string
	dry             *bool
	blob            []byte
}

// check is the service's validation of parameters.
func (r request) check() smithy.APIError {
	for _, m := range []map[string]string{r.context, r.source} {
		for name, value := range m {
			if name == "" || value == "" {
				return invalid("Invalid EncryptionContext")
			}
			if !utf8.ValidString(name) || !utf8.ValidString(value) {
				return invalid("EncryptionContext is not UTF-8")
			}
		}
	}
	switch {
	case r.keyID == "" && r.operation != "Decrypt":
		return invalid("1 validation error detected: Value null at 'keyId' failed to satisfy constraint: Member must not be null")
	case len(r.keyID) > 2048:
		return invalid("keyId: Member must have length less than or equal to 2048")
	case len(r.tokens) > 10:
		return invalid("grantTokens: Member must have length less than or equal to 10")
	case r.operation != "GenerateDataKey" && (len(r.blob) == 0 || len(r.blob) > maxBlob):
		return invalid(fmt.Sprintf("ciphertextBlob: Member must have length between 1 and %d", maxBlob))
	case aws.ToBool(r.dry):
		return &types.DryRunOperationException{}
	}
	return nil
}

func invalid(message string) smithy.APIError {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

// clone keeps what was given from later changes.
func (a Answer) clone() Answer {
	a.Plaintext, a.Ciphertext = slices.Clone(a.Plaintext), slices.Clone(a.Ciphertext)
	return a
}
