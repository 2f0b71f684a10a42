package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// API is what a running function needs of DynamoDB, and its whole IAM policy. *dynamodb.Client is one. The HTTP client under it
// must not repeat requests on its own.
type API interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// Options of a Store.
type Options struct {
	// Inline is the size in bytes, sealed, up to which a receipt stays in its record's item. A larger one is written to items beside
	// it, of at most 384 KiB, which a replay reads and a refused duplicate does not pay for. At most 350 KiB. Default 4 KiB.
	Inline int

	// AttemptTimeout bounds one HTTP request, a new connection included; what is not answered by then is sent again. A large item
	// gets a second per megabyte more. Default 1 s.
	AttemptTimeout time.Duration

	_ struct{}
}

// Store keeps records in one table, an item each. It implements [idem.Store].
type Store struct {
	api     API
	table   string
	timeout time.Duration
	inline  int
	now     func() time.Time // of this machine: for the age of what this process knows, never for a record
	conns   *conns
	guard   guard
}

var (
	_ idem.Store = (*Store)(nil)
	_ API        = (*dynamodb.Client)(nil)
)

// New returns a Store on a table, given by name or ARN. It sends nothing: the table is checked by the first call, or by
// [Store.Generation], which may be called while the function starts.
func New(api API, table string, opts *Options) (*Store, error) {
	s := &Store{api: api, table: table, timeout: time.Second, inline: defaultInline, now: time.Now}
	if opts != nil && opts.AttemptTimeout != 0 {
		s.timeout = opts.AttemptTimeout
	}
	if opts != nil && opts.Inline != 0 {
		s.inline = opts.Inline
	}
	switch {
	case api == nil:
		return nil, errors.New("dynamo: api is nil")
	case table == "":
		return nil, errors.New("dynamo: table is empty")
	case s.timeout < 0:
		return nil, fmt.Errorf("dynamo: Options.AttemptTimeout is %v", s.timeout)
	case s.inline < 0 || s.inline > maxInline:
		return nil, fmt.Errorf("dynamo: Options.Inline is %d: at most %d", s.inline, maxInline)
	}
	s.conns = connsOf(api)
	return s, nil
}

// Create implements [idem.Store] with one UpdateItem, after one for each 384 KiB of a large receipt.
func (s *Store) Create(ctx context.Context, r idem.Record) (idem.Record, error) {
	return s.write(ctx, "create", nil, r)
}

// Swap implements [idem.Store] with one UpdateItem, after one for each 384 KiB of a large receipt.
func (s *Store) Swap(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
	return s.write(ctx, "swap", &seen, r)
}

// Load implements [idem.Store] with one strongly consistent GetItem.
func (s *Store) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	r, err := s.look(ctx, id)
	if err != nil {
		return idem.Record{}, fmt.Errorf("load %v: %w", id, err)
	}
	return r, nil
}

func (s *Store) look(ctx context.Context, id idem.ID) (idem.Record, error) {
	k, err := s.current(ctx)
	if err != nil {
		return idem.Record{}, err
	}
	r, err := s.load(ctx, id)
	if err != nil {
		return idem.Record{}, err
	}
	return r, s.confirm(ctx, k, r.At)
}

func (s *Store) load(ctx context.Context, id idem.ID) (idem.Record, error) {
	item, at, err := s.get(ctx, key(id), claiming)
	if err != nil {
		return idem.Record{}, err
	}
	return read(id, item, at)
}

// get reads an item with strong consistency; there is none if it is empty.
func (s *Store) get(ctx context.Context, pk string, p patience) (item attributes, at time.Time, err error) {
	in := &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pk), ConsistentRead: aws.Bool(true)}
	e := s.run(ctx, "GetItem", p, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		out, err := s.api.GetItem(ctx, in, opt)
		if err == nil {
			item, at = out.Item, dateOf(out.ResultMetadata)
		}
		return err
	})
	if e != nil {
		e.ambiguous = false // a read changes nothing
		return nil, at, e
	}
	return item, at, nil
}

func keyOf(pk string) attributes {
	return attributes{attrKey: &types.AttributeValueMemberS{Value: pk}}
}

// read gives the record in an item, or the absent one.
func read(id idem.ID, item attributes, at time.Time) (idem.Record, error) {
	if len(item) == 0 {
		return idem.Record{At: at}, nil
	}
	r, err := decode(item)
	if err != nil {
		return idem.Record{}, err
	}
	if r.ID != id {
		return idem.Record{}, errDamaged(attrKey)
	}
	r.At = at
	return r, nil
}

// write stores r if the item carries the version seen, or if there is no item where seen is nil.
func (s *Store) write(ctx context.Context, what string, seen *idem.Version, r idem.Record) (idem.Record, error) {
	holder, err := s.put(ctx, "UpdateItem", seen, r, s.update)
	if err != nil {
		return idem.Record{}, fmt.Errorf("%s %v: %w", what, r.ID, err)
	}
	return holder, nil
}

// sender sends a record's write once. It returns the item of a refusal, and the time of the answer.
type sender func(ctx context.Context, in *dynamodb.UpdateItemInput, opt func(*dynamodb.Options)) (holder attributes, at time.Time, err error)

func (s *Store) update(ctx context.Context, in *dynamodb.UpdateItemInput, opt func(*dynamodb.Options)) (attributes, time.Time, error) {
	out, err := s.api.UpdateItem(ctx, in, opt)
	if err == nil {
		return nil, dateOf(out.ResultMetadata), nil
	}
	if c, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return c.Item, dateOfError(err), err
	}
	return nil, dateOfError(err), err
}

func (s *Store) put(ctx context.Context, call string, seen *idem.Version, r idem.Record, send sender) (idem.Record, error) {
	if err := check(r); err != nil {
		return idem.Record{}, err
	}
	patience := patienceFor(r.State)
	k, err := s.permit(ctx, patience, r)
	if err != nil {
		return idem.Record{}, fmt.Errorf("%w; nothing was written", err)
	}
	patience.again = func(ctx context.Context) error { // the call may go on for long, or be frozen in between
		now, err := s.permit(ctx, patience, r)
		if err == nil {
			k = now
		}
		return err
	}
	receipt := r.Receipt.Bytes
	if r, err = s.spill(ctx, patience, r); err != nil {
		return idem.Record{}, err
	}
	in, size, err := s.request(seen, r)
	if err != nil {
		return idem.Record{}, err
	}
	var holder attributes // of a refusal
	var at time.Time
	e := s.run(ctx, call, patience.with(size), func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		holder, at, err = send(ctx, in, opt)
		if v, ok := versionOf(holder); ok && seen != nil && v == *seen && v != r.Version {
			return errContradiction
		}
		return err
	})
	own := rounded(r)
	if own.At = at; own.Receipt.Ref != "" { // the caller need not fetch what it has written
		own.Receipt.Bytes = bytes.Clone(receipt)
	}
	switch {
	case e == nil:
	case e.class.effect != refused:
		return idem.Record{}, e
	default:
		if v, ok := versionOf(holder); ok && v == r.Version {
			break // an earlier attempt was applied and its answer lost
		}
		other, err := s.holder(ctx, seen, r, holder, at, e.ambiguous)
		if err != nil {
			return idem.Record{}, err
		}
		own = other
	}
	if err := s.confirm(ctx, k, own.At); err != nil {
		return idem.Record{}, &doubtError{err} // written, but to a table that is out of use
	}
	return own, nil
}

// permit says that r may be sent now.
func (s *Store) permit(ctx context.Context, p patience, r idem.Record) (*knowledge, error) {
	k, err := s.ready(ctx, p)
	if err == nil && r.Generation != k.gen.Number {
		err = &staleError{r.Generation, k.gen.Number}
	}
	return k, err
}

// errContradiction is a refusal whose item carries the very version that the condition asked for. It decides nothing.
var errContradiction = errors.New("condition refused although the item meets it")

// holder is the record that a refused write met.
func (s *Store) holder(ctx context.Context, seen *idem.Version, r idem.Record, item attributes, at time.Time, doubt bool) (idem.Record, error) {
	if len(item) == 0 && seen == nil {
		// There is an item, and the answer does not show it: the engine knows no ALL_OLD, or the item went between condition and
		// image. One look settles it.
		other, err := s.load(ctx, r.ID)
		switch {
		case err != nil && doubt:
			return idem.Record{}, &doubtError{err}
		case err == nil && doubt && other.State == 0: // gone, so that an attempt under way could still be applied
			return idem.Record{}, &doubtError{errors.New("refused by an item that is gone")}
		}
		return other, err
	}
	other, err := read(r.ID, item, at)
	if err != nil && doubt { // ours may have been applied and then replaced by what cannot be read
		return idem.Record{}, &doubtError{err}
	}
	return other, err
}

// request is the one write of this package, and the size of the item.
func (s *Store) request(seen *idem.Version, r idem.Record) (*dynamodb.UpdateItemInput, int, error) {
	pk, values := key(r.ID), encode(r)
	size := itemSize(pk, values)
	if size > maxItem {
		return nil, size, refusef("item of %d bytes: DynamoDB takes %d", size, maxItem)
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 keyOf(pk),
		UpdateExpression:                    aws.String(update(r)),
		ConditionExpression:                 aws.String(conditionAbsent),
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if seen != nil {
		in.ConditionExpression = aws.String(conditionSeen)
		values[placeSeen] = &types.AttributeValueMemberB{Value: seen[:]}
	}
	return in, size, nil
}
