package dynamo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// AdminAPI is what sweeps and operators' tools need of DynamoDB. *dynamodb.Client is one. In a policy, Query is for the index.
type AdminAPI interface {
	API
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Admin is a [Store] whose records can be listed. It implements [idem.Lister].
type Admin struct {
	*Store
	api AdminAPI
}

var (
	_ idem.Store  = (*Admin)(nil)
	_ idem.Lister = (*Admin)(nil)
	_ AdminAPI    = (*dynamodb.Client)(nil)
)

// NewAdmin is [New] for tools that list records, too.
func NewAdmin(api AdminAPI, table string, opts *Options) (*Admin, error) {
	s, err := New(api, table, opts)
	if err != nil {
		return nil, err
	}
	return &Admin{s, api}, nil
}

const (
	index    = "indeterminate" // of template.yaml: iq and ia of records that somebody has to look at, keys only
	segments = 8               // of a scan
)

// List implements [idem.Lister]. Indeterminate records, asked for alone, are found by the index, those longest in doubt first in each
// of its eight parts, and then read with strong consistency: that costs what they are, whatever else the table holds. Anything
// else reads the whole table, bodies of receipts included, with eventual consistency, in eight segments by turns, so that the load
// is spread. Either way one page is in memory at a time. It is not refused on a table that is not adopted: nothing is written.
//
// It goes on for as long as ctx allows while DynamoDB throttles it or does not answer.
func (a *Admin) List(ctx context.Context, operation string, states ...idem.State) iter.Seq2[idem.Record, error] {
	walk := a.scan
	if len(states) > 0 && !slices.ContainsFunc(states, func(s idem.State) bool { return s != idem.Indeterminate }) {
		walk = a.query
	}
	return func(yield func(idem.Record, error) bool) {
		err := walk(ctx, operation, states, func(pk string, item attributes, at time.Time) bool {
			id, err := parseKey(pk)
			switch {
			case err != nil:
				return yield(idem.Record{At: at}, fmt.Errorf("list: item with a key of SHA-256 %x: %w", sha256.Sum256([]byte(pk)), err))
			case operation != "" && id.Operation != operation:
				return true
			}
			r, err := read(id, item, at)
			switch {
			case err != nil:
				return yield(idem.Record{ID: id, At: at}, fmt.Errorf("list %v: %w", id, err))
			case len(states) > 0 && !slices.Contains(states, r.State): // it was when the index or the page was made
				return true
			}
			return yield(r, nil)
		})
		if err != nil {
			yield(idem.Record{}, fmt.Errorf("list: %w", err))
		}
	}
}

// visitor gets an item that should be a record. It is false if that was enough.
type visitor func(pk string, item attributes, at time.Time) bool

// filters of a scan, by the number of states.
var filters = [...]string{"attribute_not_exists(bb)", "st IN (:s1)", "st IN (:s1, :s2)", "st IN (:s1, :s2, :s3)", "st IN (:s1, :s2, :s3, :s4)", "st IN (:s1, :s2, :s3, :s4, :s5)"}

// scan reads the table. A page may be empty and the next one not.
func (a *Admin) scan(ctx context.Context, _ string, states []idem.State, visit visitor) error {
	in := dynamodb.ScanInput{TableName: &a.table, TotalSegments: aws.Int32(segments)}
	values := attributes{}
	for _, s := range slices.Compact(slices.Sorted(slices.Values(states))) {
		if s >= idem.Pending && s <= idem.Released {
			values[fmt.Sprintf(":s%d", len(values)+1)] = &types.AttributeValueMemberS{Value: stateLetters[s : s+1]}
		}
	}
	in.FilterExpression = &filters[len(values)]
	switch {
	case len(values) > 0:
		in.ExpressionAttributeValues = values
	case len(states) > 0: // of which no record is in any
		return nil
	}
	type segment struct {
		number int32
		start  attributes
	}
	var open []segment
	for n := range int32(segments) {
		open = append(open, segment{number: n})
	}
	for len(open) > 0 {
		s := open[0]
		open = open[1:]
		in.Segment, in.ExclusiveStartKey = &s.number, s.start
		items, next, at, err := a.page(ctx, "Scan", func(ctx context.Context, opt func(*dynamodb.Options)) ([]attributes, attributes, time.Time, error) {
			out, err := a.api.Scan(ctx, &in, opt)
			if err != nil {
				return nil, nil, time.Time{}, err
			}
			return out.Items, out.LastEvaluatedKey, dateOf(out.ResultMetadata), nil
		})
		if err != nil {
			return err
		}
		for _, item := range items {
			if pk := keyIn(item); !besideRecords(pk) && !visit(pk, item, at) {
				return nil
			}
		}
		if len(next) > 0 {
			open = append(open, segment{s.number, next})
		}
	}
	return nil
}

// query reads the index, and then each record. What the index lists may be resolved, gone or of a later doubt by then.
func (a *Admin) query(ctx context.Context, operation string, _ []idem.State, visit visitor) error {
	for i := range len(shards) {
		in := dynamodb.QueryInput{
			TableName:                 &a.table,
			IndexName:                 aws.String(index),
			KeyConditionExpression:    aws.String("iq = :iq"),
			ExpressionAttributeValues: attributes{":iq": &types.AttributeValueMemberS{Value: shards[i : i+1]}},
		}
		for more := true; more; more = len(in.ExclusiveStartKey) > 0 {
			keys, next, _, err := a.page(ctx, "Query", func(ctx context.Context, opt func(*dynamodb.Options)) ([]attributes, attributes, time.Time, error) {
				out, err := a.api.Query(ctx, &in, opt)
				if err != nil {
					return nil, nil, time.Time{}, err
				}
				return out.Items, out.LastEvaluatedKey, time.Time{}, nil
			})
			if err != nil {
				return err
			}
			for _, k := range keys {
				pk := keyIn(k)
				if id, err := parseKey(pk); err == nil && operation != "" && id.Operation != operation {
					continue
				}
				item, at, err := a.get(ctx, pk, recording)
				if err != nil {
					return err
				}
				if !visit(pk, item, at) {
					return nil
				}
			}
			in.ExclusiveStartKey = next
		}
	}
	return nil
}

// page reads one page. An empty LastEvaluatedKey ends the pages as none does.
func (a *Admin) page(ctx context.Context, call string, send func(context.Context, func(*dynamodb.Options)) ([]attributes, attributes, time.Time, error)) (items []attributes, next attributes, at time.Time, err error) {
	e := a.run(ctx, call, recording.with(1<<20), func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		items, next, at, err = send(ctx, opt)
		return err
	})
	if e != nil {
		e.ambiguous = false // a read changes nothing
		return nil, nil, at, e
	}
	return items, next, at, nil
}

// keyIn is an item's partition key.
func keyIn(item attributes) string {
	if s, ok := item[attrKey].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// besideRecords says that a key is that of a control item or of a body.
func besideRecords(pk string) bool {
	if strings.HasPrefix(pk, "!") {
		return true
	}
	parts := strings.Split(pk, "#")
	if len(parts) != 6 {
		return false
	}
	_, err := parseKey(strings.Join(parts[:4], "#"))
	return err == nil
}
