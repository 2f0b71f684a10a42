package sam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// patience is how long a table may take to become active; ctx may end it earlier.
const patience = 2 * time.Minute

// Create creates the template's records table under the given name, waits until it is active and turns on its TTL. It is
// meant for emulators and throw-away tables: what only a deployed table has (see properties) is left out. An existing
// table of that name is an error, never reused.
func Create(ctx context.Context, client *dynamodb.Client, name string, template []byte) error {
	in, ttl, err := Table(bytes.NewReader(template))
	if err != nil {
		return err
	}
	in.TableName = aws.String(name)
	begun := time.Now()
	if _, err := client.CreateTable(ctx, in); err != nil && !ownTable(ctx, client, name, begun, err) {
		return fmt.Errorf("table %s: %w", name, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, patience); err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	if ttl == "" {
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               in.TableName,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(ttl), Enabled: aws.Bool(true)},
	})
	if err != nil && !hasTTL(ctx, client, name, ttl) { // it cannot be turned on twice, not even by a request sent again
		return fmt.Errorf("TTL of table %s: %w", name, err)
	}
	return nil
}

func hasTTL(ctx context.Context, client *dynamodb.Client, name, attribute string) bool {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil || out.TimeToLiveDescription == nil {
		return false
	}
	d := out.TimeToLiveDescription
	on := d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	return on && aws.ToString(d.AttributeName) == attribute
}

// ownTable says that a refused creation met what an earlier attempt of itself had created: the SDK sends a request again whose
// answer was lost. A table that was there before is older than the call, but for the whole seconds in which engines tell.
func ownTable(ctx context.Context, client *dynamodb.Client, name string, begun time.Time, err error) bool {
	var taken *types.ResourceInUseException
	if !errors.As(err, &taken) {
		return false
	}
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	return err == nil && out.Table != nil && out.Table.CreationDateTime != nil && !out.Table.CreationDateTime.Before(begun.Truncate(time.Second))
}
