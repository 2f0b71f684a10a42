// Package psp is the client for the payment provider of the worked example. It never sends a charge twice by itself,
// and says of every outcome what is known:
//
//   - a Charge: it was charged, now or before under the same key;
//   - DeclinedError: the provider's final no, nothing was charged;
//   - RefusedError: the request itself was wrong or its key is closed, this request charged nothing;
//   - UnavailableError: the request was not sent, or the provider said that it did nothing;
//   - any other error: unknown. The charge may have been made, or may still be.
//
// No error tells the idempotency key or the order.
package psp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// An Order is what is to be paid.
type Order struct {
	Merchant string `json:"merchant"`
	ID       string `json:"order"`
	Amount   int64  `json:"amount"` // in the currency's smallest unit
	Currency string `json:"currency"`
}

// A Charge is what the provider's ledger says of an order that was charged.
type Charge struct {
	ID       string    `json:"id"`
	Key      string    `json:"key,omitempty"`
	Merchant string    `json:"merchant"`
	Order    string    `json:"order"`
	Amount   int64     `json:"amount"`
	Currency string    `json:"currency"`
	At       time.Time `json:"at"`
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// Client talks to the provider at BaseURL, within the context's deadline. Without HTTP every request has a connection
// of its own. A client that is given must not retry; redirects are never followed.
type Client struct {
	BaseURL string
	HTTP    *http.Client
}

// Charge charges the order under the idempotency key, or finds that it was charged under it before. Without a key
// every call charges. The request goes out at most once.
func (c *Client) Charge(ctx context.Context, key string, o Order) (Charge, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Charge{}, fmt.Errorf("charge: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+"/charges", bytes.NewReader(body))
	if err != nil {
		return Charge{}, fmt.Errorf("charge: %w", err)
	}
	// net/http sends a request with an Idempotency-Key again by itself when a kept connection breaks under it, even
	// after the first was received. It can not without GetBody; then the break is an error, as it must be.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	charge, err := c.do(req)
	if err != nil {
		return Charge{}, fmt.Errorf("charge: %w", err)
	}
	return charge, nil
}

// Find returns the charge that was made under the key, or ErrNotFound. Not found is not never: a charge that is still
// under way may arrive.
func (c *Client) Find(ctx context.Context, key string) (Charge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+"/charges?key="+url.QueryEscape(key), nil)
	if err != nil {
		return Charge{}, fmt.Errorf("find charge: %w", err)
	}
	charge, err := c.do(req)
	if err != nil {
		return Charge{}, fmt.Errorf("find charge: %w", err)
	}
	return charge, nil
}

// CloseKey asks the provider never to charge under the key from now on. It returns the charge that was made before,
// or ErrNotFound: here not found is never.
func (c *Client) CloseKey(ctx context.Context, key string) (Charge, error) {
	target := c.BaseURL + "/keys/" + url.PathEscape(key) + "/close"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return Charge{}, fmt.Errorf("close key: %w", err)
	}
	charge, err := c.do(req)
	if err != nil {
		return Charge{}, fmt.Errorf("close key: %w", err)
	}
	return charge, nil
}

// reply is any answer of the provider.
type reply struct {
	Charge
	Error  string `json:"error"`
	Closed bool   `json:"closed"`
}

func (c *Client) do(req *http.Request) (Charge, error) {
	res, err := c.client().Do(req)
	if err != nil {
		return Charge{}, transportError(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Charge{}, fmt.Errorf("answer with status %d: %w", res.StatusCode, err)
	}
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return Charge{}, fmt.Errorf("answer with status %d is not the provider's", res.StatusCode)
	}
	// A status alone may come from anything on the way; only together with the provider's own words is it knowledge.
	switch status := res.StatusCode; {
	case status < 300 && r.ID != "":
		return r.Charge, nil
	case status < 300 && r.Closed, status == http.StatusNotFound && r.Error == "not_found":
		return Charge{}, ErrNotFound
	case status == http.StatusPaymentRequired && r.Error != "":
		return Charge{}, &DeclinedError{Code: r.Error}
	case refused[status] && r.Error != "":
		return Charge{}, &RefusedError{Code: r.Error}
	case status == http.StatusServiceUnavailable && r.Error == "unavailable":
		return Charge{}, &UnavailableError{Err: errors.New("provider answered 503")}
	}
	return Charge{}, fmt.Errorf("answer with status %d", res.StatusCode)
}

// refused are the statuses of a request that is itself wrong.
var refused = map[int]bool{
	http.StatusBadRequest: true, http.StatusConflict: true, http.StatusUnprocessableEntity: true,
}

// unkept is the client for a Client without one. A connection that is never used twice can not break idle, which
// would make an unknown outcome out of a request that was not sent.
var unkept = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: keepAnswer,
}

func (c *Client) client() *http.Client {
	if c.HTTP == nil {
		return unkept
	}
	given := *c.HTTP
	given.CheckRedirect = keepAnswer
	return &given
}

// keepAnswer makes a redirect an answer as any other: following one would send the request twice.
func keepAnswer(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transportError tells a request that was not sent from one of which nothing is known. Only a failed dial is proof.
func transportError(err error) error {
	// The *url.Error around it would tell the URL, and with it the key.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &UnavailableError{Err: err}
	}
	return fmt.Errorf("no answer: %w", err)
}
