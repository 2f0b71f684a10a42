package idemtest

import (
	"bytes"
	"fmt"
	"reflect"
	"time"

	"github.com/idem-go/idem"
)

// diff names the fields of got that are not what [idem.Store] makes of want. It finds fields by reflection, so that none is
// forgotten when a record gets a new one.
func diff(want, got idem.Record) []string {
	var ds []string
	gs := leaves(reflect.ValueOf(got), "")
	for i, w := range leaves(reflect.ValueOf(want), "") {
		g := gs[i]
		if w.path == "At" || comesBack(w.path, w.Interface(), g.Interface()) {
			continue
		}
		ds = append(ds, fmt.Sprintf("%s is %s, was written as %s", w.path, short(g.Interface()), short(w.Interface())))
	}
	return ds
}

func comesBack(path string, want, got any) bool {
	switch w := want.(type) {
	case []byte:
		return bytes.Equal(w, got.([]byte))
	case time.Duration:
		return (got.(time.Duration) - w).Abs() < time.Second
	case time.Time:
		g := got.(time.Time)
		switch late := g.Sub(w); {
		case w.IsZero() || g.IsZero():
			return w.IsZero() && g.IsZero()
		case path == "Expires":
			return late > -time.Millisecond && late < time.Second
		default:
			return late.Abs() < time.Millisecond
		}
	}
	return want == got
}

// leaf is an exported field of a record, or of a struct in it.
type leaf struct {
	path string // as in Resolved.By
	reflect.Value
}

// leaves are always in the same order.
func leaves(v reflect.Value, path string) []leaf {
	if _, ok := v.Interface().(time.Time); ok || v.Kind() != reflect.Struct {
		return []leaf{{path, v}}
	}
	var ls []leaf
	for f, fv := range v.Fields() {
		switch {
		case !f.IsExported() || f.Name == "Ref": // what a store puts there is its own business
		case path == "":
			ls = append(ls, leaves(fv, f.Name)...)
		default:
			ls = append(ls, leaves(fv, path+"."+f.Name)...)
		}
	}
	return ls
}

func short(v any) string {
	switch v := v.(type) {
	case []byte:
		if len(v) > 16 {
			return fmt.Sprintf("%d bytes %x...", len(v), v[:16])
		}
		return fmt.Sprintf("%d bytes %x", len(v), v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}
