package psp

import "errors"

// ErrNotFound says that no charge was made under the key.
var ErrNotFound = errors.New("no charge under this key")

// DeclinedError is the provider's final no: nothing was charged, and asking again would not help.
type DeclinedError struct {
	Code string // as "card_declined"
}

func (e *DeclinedError) Error() string { return "payment declined: " + e.Code }

// RefusedError says that the provider refused the request itself, and that this request charged nothing: the order is
// invalid, the key was used for another order, or the key is closed.
type RefusedError struct {
	Code string // invalid_order, invalid_key, key_reused or key_closed
}

func (e *RefusedError) Error() string { return "payment request refused: " + e.Code }

// UnavailableError says that nothing happened: the request was not sent, or the provider said that it did nothing.
type UnavailableError struct {
	Err error
}

func (e *UnavailableError) Error() string { return "payment provider unavailable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
