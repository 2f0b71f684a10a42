package dynamo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// A receipt above Options.Inline lies in body items beside its record. They are written first, each only where nothing is, and then
// the record is written with what finds and proves them. Their keys hold the version of that write, so nobody else ever writes
// them, and one that arrives late or twice changes nothing. If we crash in between, they belong to no record, and TTL takes them.
//
// A body item is a key and two attributes:
//
//	pk S  the record's, then "#", the version in base64url, "#" and the body's number, from 0
//	bb B  a part of the sealed receipt, at most 384 KiB
//	ex N  TTL: a day after the record's; not there if the record has none

// Sizes in bytes.
const (
	defaultInline = 4 << 10
	maxInline     = 350 << 10 // leaves enough of an item for the rest of a record
	maxBody       = 384 << 10
	maxBodies     = 64             // more than any receipt has, and little enough to read
	maxReceipt    = 6<<20 + 64<<10 // Lambda's largest answer, sealed
	bodyKeyRoom   = len("#0123456789012345678901#63")
	refSize       = 16 + 32 + 2 + 8 // of bodies
)

// bodyMargin is how long bodies outlive their record: longer than an expired one is still honoured, and than it takes to read them.
const bodyMargin = 24 * time.Hour

// bodies are where a receipt is that is not in its record's item, and what proves it to be that one.
type bodies struct {
	by      idem.Version // of the write that made them
	digest  [32]byte     // SHA-256 of the sealed receipt
	count   int
	expires time.Time // of the record, as it was read or written: they outlive that. Zero: they stay
}

// ref is what a record carries of bodies outside this package.
func (b bodies) ref() string {
	t := make([]byte, 0, refSize)
	t = append(append(t, b.by[:]...), b.digest[:]...)
	t = binary.BigEndian.AppendUint16(t, uint16(b.count))
	var until int64
	if !b.expires.IsZero() {
		until = ceilUnix(b.expires)
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(t, uint64(until)))
}

func parseRef(ref string) (b bodies, ok bool) {
	t, err := base64.RawURLEncoding.Strict().DecodeString(ref)
	if err != nil || len(t) != refSize {
		return b, false
	}
	b.by, b.digest = idem.Version(t[:16]), [32]byte(t[16:48])
	b.count = int(binary.BigEndian.Uint16(t[48:50]))
	if until := int64(binary.BigEndian.Uint64(t[50:])); until != 0 {
		b.expires = time.Unix(until, 0).UTC()
	}
	return b, b.by != idem.Version{} && b.count >= 1 && b.count <= maxBodies
}

func isRef(ref string) bool {
	_, ok := parseRef(ref)
	return ok
}

// beside is where a record's receipt is, if it is not in the record.
func beside(r idem.Record) (bodies, bool) {
	if len(r.Receipt.Bytes) > 0 || r.Receipt.Ref == "" {
		return bodies{}, false
	}
	return parseRef(r.Receipt.Ref)
}

// last says that bodies are there for as long as a record is that expires then.
func (b bodies) last(expires time.Time) bool {
	return b.expires.IsZero() || !expires.IsZero() && ceilUnix(expires) <= b.expires.Unix()
}

// bodyKey is the partition key of a body. It has the record's in front, so a policy for a tenant's records covers it, and is no
// record's: see parseKey.
func bodyKey(pk string, by idem.Version, i int) string {
	return pk + "#" + base64.RawURLEncoding.EncodeToString(by[:]) + "#" + strconv.Itoa(i)
}

// spill returns r as its item will be: with a large receipt in bodies, and a Ref to them. Bodies that r refers to already stay,
// unless they would not outlive it.
func (s *Store) spill(ctx context.Context, p patience, r idem.Record) (idem.Record, error) {
	b, referred := beside(r)
	switch {
	case referred && b.last(r.Expires):
		return r, nil
	case referred:
		receipt, err := s.collect(ctx, key(r.ID), b)
		if err != nil {
			return r, err
		}
		r.Receipt.Bytes = receipt
	}
	receipt := r.Receipt.Bytes
	if r.Receipt.Ref = ""; len(receipt) <= s.inline {
		return r, nil
	}
	b = bodies{by: r.Version, digest: sha256.Sum256(receipt), expires: r.Expires}
	for part := range slices.Chunk(receipt, maxBody) {
		if err := s.putBody(ctx, p, r, b, part); err != nil {
			return r, err
		}
		b.count++
	}
	r.Receipt = idem.Sealed{Fence: r.Receipt.Fence, Ref: b.ref()}
	return r, nil
}

// putBody writes the next part. What is there already is the same part, by an earlier attempt of this very write.
func (s *Store) putBody(ctx context.Context, p patience, r idem.Record, b bodies, part []byte) error {
	if err := p.again(ctx); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       keyOf(bodyKey(key(r.ID), b.by, b.count)),
		UpdateExpression:          aws.String(updateBodyKept),
		ConditionExpression:       aws.String(conditionAbsent),
		ExpressionAttributeValues: attributes{":bb": &types.AttributeValueMemberB{Value: part}},
	}
	if !b.expires.IsZero() {
		in.UpdateExpression = aws.String(updateBody)
		in.ExpressionAttributeValues[":ex"] = signed(ceilUnix(b.expires.Add(bodyMargin)))
	}
	e := s.run(ctx, "UpdateItem", p.with(len(part)), func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := s.api.UpdateItem(ctx, in, opt)
		return err
	})
	if e != nil && e.class.effect != refused {
		e.ambiguous = false // whether this body is there does not matter: no record refers to it
		return e
	}
	return nil
}

// Fetch implements [idem.Store] with a strongly consistent GetItem for each 384 KiB of a large receipt.
func (s *Store) Fetch(ctx context.Context, r idem.Record) (idem.Record, error) {
	if r.Receipt.Ref == "" {
		return r, nil
	}
	b, ok := parseRef(r.Receipt.Ref)
	if !ok {
		return idem.Record{}, fmt.Errorf("fetch %v: %w", r.ID, errRef)
	}
	receipt, err := s.collect(ctx, key(r.ID), b)
	if err != nil {
		return idem.Record{}, fmt.Errorf("fetch %v: %w", r.ID, err)
	}
	r.Receipt.Bytes = receipt
	return r, nil
}

var errRef = &unreadableError{"Receipt.Ref is not one that this store gave"}

// collect reads a receipt together, and gives nothing that is not the one whose digest the record has.
func (s *Store) collect(ctx context.Context, pk string, b bodies) ([]byte, error) {
	var receipt bytes.Buffer
	for i := range b.count {
		item, _, err := s.get(ctx, bodyKey(pk, b.by, i), claiming.with(maxBody))
		if err != nil {
			return nil, err
		}
		part, ok := item[attrBody].(*types.AttributeValueMemberB)
		if !ok {
			return nil, &unreadableError{fmt.Sprintf("body %d of %d is missing", i+1, b.count)}
		}
		receipt.Write(part.Value)
	}
	if sha256.Sum256(receipt.Bytes()) != b.digest {
		return nil, &unreadableError{"bodies are not those that the record refers to: another digest"}
	}
	return receipt.Bytes(), nil
}
