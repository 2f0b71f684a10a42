// Package kmstest is a KMS in memory, for tests of what uses kmsenc, or KMS in the same way.
//
//	service := kmstest.New(t)
//	key := service.CreateKey()
//	sealer, err := kmsenc.New(service, key, nil)
//
// It answers GenerateDataKey, Decrypt and ReEncrypt for symmetric keys, and is strict where emulators were found lax, so that a
// test that passes here is no accident:
//
//   - Encryption contexts are equal pair by pair, by lengths. Empty names or values and text that is not UTF-8 are refused.
//   - A ciphertext opens with the key that made it, unaltered, and not otherwise: IncorrectKeyException if another key is named,
//     InvalidCiphertextException for every bit that changed and for every other encryption context.
//   - A key that is disabled, pending deletion or without its imported material does nothing; each transition is the service's:
//     a cancelled deletion leaves the key disabled.
//   - Sizes and parameters have the service's limits.
//   - Multi-Region keys have one key material in each Region, and a state of their own.
//   - After a rotation, ciphertexts of earlier key material still open.
//
// Errors are those that the SDK would give: an *smithy.OperationError around an HTTP response error with status and request id,
// around the service's error. [Fault] makes KMS throttle, be slow, deny, hang or answer wrongly, and [KMS.Calls] tells what was
// asked. It reads no clock but for delays, and these run on the fake clock of testing/synctest.
//
// Not here: IAM policies and grants (deny with a [Fault]), aliases, asymmetric and HMAC keys, Nitro enclaves.
package kmstest
