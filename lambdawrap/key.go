package lambdawrap

import (
	"errors"
	"strings"
)

var (
	errNoKey      = errors.New("the request has no idempotency key")
	errKeys       = errors.New("the request has more than one idempotency key")
	errKeyForm    = errors.New(`the idempotency key must be 1 to 255 printable ASCII characters, in double quotes or without; without them it has no '"', ',' or ';' in it`)
	errKeyEnding  = errors.New("the idempotency key is not a string as RFC 9651 has it: something follows the closing quote")
	errKeyEscapes = errors.New(`the idempotency key is not a string as RFC 9651 has it: only \" and \\ are escapes`)
)

// parseKey reads the key from the values of its header: a string as RFC 9651 writes it, or, as most clients send it, the same
// text without quotes. Both are one key. Two keys, also in one value with a comma between as gateways join them, are none. How long a key may be is package idem's to say.
func parseKey(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", errNoKey
	case len(values) > 1:
		return "", errKeys
	}
	v := strings.Trim(values[0], " \t")
	var err error
	switch {
	case v == "":
		return "", errNoKey
	case v[0] == '"':
		if v, err = unquote(v[1:]); err != nil {
			return "", err
		}
	case strings.Contains(v, ","):
		return "", errKeys
	case strings.ContainsAny(v, `";`):
		return "", errKeyForm
	}
	if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errKeyForm
	}
	return v, nil
}

// unquote reads an RFC 9651 string after its opening quote. Parameters after it are refused, as they are after a bare key.
func unquote(s string) (string, error) {
	var b strings.Builder
	for k := 0; k < len(s); k++ {
		switch c := s[k]; {
		case c == '"' && strings.HasPrefix(strings.TrimLeft(s[k+1:], " \t"), ","):
			return "", errKeys
		case c == '"' && k+1 < len(s):
			return "", errKeyEnding
		case c == '"':
			return b.String(), nil
		case c == '\\':
			k++
			if k == len(s) || s[k] != '"' && s[k] != '\\' {
				return "", errKeyEscapes
			}
			b.WriteByte(s[k])
		default:
			b.WriteByte(c)
		}
	}
	return "", errKeyForm
}
