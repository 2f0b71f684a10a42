package idemtest

import (
	"errors"
	"strings"

	"github.com/idem-go/idem"
)

// apart creates a record under each ID and checks that each is there for itself. A store may refuse an ID that the protocol
// above never makes, but must not take it for another.
func (s *suite) apart(ids []idem.ID, mayRefuse func(idem.ID) bool) {
	s.Helper()
	var created []idem.Record
	for _, id := range ids {
		r := s.record(idem.Pending)
		r.ID = id
		got, err := s.store.Create(s.Context(), r)
		switch {
		case err != nil && mayRefuse(id) && !errors.Is(err, idem.ErrAmbiguous):
			continue
		case err != nil:
			s.Errorf("create with tenant %q, operation %q: %v", id.Tenant, id.Operation, err)
			continue
		case got.Version != r.Version:
			s.Errorf("create with tenant %q, operation %q: taken for tenant %q, operation %q", id.Tenant, id.Operation, got.ID.Tenant, got.ID.Operation)
			continue
		}
		created = append(created, r)
	}
	for _, r := range created {
		s.holds(r)
	}
}

func never(idem.ID) bool { return false }

func differentIDs(s *suite) {
	base := s.id()
	ids := []idem.ID{base}
	for _, bit := range []int{0, 7, 128, 255} {
		id := base
		id.Key[bit/8] ^= 1 << (bit % 8)
		ids = append(ids, id)
	}
	for _, op := range []string{"idemtes", "idemtest.", "idemtest-2", "_", strings.Repeat("a", 64)} {
		id := base
		id.Operation = op
		ids = append(ids, id)
	}
	for _, t := range []string{
		" ", "A", "a", "é", "e\u0301", "漢字", "\U0001F512", "#", "%", "%23", "%25", "%2523", "/", "//", "..", `\`, `"`, `'`, "`", "+", "&", "=", "?", "{", "$",
		"!gen", "*", "\u00a0", "\u202e", strings.Repeat("x", 256-len(base.Tenant)),
	} {
		id := base
		id.Tenant += t
		ids = append(ids, id)
	}
	single := base
	single.Tenant = "" // of an operation that is SingleTenant
	s.apart(append(ids, single), never)
}

func joinedIDs(s *suite) {
	key := s.id().Key
	named := func(tenant, op string) idem.ID { return idem.ID{Tenant: s.tenant + tenant, Operation: op, Key: key} }
	ids := []idem.ID{named("ab", "c"), named("a", "bc")}
	for _, sep := range []string{".", "-", "_", "#", "##", "%23", "%", "/", ":", "|", ",", ";", "!", " "} {
		ids = append(ids, named("a"+sep+"b", "c"), named("a", "b"+sep+"c"), named("a"+sep, "b"), named("a", sep+"b"))
	}
	// What a store that escapes too little, or twice, takes for one.
	ids = append(ids, named(`x\`, "y#c"), named("x#y", "c"))
	for _, t := range []string{"x#", "x%23", "x%2523", "x%", "x%25", `x\`, `x\\`, `x\#`} {
		ids = append(ids, named(t, "c"))
	}
	s.apart(ids, func(id idem.ID) bool { return strings.Trim(id.Operation, operationRunes) != "" })
}
