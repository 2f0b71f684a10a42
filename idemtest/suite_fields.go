package idemtest

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem"
)

// row is a record to write and to read back.
type row struct {
	name   string
	record idem.Record
}

// rows has each field set in at least one record (a test sees to it), each state bare and full, and the ends of each range.
func (s *suite) rows() []row {
	var rows []row
	add := func(name string, r idem.Record, change func(*idem.Record)) {
		if change != nil {
			change(&r)
		}
		rows = append(rows, row{name, r})
	}
	for state := idem.Pending; state <= idem.Released; state++ {
		add("bare", s.record(state), nil)
		add("full", s.full(state), nil)
	}
	for reason := idem.Lapsed; reason <= idem.Contradicted; reason++ {
		add(reason.String(), s.full(idem.Indeterminate), func(r *idem.Record) { r.Reason = reason })
	}
	add("largest numbers", s.full(idem.Indeterminate), func(r *idem.Record) {
		r.Fence, r.Life, r.Attempts, r.Asks = math.MaxUint64, 1<<63, math.MaxUint32, math.MaxUint32
		r.Note.Fence, r.Evidence.Fence = 1<<63+1, 1<<53+1 // doubles end at 1<<53
		r.Settle, r.Retain = 100*365*24*time.Hour+time.Second, 200*365*24*time.Hour+time.Second
	})
	add("latest times", s.full(idem.Completed), func(r *idem.Record) {
		end := time.Date(9999, 12, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)
		r.Lease, r.Started, r.Since, r.AskAfter, r.Resolved.At = end.Add(-time.Second), end, end, end, end
		r.Expires = end.Truncate(time.Second)
	})
	add("first times", s.full(idem.Indeterminate), func(r *idem.Record) {
		r.Lease, r.Started, r.Since = time.UnixMilli(-1), time.UnixMilli(0), time.UnixMilli(1)
		r.AskAfter, r.Resolved.At = time.Unix(-1, 0), time.Unix(1, 0)
	})
	add("another zone", s.full(idem.Completed), func(r *idem.Record) {
		r.Lease, r.Expires = r.Lease.In(time.FixedZone("", -3600)), r.Expires.In(time.FixedZone("", 3600))
	})
	for name, text := range map[string]string{
		"plain": "ops@example.com", "signs": `"#%/\'<&>{}$:;|` + "`", "white": " \t\r\n ", "wide": "é e\u0301 漢字 \U0001F512 \u202e",
		"longest": strings.Repeat("ü", 128),
	} {
		add(name+" resolution", s.full(idem.Released), func(r *idem.Record) { r.Resolved.By, r.Resolved.Why = text, "" })
		add(name+" resolution", s.full(idem.Released), func(r *idem.Record) { r.Resolved.By, r.Resolved.Why = "", text })
	}
	return rows
}

func fieldsComeBack(s *suite) {
	reader := s.open(s)
	for _, row := range s.rows() {
		s.comesBack(row.name, reader, row.record)
	}
}

// comesBack writes r by Create and again by Swap, and reads it in every answer there is.
func (s *suite) comesBack(name string, reader idem.Store, r idem.Record) {
	s.Helper()
	read := func(how string, want idem.Record) {
		s.Helper()
		s.equal(name+", load after "+how, want, s.from(reader, r.ID))
	}
	s.equal(name+", create", r, s.create(r))
	read("create", r)
	n := next(r)
	s.equal(name+", swap", n, s.swap(r.Version, n))
	read("swap", n)
	s.refused(name+", refused create", n)(s.store.Create(s.Context(), r))
}

func bytesComeBack(s *suite) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	reader := s.open(s)
	for name, b := range map[string][]byte{
		"nil":       nil,
		"empty":     {},
		"one zero":  {0},
		"zeros":     make([]byte, 100),
		"every":     every,
		"text":      []byte(`{"a":"é\u0000","b":1e400}` + "\n"),
		"no text":   {0xff, 0xfe, 0x00, 0xc3, 0x28},
		"4 KiB":     sealed(0, 4<<10).Bytes,
		"over 4 KB": sealed(0, 4<<10+1).Bytes,
		"64 KiB":    sealed(0, 64<<10-2<<10).Bytes, // with the rest of the record
	} {
		r := s.full(idem.Completed)
		r.Receipt.Bytes = b
		s.comesBack(name+" receipt", reader, r)
		if len(b) > 512 {
			continue // the largest note is 1 KiB before it is sealed
		}
		r = s.full(idem.Indeterminate)
		r.Note.Bytes, r.Evidence.Bytes = b, append(slices.Clone(b), b...)
		s.comesBack(name+" note", reader, r)
	}
}

func resolution(s *suite) {
	r := s.full(idem.Completed)
	odd := 999*time.Microsecond + 999*time.Nanosecond
	for _, t := range []*time.Time{&r.Lease, &r.Started, &r.Since, &r.AskAfter, &r.Resolved.At, &r.Expires} {
		*t = t.Add(odd)
	}
	r.Expires = r.Expires.Add(500 * time.Millisecond)
	r.Settle, r.Retain = r.Settle+999*time.Millisecond, r.Retain+odd
	s.comesBack("finer than kept", s.open(s), r)
}

func nothingLeft(s *suite) {
	for state := idem.Pending; state <= idem.Released; state++ {
		// Six years: whatever may expire has, for every reader; but DynamoDB's TTL leaves what is past by more than five.
		old := s.full(state)
		old.Lease = s.now.AddDate(-7, 0, 0)
		bare := s.record(idem.Pending)
		bare.ID, bare.Fence, bare.Life = old.ID, old.Fence+1, old.Fence+1
		if old.Expires.IsZero() { // the life goes on, and what belongs to it
			bare.Life, bare.Fingerprint, bare.Lease = old.Life, old.Fingerprint, old.Lease
		} else {
			old.Expires = s.now.AddDate(-6, 0, 0)
		}
		s.create(old)
		s.equal("swap", bare, s.swap(old.Version, bare))
		s.holds(bare)
	}
}

// bytesAlone changes what it gave and what it got, at once and later.
func bytesAlone(s *suite) {
	texts := func(r *idem.Record) [][]byte { return [][]byte{r.Receipt.Bytes, r.Note.Bytes, r.Evidence.Bytes} }
	copied := func(r idem.Record) idem.Record {
		for _, b := range []*[]byte{&r.Receipt.Bytes, &r.Note.Bytes, &r.Evidence.Bytes} {
			*b = bytes.Clone(*b)
		}
		return r
	}
	spoil := func(r idem.Record) {
		for _, b := range texts(&r) {
			for i := range b {
				b[i] ^= 0xff
			}
			_ = append(b, "spare capacity"...)
		}
	}
	given := s.full(idem.Completed)
	want := copied(given)
	got := s.create(given)
	s.equal("the record given to create", want, given)
	spoil(got)
	s.equal("the record given to create, after its answer was changed", want, given)
	spoil(given)
	s.holds(want)

	late := func() idem.Record {
		r := s.record(idem.Pending)
		r.ID = want.ID
		return r
	}
	for range 2 { // the second answer shows what became of the first
		got, err := s.store.Create(s.Context(), late())
		s.refused("create", want)(got, err)
		spoil(got)
		got, err = s.store.Swap(s.Context(), version(), late())
		s.refused("swap", want)(got, err)
		spoil(got)
		got = s.load(want.ID)
		s.equal("load", want, got)
		spoil(got)
	}

	seen := want.Version
	given = copied(next(want))
	want = copied(given)
	got = s.swap(seen, given)
	s.equal("the record given to swap", want, given)
	spoil(got)
	spoil(given)
	s.holds(want)
}
