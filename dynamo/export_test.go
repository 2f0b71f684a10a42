package dynamo

import (
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// Key is a record's partition key.
func Key(id idem.ID) string { return key(id) }

// Item is the stored form of a record.
func Item(r idem.Record) map[string]types.AttributeValue {
	item := keyOf(key(r.ID))
	for name, v := range encode(r) {
		item[name[len(":"):]] = v
	}
	return item
}

// SetClock replaces this machine's clock.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// Codes are the error codes the store knows.
func Codes() []string { return slices.Sorted(maps.Keys(codes)) }
