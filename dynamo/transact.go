package dynamo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// TransactAPI is what a store's API must be as well for [Transact]. *dynamodb.Client is one. In a policy it stands for the writes
// that the transaction makes: dynamodb:UpdateItem on the records, and the caller's own.
type TransactAPI interface {
	API
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

var _ TransactAPI = (*dynamodb.Client)(nil)

// Transact is [idem.Operation.Do] for an effect that lies in DynamoDB: the items that fn returns, at most 99, are written in one
// TransactWriteItems together with the receipt, so that there is no lease and no doubt. The operation's records must be in a [Store]
// of the same account and Region.
//
// fn only prepares: it has no effect of its own, and its error is returned with nothing written. Where an item of it is refused,
// most often because its own condition does not hold, nothing is written either, and the error is a [CanceledError]: the key stays
// as it was. The other errors are Do's. Throttling and conflicts with other transactions are sent again under the same token.
func Transact[T any](ctx context.Context, op *idem.Operation[T], r idem.Request, fn func(context.Context) (T, []types.TransactWriteItem, error)) (idem.Result[T], error) {
	s, api, err := transactor(op.Store())
	if err != nil {
		return idem.Result[T]{}, err
	}
	var items []types.TransactWriteItem
	return op.Commit(ctx, r, func(ctx context.Context) (T, error) {
		v, own, err := fn(ctx)
		items = own
		return v, err
	}, func(ctx context.Context, seen idem.Version, next idem.Record) (idem.Record, error) {
		return s.commit(ctx, api, seen, next, items)
	})
}

// transactor finds the store, also below one that embeds it.
func transactor(store idem.Store) (*Store, TransactAPI, error) {
	t, ok := store.(interface{ self() *Store })
	if !ok {
		return nil, nil, errors.New("dynamo: the operation's store is not a dynamo.Store")
	}
	api, ok := t.self().api.(TransactAPI)
	if !ok {
		return nil, nil, errors.New("dynamo: the store's API has no TransactWriteItems")
	}
	return t.self(), api, nil
}

func (s *Store) self() *Store { return s }

// CanceledError: an item of the caller's own was refused, and nothing was written. Sending the same again helps only once the
// table holds something else.
type CanceledError struct {
	ID    string                          // operation and digest
	Index int                             // of the first refused item, as the caller returned them
	Code  string                          // ConditionalCheckFailed, say
	Item  map[string]types.AttributeValue // what the table holds there, if the refused item asks for ALL_OLD
	Err   error                           // the SDK's, with the reasons for all items; the first is the record
}

func (e *CanceledError) Error() string {
	return fmt.Sprintf("idem: %s: nothing was written: item %d of the transaction: %s", e.ID, e.Index, e.Code)
}

func (e *CanceledError) Unwrap() error { return e.Err }

// commit stores r over the version seen (none: the zero one), together with items.
func (s *Store) commit(ctx context.Context, api TransactAPI, seen idem.Version, r idem.Record, items []types.TransactWriteItem) (idem.Record, error) {
	over := &seen
	if seen == (idem.Version{}) {
		over = nil
	}
	holder, err := s.put(ctx, "TransactWriteItems", over, r, func(ctx context.Context, in *dynamodb.UpdateItemInput, opt func(*dynamodb.Options)) (attributes, time.Time, error) {
		out, err := api.TransactWriteItems(ctx, transaction(r.Version, in, items), opt)
		if err == nil {
			return nil, dateOf(out.ResultMetadata), nil
		}
		if c, ok := errors.AsType[*types.TransactionCanceledException](err); ok && len(c.CancellationReasons) > 0 {
			return c.CancellationReasons[0].Item, dateOfError(err), err
		}
		return nil, dateOfError(err), err
	})
	if own := ownReason(r.ID, err); own != nil {
		return idem.Record{}, idem.NotApplied(own)
	}
	if err != nil {
		return idem.Record{}, fmt.Errorf("commit %v: %w", r.ID, err)
	}
	return holder, nil
}

// transaction is the record's write as the first action, so that its refusal is in the first reason. The token is the version: the
// same for every attempt of this write, and of no other.
func transaction(v idem.Version, in *dynamodb.UpdateItemInput, items []types.TransactWriteItem) *dynamodb.TransactWriteItemsInput {
	token := hex.EncodeToString(v[:])
	record := types.TransactWriteItem{Update: &types.Update{
		TableName:                           in.TableName,
		Key:                                 in.Key,
		UpdateExpression:                    in.UpdateExpression,
		ConditionExpression:                 in.ConditionExpression,
		ExpressionAttributeValues:           in.ExpressionAttributeValues,
		ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
	}}
	return &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: &token,
		TransactItems:      append([]types.TransactWriteItem{record}, items...),
	}
}

// ownReason is the refusal of an item of the caller's. It is none where an attempt before it may have been applied, or may yet be:
// that is for the record to tell.
func ownReason(id idem.ID, err error) *CanceledError {
	e, ok := errors.AsType[*callError](err)
	if !ok || e.class != answerCanceled || e.ambiguous {
		return nil
	}
	c, ok := errors.AsType[*types.TransactionCanceledException](e.err)
	if !ok {
		return nil
	}
	for i, reason := range c.CancellationReasons {
		if code := codeOf(reason); i > 0 && !passes(code) && code != "None" {
			return &CanceledError{ID: id.String(), Index: i - 1, Code: code, Item: reason.Item, Err: err}
		}
	}
	return nil
}

func codeOf(r types.CancellationReason) string {
	if r.Code == nil || *r.Code == "" {
		return "None"
	}
	return *r.Code
}

// passes says that a reason for a cancellation is gone soon.
func passes(code string) bool {
	switch code {
	case "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError":
		return true
	}
	return false
}

// classifyCanceled reads the reasons, one for each action. A cancelled transaction did nothing. The record's refusal counts most: it
// says who holds the key. It is sent again only if every reason passes.
func classifyCanceled(e *types.TransactionCanceledException) class {
	c := answerConflict
	for i, reason := range e.CancellationReasons {
		switch code := codeOf(reason); {
		case code == "None":
		case i == 0 && code == "ConditionalCheckFailed":
			return answerRefused
		case !passes(code):
			c = answerCanceled
		case code != "TransactionConflict" && c == answerConflict:
			c = answerThrottled
		}
	}
	if len(e.CancellationReasons) == 0 {
		return answerCanceled
	}
	return c
}
