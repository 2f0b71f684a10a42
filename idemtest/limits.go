package idemtest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/idem-go/idem"
)

// Limits of DynamoDB and of the format.
const (
	maxTenant    = 256            // bytes
	maxOperation = 64             // bytes
	maxItem      = 400 << 10      // bytes: "Maximum item size", names included
	maxReceipt   = 6<<20 + 64<<10 // bytes: Lambda's largest answer, sealed; what is too large for the item goes beside it
	maxText      = 256            // bytes of Resolution.By and Why
)

// refusal is an error of a call that changed nothing and never will.
type refusal string

func (e refusal) Error() string { return "idemtest: " + string(e) }

// Retryable says that sending the same again is no use.
func (refusal) Retryable() bool { return false }

func refusef(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// refuse says why a table would not take r, whatever it holds. m.mu is held.
func (m *Memory) refuse(r idem.Record) error {
	id := r.ID
	switch size := itemSize(r); {
	case r.Generation != m.gen.Number:
		return refusef("write %v of generation %d: the table's is %d", id, r.Generation, m.gen.Number)
	case len(id.Tenant) > maxTenant || !utf8.ValidString(id.Tenant):
		return refusef("write %v: tenant is not UTF-8 of at most %d bytes", id, maxTenant)
	case id.Operation == "" || len(id.Operation) > maxOperation || strings.Trim(id.Operation, operationRunes) != "":
		return refusef("write: operation is not 1 to %d of %s", maxOperation, operationRunes)
	case len(r.Resolved.By) > maxText || len(r.Resolved.Why) > maxText || !utf8.ValidString(r.Resolved.By+r.Resolved.Why):
		return refusef("write %v: Resolved is not UTF-8 of at most %d bytes each", id, maxText)
	case size > maxItem:
		return refusef("write %v: item of %d bytes without its receipt: at most %d", id, size, maxItem)
	case r.Note.Ref != "" || r.Evidence.Ref != "" || r.Receipt.Ref != "" && len(r.Receipt.Bytes) == 0 && m.beside[r.Receipt.Ref] == nil:
		return refusef("write %v: a Ref that this store did not give", id)
	case len(r.Receipt.Bytes) > maxReceipt:
		return refusef("write %v: receipt of %d bytes: at most %d", id, len(r.Receipt.Bytes), maxReceipt)
	}
	return nil
}

const operationRunes = "abcdefghijklmnopqrstuvwxyz0123456789._-"

// itemSize is what DynamoDB would count, about: names and numbers of an item are the fixed part.
func itemSize(r idem.Record) int {
	return 400 + len(r.ID.Tenant) + len(r.ID.Operation) + len(r.Resolved.By) + len(r.Resolved.Why) + len(r.Note.Bytes) + len(r.Evidence.Bytes)
}

// known is an error for what this version cannot read.
func known(i *item) error {
	switch {
	case i.unknown == UnknownFormat, i.unknown == UnknownState:
		return refusef("read %v: record in an unknown %s", i.record.ID, i.unknown)
	}
	return nil
}
