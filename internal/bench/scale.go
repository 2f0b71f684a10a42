package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// fill puts copies of a stored record into the table, 25 at a time, until it has n.
func (t *target) fill(ctx context.Context, n int) error {
	if err := t.calls.First(ctx, itemKey("pattern")); err != nil {
		return err
	}
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.table, Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: itemKey("pattern")}}})
	if err != nil {
		return err
	}
	const batch = 25
	return spread(n/batch, 4, func(i int) error {
		var puts []types.WriteRequest
		for k := range batch {
			item := make(map[string]types.AttributeValue, len(out.Item))
			for name, v := range out.Item {
				item[name] = v
			}
			item["pk"] = &types.AttributeValueMemberS{Value: itemKey(fmt.Sprint("fill", i*batch+k))}
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item}})
		}
		for len(puts) > 0 {
			out, err := t.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{t.table: puts}})
			if err != nil {
				return err
			}
			puts = out.UnprocessedItems[t.table]
		}
		return nil
	})
}

// bySize are first executions on tables of growing size.
func bySize(targets []*target, sizes []int) []side {
	var sides []side
	for k, t := range targets {
		guarded, plain, _ := t.first(fmt.Sprint("size", k))
		guarded.name, plain.name = fmt.Sprintf("idem: %d records", sizes[k]), fmt.Sprintf("bare: %d records", sizes[k])
		sides = append(sides, guarded, plain)
	}
	return sides
}

// byTenants are first executions for growing numbers of tenants, in turns.
func (t *target) byTenants(counts []int) []side {
	var sides []side
	for _, n := range counts {
		tenants := make([]string, n)
		for k := range tenants {
			tenants[k] = fmt.Sprintf("tenant-%04d", k)
		}
		sides = append(sides, side{fmt.Sprintf("idem: %d tenants", n), func(ctx context.Context, round, i int) error {
			r := idem.Request{Tenant: tenants[i%n], Key: fmt.Sprint(prefix, "tenants", n, "-", round, "-", i), Payload: payload}
			_, err := t.op.Do(ctx, r, charges)
			return err
		}})
	}
	return sides
}
