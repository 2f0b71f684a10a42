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

// BodyKey is the partition key of a body of the receipt that r refers to, empty if there are none.
func BodyKey(r idem.Record, i int) string {
	if b, ok := parseRef(r.Receipt.Ref); ok {
		return bodyKey(key(r.ID), b.by, i)
	}
	return ""
}

// Bodies is how many a record refers to.
func Bodies(r idem.Record) int {
	b, _ := parseRef(r.Receipt.Ref)
	return b.count
}

// SetClock replaces this machine's clock.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// Codes are the error codes the store knows.
func Codes() []string { return slices.Sorted(maps.Keys(codes)) }

// ItemSize is what DynamoDB counts for an item.
func ItemSize(item map[string]types.AttributeValue) int {
	values := make(attributes, len(item))
	for name, v := range item {
		values[":"+name] = v
	}
	return itemSize("", values) - len(attrKey)
}
