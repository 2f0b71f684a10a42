// Package kmsenc seals what package idem records with data keys of AWS KMS.
//
//	sealer, err := kmsenc.New(kms.NewFromConfig(cfg), os.Getenv("IDEM_KMS_KEY"), nil) // an ARN
//	op, err := idem.New[Charge](store, sealer, "charge", nil)
//
// KMS makes a data key and wraps it (envelope encryption); each text is encrypted here, with a key of its own that is derived from
// the data key, and carries the wrapped data key. A process keeps data keys in memory, so a warm request makes no call to KMS.
//
// # What is promised
//
// Who can read the table, a backup or an export of it, and may not use the KMS key, learns of a sealed text its length and nothing
// else. Who can write to the table cannot forge or alter a text, nor move one to another record, tenant, operation, fingerprint,
// kind, attempt or namespace: it opens with the binding that it was sealed with, or not at all. It opens to one plaintext: each
// text commits to its data key and its binding.
//
// Before an attempt begins, its key is in hand: if KMS does not give one, [Sealer.Prepare] fails, and nothing was written and nothing
// ran. After it, sealing needs neither KMS nor the network, whatever becomes of the KMS key.
//
// KMS may throttle or be down for the difference of hard and soft age, 25 minutes, without any effect on a process in use. 500
// callers that come at once make one call, and one that waits gives up when its own context ends, which concerns no other. The
// package starts no goroutine.
//
// Only keys that are named by their ARN are used, for opening too: never an alias, and never whichever key a text asks for. What
// was sealed by one version opens in every later one (testdata/vectors).
//
// All of it is approved under FIPS 140-3 and works with GODEBUG=fips140=only: HKDF-Expand with SHA-512 and AES-256-GCM with random
// nonces, from the standard library.
//
// # What is not
//
// Nothing hides the length of a text: it is neither padded nor compressed. Tenant, operation, state, times, the SHA-256 of the key
// and that of the request are in clear in the record, so a request of little entropy can be guessed; the record's encryption at
// rest is DynamoDB's. Who can write to the table can put an older text of the very same record, kind and attempt back, and can delete
// records. Without [Options].PerTenant tenants have data keys in common, and cannot be shut out or erased one by one.
//
// A data key is overwritten in memory when it is evicted and its last user is gone; copies that the SDK, the runtime and the
// cipher make are not.
//
// # Errors
//
// Every error of a [Sealer] is an [*Error], and one of three kinds. What idem does with it is in the last column:
//
//	kind            reasons                                      before the claim        on a replay
//	ErrUnavailable  throttled, 5xx, no connection, no time       UnavailableError        UnavailableError: ask again
//	ErrRefused      disabled, deleted, denied, key not allowed   UnavailableError        UnreadableError
//	ErrTampered     altered, moved, of another key, clear text   -                       UnreadableError
//
// Error.Retryable tells the first from the others, and idem.RetryAfter follows it. None ever lets a function run again. Alarm on
// the second, somebody has to act, and on the third, somebody may have acted.
//
// # Revocation
//
// A disabled key, one that is to be deleted, and a denied right are noticed when KMS is asked next. A process that seals asks after the
// soft age, 5 minutes, and then drops what it has in memory for that key, or for that encryption context where a right is missing;
// one that only opens asks for each data key after the hard age, 30 minutes; and no data key is used after the hard age for anything
// but to finish attempts that began before. If KMS does not answer, the hard age is the limit for both. Ages count by the wall
// clock too, as the monotonic clock stands still while Lambda has the process frozen, and where the wall clock is set back every
// key is dropped.
//
// To erase one tenant, with PerTenant: deny the encryption context with its name in the key's policy, which takes effect after the
// ages above and can be taken back; or give it a KMS key of its own, and a sealer, and delete that.
//
// # Permissions
//
// A function needs kms:GenerateDataKey and kms:Decrypt on the key, one that only answers replays kms:Decrypt, and [Sealer.Rewrap]
// kms:ReEncryptFrom and kms:ReEncryptTo. The encryption context of every call is
//
//	kmsenc = 1, ns = Options.Namespace, operation = the operation's name, with PerTenant also tenant = the tenant
//
// so a policy can demand it:
//
//	"Condition": {
//	  "StringEquals": {"kms:EncryptionContext:kmsenc": "1", "kms:EncryptionContext:ns": "prod"},
//	  "Null": {"kms:EncryptionContext:operation": "false"},
//	  "ForAllValues:StringEquals": {"kms:EncryptionContextKeys": ["kmsenc", "ns", "operation"]}
//	}
//
// ForAllValues holds for an empty set as well, hence the Null. With PerTenant "tenant" belongs into both, and
// "kms:EncryptionContext:tenant": "${aws:PrincipalTag/tenant}" confines a role to its tenant. The context is in clear in CloudTrail.
//
// # Changing keys
//
// KMS's own rotation needs nothing. For another KMS key: first deploy with the new ARN in Retired everywhere, then with the new ARN
// as key and the old one in Retired, so that no process meets a text that it must not open; later take the old one off, when the
// last record that it sealed is forgotten or rewrapped. Keys of a multi-Region set open for each other by themselves.
//
// From idem.InsecureCleartext: see [Options].InsecureCleartextUntil. While both are deployed, a process of the old kind answers
// requests for what the new kind recorded with an UnreadableError; it runs nothing twice.
package kmsenc
