package dynamo

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// The attributes of a record. The names are stored, and in every condition and policy written for the table: they are frozen for
// ever, and testdata/items.txt holds items that every later version must read. A new attribute gets a new name, a new meaning a
// new name and a new format number. Two letters, because names count towards the 1,024 bytes of a write unit, and none of
// DynamoDB's reserved words, so that expressions can be constants.
//
// Every attribute down to attrResolvedAt is always there: a value that the record does not have is NULL, so "not there" always
// means that the item is damaged or not ours, and is never taken for a value.
const (
	attrKey         = "pk" // S: partition key, see key
	attrFormat      = "fo" // N: format of the item, see format
	attrVersion     = "ve" // B: 16 random bytes, new with every write; every Swap depends on it
	attrState       = "st" // S: one letter, see stateLetters
	attrBegun       = "be" // BOOL: an effect may have happened
	attrFence       = "fe" // N: of the current owner
	attrLife        = "li" // N: fence of the first owner of this life
	attrGeneration  = "ge" // N: of the table when this was written
	attrFingerprint = "fp" // B: SHA-256 of the request
	attrLease       = "le" // N: end of the lease, milliseconds
	attrStarted     = "sa" // N: milliseconds
	attrAttempts    = "na" // N
	attrReason      = "re" // N: 0 for none
	attrSince       = "si" // N: milliseconds
	attrAskAfter    = "aa" // N: milliseconds
	attrAsks        = "ac" // N
	attrSettle      = "se" // N: seconds
	attrRetain      = "rt" // N: seconds
	attrReceipt     = "rb" // B: receipt, sealed
	attrReceiptBy   = "rf" // N: fence it was sealed under
	attrNote        = "nb" // B: note, sealed
	attrNoteBy      = "nf" // N: fence it was sealed under
	attrEvidence    = "eb" // B: evidence, sealed
	attrEvidenceBy  = "ef" // N: fence it was sealed under
	attrResolvedBy  = "wb" // S: who settled it
	attrResolvedWhy = "ww" // S
	attrResolvedAt  = "wa" // N: milliseconds

	attrExpires    = "ex" // N: the table's TTL attribute, seconds, rounded up. Only on completed, failed and released records
	attrShard      = "iq" // S: partition key of the index of indeterminate records, "0".."7". Only on those
	attrIndexSince = "ia" // N: sort key of that index, Since in seconds. Only on those

	attrBodiesBy   = "bv" // B: version of the write that made the bodies. Only with a receipt beside the item, as the next two
	attrBodyDigest = "bd" // B: SHA-256 of the sealed receipt
	attrBodyCount  = "bn" // N

	attrBody = "bb" // B: in a body item, see body.go
)

// The formats that this version writes and reads. A record whose receipt lies beside it has one of its own, so that a version
// which would take the receipt for lost refuses it and says that a newer one is needed.
const (
	formatInline = 1
	formatBodies = 2
)

// stateLetters are what [attrState] holds, by [idem.State].
const stateLetters = " PCFIR"

// Limits of DynamoDB.
const (
	maxItem = 400 << 10 // bytes of an item, names included
	maxKey  = 2048      // bytes of a partition key
)

// keyVersion starts every partition key of a record, so no record collides with a control item (their keys start with "!"),
// and "1#tenant#*" is a pattern for dynamodb:LeadingKeys in a policy.
const keyVersion = "1"

// escape and unescape map tenants and operations so that "#" separates. Each escape is two bytes: 256 bytes of "#" still fit.
var (
	escape   = strings.NewReplacer("%", "%0", "#", "%1")
	unescape = strings.NewReplacer("%0", "%", "%1", "#")
)

// key is the partition key: 1#tenant#operation#base64url(SHA-256(idempotency key)). Different IDs have different keys.
func key(id idem.ID) string {
	return keyVersion + "#" + escape.Replace(id.Tenant) + "#" + escape.Replace(id.Operation) + "#" + base64.RawURLEncoding.EncodeToString(id.Key[:])
}

// parseKey is the inverse of key; it accepts nothing that key does not make.
func parseKey(s string) (idem.ID, error) {
	var id idem.ID
	parts := strings.Split(s, "#")
	if len(parts) != 4 || parts[0] != keyVersion {
		return id, errDamaged(attrKey)
	}
	digest, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
	if err != nil || len(digest) != len(id.Key) {
		return id, errDamaged(attrKey)
	}
	id.Tenant, id.Operation, id.Key = unescape.Replace(parts[1]), unescape.Replace(parts[2]), [32]byte(digest)
	if key(id) != s { // an escape that key does not make
		return id, errDamaged(attrKey)
	}
	return id, nil
}

type attributes = map[string]types.AttributeValue

// check says why r cannot be an item at all.
func check(r idem.Record) error {
	switch {
	case r.State < idem.Pending || r.State > idem.Released:
		return refusef("state %v cannot be stored", r.State)
	case r.Version == idem.Version{}:
		return refusef("record has no version")
	case !utf8.ValidString(r.ID.Tenant) || !utf8.ValidString(r.ID.Operation) || len(key(r.ID))+bodyKeyRoom > maxKey:
		return refusef("tenant or operation is not UTF-8, or too long")
	case !utf8.ValidString(r.Resolved.By) || !utf8.ValidString(r.Resolved.Why):
		return refusef("resolution is not UTF-8")
	case r.Note.Ref != "" || r.Evidence.Ref != "" || len(r.Receipt.Bytes) == 0 && r.Receipt.Ref != "" && !isRef(r.Receipt.Ref):
		return refusef("Ref is not one that this store gave")
	case len(r.Receipt.Bytes) > maxReceipt:
		return refusef("receipt of %d bytes: at most %d", len(r.Receipt.Bytes), maxReceipt)
	case !r.Expires.IsZero() && !mayExpire(r.State):
		// DynamoDB would delete an unresolved record, and its key would be taken for new.
		return refusef("%v record must not expire", r.State)
	}
	return nil
}

func mayExpire(s idem.State) bool {
	return s == idem.Completed || s == idem.Failed || s == idem.Released
}

// rounded is r as it comes back from the table: times in milliseconds, what protects for a time never shorter than asked, and
// bytes that are not the caller's.
func rounded(r idem.Record) idem.Record {
	for _, t := range [...]*time.Time{&r.Lease, &r.Started, &r.Since, &r.AskAfter, &r.Resolved.At} {
		if !t.IsZero() {
			*t = time.UnixMilli(t.UnixMilli()).UTC()
		}
	}
	if !r.Expires.IsZero() {
		r.Expires = time.Unix(ceilUnix(r.Expires), 0).UTC()
	}
	r.Settle, r.Retain = ceilSeconds(r.Settle), ceilSeconds(r.Retain)
	for _, s := range [...]*idem.Sealed{&r.Receipt, &r.Note, &r.Evidence} {
		s.Bytes = append([]byte(nil), s.Bytes...)
	}
	r.At = time.Time{}
	return r
}

func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

func ceilSeconds(d time.Duration) time.Duration {
	if t := d.Truncate(time.Second); t >= d || t > math.MaxInt64-time.Second {
		return t
	}
	return d.Truncate(time.Second) + time.Second
}

// encode gives the attributes of r by their place in an expression, ":xx" for xx. The partition key is not among them. What
// check refuses has no encoding.
func encode(r idem.Record) attributes {
	a := make(attributes, 32)
	a[":fo"] = number(formatInline)
	a[":ve"] = &types.AttributeValueMemberB{Value: r.Version[:]}
	a[":st"] = &types.AttributeValueMemberS{Value: stateLetters[r.State : r.State+1]}
	a[":be"] = &types.AttributeValueMemberBOOL{Value: r.Begun}
	a[":fe"] = number(r.Fence)
	a[":li"] = number(r.Life)
	a[":ge"] = number(uint64(r.Generation))
	a[":fp"] = &types.AttributeValueMemberB{Value: r.Fingerprint[:]}
	a[":le"] = millis(r.Lease)
	a[":sa"] = millis(r.Started)
	a[":na"] = number(uint64(r.Attempts))
	a[":re"] = number(uint64(r.Reason))
	a[":si"] = millis(r.Since)
	a[":aa"] = millis(r.AskAfter)
	a[":ac"] = number(uint64(r.Asks))
	a[":se"] = seconds(r.Settle)
	a[":rt"] = seconds(r.Retain)
	a[":rb"], a[":rf"] = sealed(r.Receipt)
	a[":nb"], a[":nf"] = sealed(r.Note)
	a[":eb"], a[":ef"] = sealed(r.Evidence)
	a[":wb"] = text(r.Resolved.By)
	a[":ww"] = text(r.Resolved.Why)
	a[":wa"] = millis(r.Resolved.At)
	if !r.Expires.IsZero() {
		a[":ex"] = signed(ceilUnix(r.Expires))
	}
	if r.State == idem.Indeterminate {
		a[":iq"] = &types.AttributeValueMemberS{Value: shard(r.ID)}
		a[":ia"] = indexSince(r.Since)
	}
	if b, ok := beside(r); ok {
		a[":fo"] = number(formatBodies)
		a[":bv"] = &types.AttributeValueMemberB{Value: b.by[:]}
		a[":bd"] = &types.AttributeValueMemberB{Value: b.digest[:]}
		a[":bn"] = number(uint64(b.count))
	}
	return a
}

var null = &types.AttributeValueMemberNULL{Value: true} // shared: nobody writes to it

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

func signed(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func millis(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return null
	}
	return signed(t.UnixMilli())
}

func seconds(d time.Duration) types.AttributeValue {
	return signed(int64(ceilSeconds(d) / time.Second))
}

func text(s string) types.AttributeValue {
	if s == "" {
		return null
	}
	return &types.AttributeValueMemberS{Value: s}
}

func sealed(s idem.Sealed) (b, fence types.AttributeValue) {
	b = null
	if len(s.Bytes) > 0 {
		b = &types.AttributeValueMemberB{Value: s.Bytes}
	}
	return b, number(s.Fence)
}

// shards are the values of attrShard.
const shards = "01234567"

// shard spreads the index of indeterminate records over partitions: an outage may make a great many of them at once.
func shard(id idem.ID) string {
	d := id.Digest()
	i := d[0] % byte(len(shards))
	return shards[i : i+1]
}

func indexSince(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return number(0)
	}
	return signed(t.Unix())
}

// itemSize is what DynamoDB counts for an item with this key and these attributes: names and values in UTF-8, see "DynamoDB item
// sizes and formats" in its Developer Guide. For numbers it is an upper bound.
func itemSize(pk string, values attributes) int {
	n := len(attrKey) + len(pk)
	for name, v := range values {
		n += len(name) - len(":") + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN: // a byte for two digits, one for sign and exponent
		return (len(v.Value)+1)/2 + 1
	}
	return 1 // BOOL, NULL
}

// errDamaged names the attribute and never shows what is in it.
func errDamaged(attr string) error {
	return &unreadableError{fmt.Sprintf("attribute %q is missing or is not what idem writes", attr)}
}
