package idemtest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem"
)

func fieldMutants() []mutant {
	var ms []mutant
	for _, l := range leaves(reflect.ValueOf(idem.Record{}), "") {
		if l.path == "At" || strings.HasPrefix(l.path, "ID.") {
			continue
		}
		ms = append(ms,
			mutant{"loses " + l.path, "every field comes back", func(m *Memory) idem.Store {
				return answered(m, func(_ idem.Record, got *idem.Record, _ *error) { get(got, l.path).SetZero() })
			}},
			mutant{"keeps old " + l.path, "swap leaves nothing of the old record", func(m *Memory) idem.Store {
				return &wrapped{Memory: m, swap: func(ctx context.Context, seen idem.Version, r idem.Record) (idem.Record, error) {
					held, _ := m.Load(ctx, r.ID)
					if v := get(&r, l.path); v.IsZero() || l.path == "State" || l.path == "Version" || l.path == "Fence" || l.path == "Life" || l.path == "Generation" {
						v.Set(get(&held, l.path))
					}
					return m.Swap(ctx, seen, r)
				}}
			}})
	}
	change := func(name, caughtBy string, f func(*idem.Record)) mutant {
		return mutant{name, caughtBy, func(m *Memory) idem.Store { return written(m, f) }}
	}
	bytesOf := func(f func(b []byte) []byte) func(*idem.Record) {
		return func(r *idem.Record) { r.Receipt.Bytes = f(r.Receipt.Bytes) }
	}
	const exactly, keep = "bytes come back exactly", "times and durations keep their resolution"
	return append(slices.DeleteFunc(ms, func(m mutant) bool { return m.name == "keeps old Generation" }),
		change("fence is a double", "every field comes back", func(r *idem.Record) { r.Evidence.Fence = uint64(float64(r.Evidence.Fence)) }),
		change("fence is signed", "every field comes back", func(r *idem.Record) { r.Fence &= 1<<63 - 1 }),
		change("epoch is no time", "every field comes back", func(r *idem.Record) {
			if r.Started.UnixMilli() == 0 {
				r.Started = time.Time{}
			}
		}),
		change("texts are trimmed", "every field comes back", func(r *idem.Record) { r.Resolved.Why = strings.TrimSpace(r.Resolved.Why) }),
		change("bytes are text", exactly, bytesOf(func(b []byte) []byte { return []byte(strings.ToValidUTF8(string(b), "\ufffd")) })),
		change("bytes end at zero", exactly, bytesOf(func(b []byte) []byte { b, _, _ = bytes.Cut(b, []byte{0}); return b })),
		change("bytes end at 4 KiB", exactly, bytesOf(func(b []byte) []byte { return b[:min(len(b), 4<<10)] })),
		change("large bytes are not kept", exactly, func(r *idem.Record) {
			if len(r.Receipt.Bytes) > 32<<10 {
				r.Receipt.Bytes = nil
			}
		}),
		change("notes are not kept when empty", exactly, func(r *idem.Record) {
			if len(r.Note.Bytes) == 0 {
				r.Note = idem.Sealed{}
			}
		}),
		change("times are seconds", keep, func(r *idem.Record) { r.Lease = r.Lease.Truncate(time.Second) }),
		change("durations are minutes", keep, func(r *idem.Record) { r.Settle = (r.Settle + time.Second).Truncate(time.Minute) + time.Minute }),
		change("expiry is rounded down", keep, func(r *idem.Record) { r.Expires = r.Expires.Truncate(time.Second) }),
		change("expiry is minutes", keep, func(r *idem.Record) { r.Expires = r.Expires.Add(time.Minute).Truncate(time.Minute) }),
		mutant{"keeps the bytes given", "bytes are neither changed nor kept", aliasIn},
		mutant{"gives its own bytes out", "bytes are neither changed nor kept", aliasOut},
		change("seals in place", "bytes are neither changed nor kept", func(r *idem.Record) {
			if len(r.Note.Bytes) > 0 {
				r.Note.Bytes[0] ^= 1
			}
		}),
	)
}

// get is the field of a record at a path.
func get(r *idem.Record, path string) reflect.Value {
	v := reflect.ValueOf(r).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v
}

// aliasIn and aliasOut return a store that hands the same bytes to everybody.
func aliasIn(m *Memory) idem.Store {
	kept := make(map[idem.Version]idem.Record)
	return answered(m, func(r idem.Record, got *idem.Record, _ *error) {
		if r.State != 0 && got.Version == r.Version {
			kept[r.Version] = r
		}
		if k, ok := kept[got.Version]; ok {
			got.Receipt, got.Note, got.Evidence = k.Receipt, k.Note, k.Evidence
		}
	})
}

func aliasOut(m *Memory) idem.Store {
	kept := make(map[idem.Version]idem.Record)
	return answered(m, func(_ idem.Record, got *idem.Record, _ *error) {
		if k, ok := kept[got.Version]; ok {
			got.Receipt, got.Note, got.Evidence = k.Receipt, k.Note, k.Evidence
		}
		kept[got.Version] = *got
	})
}

func idMutants() []mutant {
	const differ, joined = "IDs that differ in one part are different", "IDs that join to one text are different"
	var ms []mutant
	add := func(name, caughtBy string, address func(idem.ID) idem.ID) {
		ms = append(ms, mutant{name, caughtBy, func(m *Memory) idem.Store { return readdressed(m, address) }})
	}
	add("operation is ignored", differ, func(id idem.ID) idem.ID { id.Operation = "x"; return id })
	add("tenant is ignored", differ, func(id idem.ID) idem.ID { id.Tenant = "x"; return id })
	add("key is cut", differ, func(id idem.ID) idem.ID { id.Key[31] = 0; return id })
	add("tenant is folded", differ, func(id idem.ID) idem.ID { id.Tenant = strings.ToLower(id.Tenant); return id })
	add("tenant is trimmed", differ, func(id idem.ID) idem.ID { id.Tenant = strings.TrimSpace(id.Tenant); return id })
	add("tenant is a path", differ, func(id idem.ID) idem.ID { id.Tenant = strings.TrimRight(id.Tenant, "/"); return id })
	add("tenant is unescaped", differ, func(id idem.ID) idem.ID { id.Tenant = strings.ReplaceAll(id.Tenant, "%25", "%"); return id })
	join := func(name string, text func(id idem.ID) string) {
		add(name, joined, func(id idem.ID) idem.ID {
			return idem.ID{Tenant: text(id), Operation: "x", Key: id.Key}
		})
	}
	for _, sep := range []string{"", "-", ".", "_", "#", "/", ":", "%23"} {
		join(fmt.Sprintf("joined by %q", sep), func(id idem.ID) string { return id.Tenant + sep + id.Operation })
	}
	join("escapes # but not %", func(id idem.ID) string { return strings.ReplaceAll(id.Tenant, "#", "%23") + "#" + id.Operation })
	join(`escapes # by \ but not \`, func(id idem.ID) string { return strings.ReplaceAll(id.Tenant, "#", `\#`) + "#" + id.Operation })
	return ms
}
