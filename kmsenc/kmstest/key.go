package kmstest

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
)

// key is a KMS key in one Region. Its KMS's lock guards it, but for the material.
type key struct {
	id, arn  string
	state    state
	material *material
}

// state is a key's, as the KMS developer guide's "Key states of AWS KMS keys" has it.
type state uint8

const (
	enabled state = iota + 1
	disabled
	pendingDeletion
	pendingImport
)

func (s state) String() string {
	switch s {
	case enabled:
		return "Enabled"
	case disabled:
		return "Disabled"
	case pendingDeletion:
		return "PendingDeletion"
	case pendingImport:
		return "PendingImport"
	}
	return "unknown"
}

// usable is nil, or the error that the service gives for a key that cannot be used.
func (k *key) usable() smithy.APIError {
	switch k.state {
	case enabled:
		return nil
	case disabled:
		return &types.DisabledException{Message: new(k.arn + " is disabled.")}
	}
	return &types.KMSInvalidStateException{Message: new(k.arn + " is " + k.state.String() + ".")}
}

// change moves a key from one of some states to another.
func (k *KMS) change(arn, what string, to state, from ...state) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	key := k.find(arn)
	if key == nil {
		k.t.Errorf("kmstest: %s: there is no key %s in %s", what, arn, k.region)
		return
	}
	for _, s := range from {
		if key.state == s {
			key.state = to
			return
		}
	}
	k.t.Errorf("kmstest: %s: KMSInvalidStateException: %s is %v", what, arn, key.state)
}

// Disable makes a key refuse with DisabledException.
func (k *KMS) Disable(arn string) {
	k.t.Helper()
	k.change(arn, "DisableKey", disabled, enabled, disabled)
}

// Enable makes a disabled key usable again.
func (k *KMS) Enable(arn string) {
	k.t.Helper()
	k.change(arn, "EnableKey", enabled, enabled, disabled)
}

// ScheduleDeletion makes a key refuse with KMSInvalidStateException.
func (k *KMS) ScheduleDeletion(arn string) {
	k.t.Helper()
	k.change(arn, "ScheduleKeyDeletion", pendingDeletion, enabled, disabled, pendingImport)
}

// CancelDeletion leaves the key disabled.
func (k *KMS) CancelDeletion(arn string) {
	k.t.Helper()
	k.change(arn, "CancelKeyDeletion", disabled, pendingDeletion)
}

// DeleteMaterial takes the material of an imported key away: it refuses with KMSInvalidStateException, and what it wrapped
// cannot be opened by anybody unless the same bytes are imported again.
func (k *KMS) DeleteMaterial(arn string) {
	k.t.Helper()
	if k.isImported(arn, "DeleteImportedKeyMaterial") {
		k.change(arn, "DeleteImportedKeyMaterial", pendingImport, enabled, disabled, pendingImport)
	}
}

// ImportMaterial brings the material of an imported key back. The service takes only the bytes that the key had before, and so
// they need not be given.
func (k *KMS) ImportMaterial(arn string) {
	k.t.Helper()
	if k.isImported(arn, "ImportKeyMaterial") {
		k.change(arn, "ImportKeyMaterial", enabled, pendingImport)
	}
}

func (k *KMS) isImported(arn, what string) bool {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.find(arn); key == nil || !key.material.imported {
		k.t.Errorf("kmstest: %s: %s is no key with imported material", what, arn)
		return false
	}
	return true
}

// Rotate gives a key new material, in every Region that has it. What earlier material wrapped still opens.
func (k *KMS) Rotate(arn string) {
	k.t.Helper()
	k.mu.Lock()
	key := k.find(arn)
	k.mu.Unlock()
	if key == nil {
		k.t.Errorf("kmstest: RotateKeyOnDemand: there is no key %s in %s", arn, k.region)
		return
	}
	var b [materialSize]byte
	rand.Read(b[:])
	key.material.add(b)
}

const materialSize = 32

// material is all that a key ever had, the current last. Replicas share it.
type material struct {
	mu       sync.Mutex
	all      [][materialSize]byte
	imported bool
}

func newMaterial() *material {
	m := &material{}
	var b [materialSize]byte
	rand.Read(b[:])
	m.add(b)
	return m
}

func (m *material) add(b [materialSize]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, b)
}

func (m *material) set(b [materialSize]byte) { m.all = [][materialSize]byte{b} }

func (m *material) current() [materialSize]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[len(m.all)-1]
}

// byTag finds material by the tag in a ciphertext.
func (m *material) byTag(tag [tagSize]byte) ([materialSize]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.all {
		if materialTag(b) == tag {
			return b, true
		}
	}
	return [materialSize]byte{}, false
}

func materialTag(b [materialSize]byte) [tagSize]byte { return tagOf("material", b[:]) }

func tagOf(label string, b []byte) (tag [tagSize]byte) {
	sum := sha256.Sum256(append([]byte("kmstest "+label+"\x00"), b...))
	copy(tag[:], sum[:])
	return tag
}
