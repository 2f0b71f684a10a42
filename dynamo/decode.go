package dynamo

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
)

// decode reads a stored item. It is strict: an attribute that is missing or of another type, an unknown state or a newer format
// is an error, because whoever guesses wrong runs an effect twice. Attributes it does not know are passed over; a Swap keeps
// them. Bytes of the record are those of the item.
func decode(item attributes) (idem.Record, error) {
	d := decoder{item: item}
	f := d.uint(attrFormat, math.MaxUint32)
	if d.err == nil && f != formatInline && f != formatBodies {
		return idem.Record{}, &unreadableError{"item has format " + strconv.FormatUint(f, 10) + ", and this version of idem reads 1 and 2: a newer one is needed"}
	}
	r := idem.Record{
		Begun:      d.bool(attrBegun),
		Fence:      d.uint(attrFence, math.MaxUint64),
		Life:       d.uint(attrLife, math.MaxUint64),
		Generation: uint32(d.uint(attrGeneration, math.MaxUint32)),
		Lease:      d.millis(attrLease),
		Started:    d.millis(attrStarted),
		Attempts:   uint32(d.uint(attrAttempts, math.MaxUint32)),
		Reason:     idem.Reason(d.uint(attrReason, math.MaxUint8)), // an unknown one changes nothing, it is only shown
		Since:      d.millis(attrSince),
		AskAfter:   d.millis(attrAskAfter),
		Asks:       uint32(d.uint(attrAsks, math.MaxUint32)),
		Settle:     d.seconds(attrSettle),
		Retain:     d.seconds(attrRetain),
		Receipt:    d.sealed(attrReceipt, attrReceiptBy),
		Note:       d.sealed(attrNote, attrNoteBy),
		Evidence:   d.sealed(attrEvidence, attrEvidenceBy),
		Resolved: idem.Resolution{
			By:  d.text(attrResolvedBy),
			Why: d.text(attrResolvedWhy),
			At:  d.millis(attrResolvedAt),
		},
	}
	copy(r.Version[:], d.bytes(attrVersion, len(r.Version)))
	copy(r.Fingerprint[:], d.bytes(attrFingerprint, len(r.Fingerprint)))
	r.ID, r.State = d.id(), d.state()
	if _, ok := item[attrExpires]; ok {
		r.Expires = time.Unix(d.int(attrExpires), 0).UTC()
		if r.Expires.IsZero() || !mayExpire(r.State) {
			d.damaged(attrExpires)
		}
	}
	if f == formatBodies {
		r.Receipt.Ref = d.bodies(r.Expires).ref()
	} else {
		d.absent(attrBodiesBy, attrBodyDigest, attrBodyCount)
	}
	if d.err == nil && r.Version == (idem.Version{}) {
		d.damaged(attrVersion)
	}
	if d.err != nil {
		return idem.Record{}, d.err
	}
	return r, nil
}

// versionOf is the version an item carries, also where this version of the library cannot read the rest.
func versionOf(item attributes) (v idem.Version, ok bool) {
	b, ok := item[attrVersion].(*types.AttributeValueMemberB)
	if !ok || len(b.Value) != len(v) {
		return v, false
	}
	return idem.Version(b.Value), true
}

// decoder reads attributes and keeps the first error.
type decoder struct {
	item attributes
	err  error
}

func (d *decoder) damaged(attr string) {
	if d.err == nil {
		d.err = errDamaged(attr)
	}
}

func (d *decoder) id() idem.ID {
	s, ok := d.item[attrKey].(*types.AttributeValueMemberS)
	if !ok {
		d.damaged(attrKey)
		return idem.ID{}
	}
	id, err := parseKey(s.Value)
	if err != nil {
		d.damaged(attrKey)
	}
	return id
}

func (d *decoder) state() idem.State {
	s, ok := d.item[attrState].(*types.AttributeValueMemberS)
	if !ok || len(s.Value) != 1 {
		d.damaged(attrState)
		return 0
	}
	i := strings.IndexByte(stateLetters, s.Value[0])
	if i < int(idem.Pending) {
		if d.err == nil {
			d.err = &unreadableError{"record is in a state that this version of idem does not know: a newer one is needed"}
		}
		return 0
	}
	return idem.State(i)
}

func (d *decoder) bool(attr string) bool {
	b, ok := d.item[attr].(*types.AttributeValueMemberBOOL)
	if !ok {
		d.damaged(attr)
		return false
	}
	return b.Value
}

// digits of a number as this package writes it, the only form accepted.
func (d *decoder) digits(attr string) string {
	n, ok := d.item[attr].(*types.AttributeValueMemberN)
	if !ok {
		d.damaged(attr)
		return "0"
	}
	return n.Value
}

func (d *decoder) uint(attr string, limit uint64) uint64 {
	s := d.digits(attr)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > limit || strconv.FormatUint(n, 10) != s {
		d.damaged(attr)
		return 0
	}
	return n
}

func (d *decoder) int(attr string) int64 {
	s := d.digits(attr)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		d.damaged(attr)
		return 0
	}
	return n
}

func (d *decoder) null(attr string) bool {
	_, ok := d.item[attr].(*types.AttributeValueMemberNULL)
	return ok
}

func (d *decoder) millis(attr string) time.Time {
	if d.null(attr) {
		return time.Time{}
	}
	t := time.UnixMilli(d.int(attr)).UTC()
	if t.IsZero() { // is written as NULL
		d.damaged(attr)
	}
	return t
}

func (d *decoder) seconds(attr string) time.Duration {
	const limit = math.MaxInt64 / int64(time.Second)
	n := d.int(attr)
	if n > limit || n < -limit {
		d.damaged(attr)
		return 0
	}
	return time.Duration(n) * time.Second
}

func (d *decoder) text(attr string) string {
	if d.null(attr) {
		return ""
	}
	s, ok := d.item[attr].(*types.AttributeValueMemberS)
	if !ok || s.Value == "" {
		d.damaged(attr)
		return ""
	}
	return s.Value
}

func (d *decoder) bytes(attr string, n int) []byte {
	b, ok := d.item[attr].(*types.AttributeValueMemberB)
	if !ok || len(b.Value) != n {
		d.damaged(attr)
		return nil
	}
	return b.Value
}

func (d *decoder) sealed(attr, by string) idem.Sealed {
	s := idem.Sealed{Fence: d.uint(by, math.MaxUint64)}
	if d.null(attr) {
		return s
	}
	b, ok := d.item[attr].(*types.AttributeValueMemberB)
	if !ok || len(b.Value) == 0 {
		d.damaged(attr)
		return s
	}
	s.Bytes = b.Value
	return s
}

// bodies of a record that expires then. Its receipt is nowhere else.
func (d *decoder) bodies(expires time.Time) bodies {
	b := bodies{count: int(d.uint(attrBodyCount, maxBodies)), expires: expires}
	copy(b.by[:], d.bytes(attrBodiesBy, len(b.by)))
	copy(b.digest[:], d.bytes(attrBodyDigest, len(b.digest)))
	switch {
	case !d.null(attrReceipt):
		d.damaged(attrReceipt)
	case b.by == idem.Version{}:
		d.damaged(attrBodiesBy)
	case b.count == 0:
		d.damaged(attrBodyCount)
	}
	return b
}

func (d *decoder) absent(attrs ...string) {
	for _, attr := range attrs {
		if _, ok := d.item[attr]; ok {
			d.damaged(attr)
		}
	}
}
