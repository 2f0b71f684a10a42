package kmsenc

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// keyScope is for what one data key may be used: KMS wraps it under these pairs, and unwraps it under the same pairs only.
type keyScope struct {
	namespace, operation string
	tenant               string // empty: any
}

// The names are in key policies and in CloudTrail, and the pairs are part of every wrapped key: they stay as they are.
// Another set of pairs needs another value of "kmsenc".
const (
	pairVersion   = "kmsenc"
	pairNamespace = "ns"
	pairOperation = "operation"
	pairTenant    = "tenant"
)

// pairs is the KMS encryption context: a map of its own for each call. KMS refuses an empty value, so there is none.
func (c keyScope) pairs() map[string]string {
	m := map[string]string{pairVersion: "1", pairNamespace: c.namespace, pairOperation: c.operation}
	if c.tenant != "" {
		m[pairTenant] = c.tenant
	}
	return m
}

// id is equal for equal pairs alone.
func (c keyScope) id() string {
	b := make([]byte, 0, 256)
	b = append(b, "kmsenc/1 scope\x00"...)
	b = appendPart(b, c.namespace)
	b = appendPart(b, c.operation)
	b = appendPart(b, c.tenant)
	return string(b)
}

// scopeOf checks what the caller gives. Tenant and operation go to KMS as JSON text, which would turn bytes that are no UTF-8
// into the same replacement character: two tenants would become one.
func (s *Sealer) scopeOf(given map[string]string) (keyScope, error) {
	c := keyScope{namespace: s.namespace, operation: given[pairOperation]}
	if c.operation == "" {
		return c, &Error{Kind: ErrRefused, problem: "the scope has no operation"}
	}
	if s.perTenant {
		c.tenant = given[pairTenant]
		if _, present := given[pairTenant]; present && c.tenant == "" {
			return c, &Error{Kind: ErrRefused, problem: "the scope's tenant is empty"}
		}
	}
	for _, pair := range [...][2]string{{pairOperation, c.operation}, {pairTenant, c.tenant}} {
		if err := checkValue(pair[1]); err != nil {
			return c, &Error{Kind: ErrRefused, problem: "the scope's " + pair[0] + " " + err.Error()}
		}
	}
	return c, nil
}

const maxValue = 256 // bytes of a value of the encryption context

func checkValue(v string) error {
	switch {
	case len(v) > maxValue:
		return fmt.Errorf("has %d bytes: at most %d", len(v), maxValue)
	case !utf8.ValidString(v):
		return fmt.Errorf("is not valid UTF-8")
	}
	return nil
}

// appendPart appends a text behind its length, so that no two sequences of texts give the same bytes.
func appendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}
