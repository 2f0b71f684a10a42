package kmstest

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
)

const (
	account = "111122223333"
	region  = "eu-central-1"
)

// KMS is the service in one Region of one account. It is safe for concurrent use.
type KMS struct {
	t       testing.TB
	region  string
	account *regions

	mu     sync.Mutex
	keys   map[string]*key // by id
	faults []*fault
	calls  []Call
}

// regions are the Regions of an account.
type regions struct {
	mu sync.Mutex
	of map[string]*KMS
}

// New gives a KMS without keys, in Region eu-central-1. Wrong use of it fails t.
func New(t testing.TB) *KMS {
	return (&regions{of: make(map[string]*KMS)}).get(t, region)
}

func (r *regions) get(t testing.TB, region string) *KMS {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.of[region]
	if k == nil {
		k = &KMS{t: t, region: region, account: r, keys: make(map[string]*key)}
		r.of[region] = k
	}
	return k
}

// CreateKey makes an enabled symmetric encryption key and returns its ARN.
func (k *KMS) CreateKey() string { return k.add(newID(""), newMaterial()) }

// CreateMultiRegionKey makes a primary key that [KMS.Replicate] can bring to other Regions.
func (k *KMS) CreateMultiRegionKey() string { return k.add(newID("mrk-"), newMaterial()) }

// ImportKey makes a key with a given id and with 32 bytes of imported key material: its ciphertexts open for as long as somebody
// has these bytes, so they can be kept as test vectors. [KMS.DeleteMaterial] and [KMS.ImportMaterial] are for such keys only.
func (k *KMS) ImportKey(id string, material []byte) string {
	k.t.Helper()
	if len(material) != materialSize {
		k.t.Errorf("kmstest: imported key material has %d bytes, not %d", len(material), materialSize)
		material = make([]byte, materialSize)
	}
	m := newMaterial()
	m.set([materialSize]byte(material))
	m.imported = true
	return k.add(id, m)
}

// Replicate brings a multi-Region key to another Region and returns the KMS there, and the replica's ARN. Replicas have the key
// material in common, also after rotations; states, faults and calls are each Region's own.
func (k *KMS) Replicate(arn, region string) (*KMS, string) {
	k.t.Helper()
	there := k.account.get(k.t, region)
	k.mu.Lock()
	primary := k.find(arn)
	k.mu.Unlock()
	if primary == nil || !strings.HasPrefix(primary.id, "mrk-") {
		k.t.Errorf("kmstest: %s is no multi-Region key here", arn)
		return there, ""
	}
	return there, there.add(primary.id, primary.material)
}

func (k *KMS) add(id string, m *material) string {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[id] != nil {
		k.t.Errorf("kmstest: there is a key %s in %s already", id, k.region)
	}
	arn := fmt.Sprintf("arn:aws:kms:%s:%s:key/%s", k.region, account, id)
	k.keys[id] = &key{id: id, arn: arn, state: enabled, material: m}
	return arn
}

// find takes a key's id or ARN. The lock is held.
func (k *KMS) find(keyID string) *key {
	if id, ok := strings.CutPrefix(keyID, fmt.Sprintf("arn:aws:kms:%s:%s:key/", k.region, account)); ok {
		keyID = id
	}
	return k.keys[keyID]
}

func newID(prefix string) string {
	var b [16]byte
	rand.Read(b[:])
	if prefix != "" {
		return fmt.Sprintf("%s%x", prefix, b)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
