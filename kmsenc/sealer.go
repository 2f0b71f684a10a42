package kmsenc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Options of a [Sealer]. Nil, like the zero value, means the defaults.
type Options struct {
	// Namespace is part of everything that is sealed, and the value of "ns" in the encryption context: at most 256 bytes of
	// UTF-8, by default "idem". Give environments that share a KMS key one each. Changed, nothing that was sealed before opens.
	Namespace string

	// Retired are ARNs of KMS keys that open what was sealed with them, and never seal. A key that is replaced stays here until
	// the last record that was sealed with it is forgotten, or rewrapped.
	Retired []string

	// PerTenant gives each tenant data keys of its own, wrapped under its name, so that policies can tell tenants apart and one can
	// be shut out. Without it tenants share data keys, and only the binding keeps their records apart. Tenants are then in clear
	// in CloudTrail: they must not be e-mail addresses. An operation without tenants has data keys for the operation alone.
	// Changed, nothing that was sealed before opens.
	PerTenant bool

	// SoftAge is when a data key is replaced for sealing: 5 minutes by default. While KMS does not answer, the key goes on to seal
	// until HardAge, 30 minutes by default and at most 24 hours, which is the longest that a data key is used at all.
	SoftAge, HardAge time.Duration

	// InsecureCleartextUntil is the end of a migration from idem.InsecureCleartext: until then this sealer opens what that one
	// wrote, though never writes such text. It should be when the last process that still writes clear text was stopped, plus the
	// longest Retain; 100 days from now at most. Before that time whoever can write to the table can forge any result, as ever
	// before; after it clear text is refused, so this setting may stay in the code. The process's wall clock decides.
	InsecureCleartextUntil time.Time

	_ struct{}
}

// Sealer seals what idem records: it is an idem.Sealer. It is safe for concurrent use, and one per process is enough.
type Sealer struct {
	api            API
	key            keyARN
	keys           map[[hintSize]byte]keyARN
	namespace      string
	perTenant      bool
	cleartextUntil time.Time
	ring           *keyring
	rewrapped      rewrapped
}

// New makes a sealer that seals with the KMS key of that ARN: a symmetric encryption key, in any partition. An alias, or a key's id
// alone, is refused. KMS is not asked before the first Prepare or Open, so a process that is snapshotted after New (SnapStart)
// has no data key in its snapshot.
func New(api API, keyARN string, opts *Options) (*Sealer, error) {
	s, err := newSealer(api, keyARN, opts)
	if err != nil {
		return nil, fmt.Errorf("kmsenc: %w", err)
	}
	return s, nil
}

const (
	defaultNamespace = "idem"
	defaultSoftAge   = 5 * time.Minute
	defaultHardAge   = 30 * time.Minute
)

func newSealer(api API, arn string, opts *Options) (*Sealer, error) {
	if api == nil {
		return nil, errors.New("the API is nil")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.SoftAge == 0 {
		o.SoftAge = defaultSoftAge
	}
	if o.HardAge == 0 {
		o.HardAge = defaultHardAge
	}
	if o.SoftAge < 0 || o.HardAge <= o.SoftAge || o.HardAge > maxHardAge {
		return nil, fmt.Errorf("Options.SoftAge %v and Options.HardAge %v: they must be positive, the hard one the longer and at most %v", o.SoftAge, o.HardAge, maxHardAge)
	}
	if err := checkValue(o.Namespace); err != nil {
		return nil, fmt.Errorf("Options.Namespace %w", err)
	}
	if err := checkCleartext(o.InsecureCleartextUntil); err != nil {
		return nil, err
	}
	key, err := parseARN(arn)
	if err != nil {
		return nil, fmt.Errorf("the key %w", err)
	}
	keys, err := allowed(key, o.Retired)
	if err != nil {
		return nil, err
	}
	return &Sealer{
		api: api, key: key, keys: keys, namespace: o.Namespace, perTenant: o.PerTenant,
		cleartextUntil: o.InsecureCleartextUntil.Round(0), ring: newKeyring(o.SoftAge, o.HardAge, o.PerTenant),
	}, nil
}

// Prepare gets a data key in hand for what scope names: "operation", and with PerTenant "tenant", each at most 256 bytes of UTF-8.
// Other entries are ignored. Warm it makes no call; cold, at most two, of at most a second each, and among concurrent callers one
// makes them for all. It returns when ctx ends.
//
// The function it returns seals, for as long as it is held and as often as it is called, concurrently too; it makes no call and
// does not fail for anything that happens to the KMS key later. It appends to a copy of dst, and refuses a plaintext of more
// than 16 MiB. The error is an [*Error]: ErrUnavailable or ErrRefused.
func (s *Sealer) Prepare(ctx context.Context, scope map[string]string) (func(dst, binding, plaintext []byte) ([]byte, error), error) {
	c, err := s.scopeOf(scope)
	if err != nil {
		return nil, err
	}
	id := c.id()
	k, err := s.ring.get(ctx, &s.ring.sealing, name{id, s.key.text, id}, question{sealer: s, scope: c})
	if err != nil {
		return nil, err
	}
	defer k.release()
	k.messages.Add(1) // also if it is never used: the limit is for what may have been sealed
	p := &prepared{grip: k.grasp(), namespace: s.namespace}
	return p.seal, nil
}

// prepared is a data key in an attempt's hand.
type prepared struct {
	*grip
	namespace string
	used      atomic.Bool
}

func (p *prepared) seal(dst, binding, plaintext []byte) ([]byte, error) {
	defer runtime.KeepAlive(p.grip) // the data key must not be overwritten under us
	if len(plaintext) > maxText {
		return nil, &Error{Kind: ErrRefused, problem: fmt.Sprintf("the plaintext has %d bytes: at most %d", len(plaintext), maxText)}
	}
	if p.used.Swap(true) {
		p.messages.Add(1)
	}
	p.bytes.Add(int64(len(plaintext)))
	return seal(dst, p.dataKey, digest(p.namespace, binding), plaintext)
}

// Open gives the plaintext of what a seal function made, appended to a copy of dst. It needs the scope and the binding that
// were given then. It asks KMS if the data key is not at hand, bounded as with Prepare, and not at all where the text names a
// key that is not allowed. What KMS refused as forged it is not asked again for a few seconds.
//
// The error is an [*Error]. On any error nothing of the plaintext is returned.
func (s *Sealer) Open(ctx context.Context, scope map[string]string, dst, binding, sealed []byte) ([]byte, error) {
	if isCleartext(sealed) {
		return s.openCleartext(dst, sealed)
	}
	c, err := s.scopeOf(scope)
	if err != nil {
		return nil, err
	}
	e, from, err := s.source(sealed)
	if err != nil {
		return nil, err
	}
	scopeID := c.id()
	id := openingID(scopeID, from.text, e.wrapped)
	k, err := s.ring.get(ctx, &s.ring.opening, name{id, from.text, scopeID}, question{s, c, from, e.wrapped})
	if err != nil {
		return nil, err
	}
	defer k.release()
	return open(dst, k, e, digest(s.namespace, binding))
}

// source takes an envelope apart and says which of the allowed keys it claims.
func (s *Sealer) source(sealed []byte) (envelope, keyARN, error) {
	e, err := parse(sealed)
	if err != nil {
		return e, keyARN{}, err
	}
	from, ok := s.keys[e.hint]
	if !ok {
		return e, keyARN{}, &Error{Kind: ErrRefused, problem: fmt.Sprintf("the text names a KMS key (hint %x) that is neither the sealing key nor in Options.Retired", e.hint)}
	}
	return e, from, nil
}
