package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxBody bounds every request's body.
const maxBody = 64 << 10

// Server is the provider's HTTP face:
//
//	POST /charges             charge an order; header Idempotency-Key is optional
//	GET  /charges?key=K       the charge under a key, or 404
//	POST /keys/{key}/close    never charge under the key: its charge, or {"closed":true} if there is none
//	GET  /ledger              all charges, closed keys and totals
//	GET  /healthz
//	POST /behave              what the next charges do, and whether keys are honoured
type Server struct {
	ledger *Ledger
	mux    http.ServeMux
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	under  sync.WaitGroup // charges that were received and have not reached the ledger

	mu      sync.Mutex
	next    []behaviour
	keysOff bool
}

// NewServer serves the ledger.
func NewServer(l *Ledger) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{ledger: l, ctx: ctx, stop: stop}
	s.mux.HandleFunc("POST /charges", s.charge)
	s.mux.HandleFunc("GET /charges", s.find)
	s.mux.HandleFunc("POST /keys/{key}/close", s.closeKey)
	s.mux.HandleFunc("GET /ledger", s.list)
	s.mux.HandleFunc("POST /behave", s.behave)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	return s
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// HonourKeys says whether the same key is charged once, as it is until told otherwise. A provider that does not
// honour keys still notes them, finds charges by them and keeps its promise for closed ones.
func (s *Server) HonourKeys(honour bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keysOff = !honour
}

// Close answers at once whatever is being answered late, and drops the charges that are to be received late and have
// not reached the ledger, as a network might. When it returns, none of those is under way.
func (s *Server) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.under.Wait()
}

func (s *Server) charge(w http.ResponseWriter, r *http.Request) {
	b := s.takeNext()
	if b.kind == down {
		hangUp() // before the body is read
	}
	var o Order
	if err := decode(r, &o); err != nil || o.Merchant == "" || o.Order == "" || o.Amount <= 0 || len(o.Currency) != 3 {
		refusal(w, http.StatusBadRequest, "invalid_order")
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		refusal(w, http.StatusBadRequest, "invalid_key")
		return
	}
	switch b.kind {
	case refuse:
		// A declined card is a final answer, so it must be true: a key that was charged under is answered as ever.
		if _, err := s.ledger.Find(key); err != nil {
			refusal(w, http.StatusPaymentRequired, "card_declined")
			return
		}
	case fail:
		refusal(w, http.StatusInternalServerError, "internal_error")
		return
	case unavailable:
		refusal(w, http.StatusServiceUnavailable, "unavailable")
		return
	case receiveLate, receiveLate504:
		s.chargeAfter(b.delay, key, o)
		if b.kind == receiveLate {
			hangUp()
		}
		refusal(w, http.StatusGatewayTimeout, "gateway_timeout")
		return
	}

	c, replayed, err := s.post(key, o)

	// If we crash here, the charge was made and nobody was told.
	switch b.kind {
	case drop:
		hangUp()
	case failCharged:
		refusal(w, http.StatusInternalServerError, "internal_error")
		return
	case late:
		select {
		case <-time.After(b.delay):
		case <-r.Context().Done():
		case <-s.ctx.Done():
		}
	}
	switch {
	case errors.Is(err, ErrKeyReused):
		refusal(w, http.StatusUnprocessableEntity, "key_reused")
	case errors.Is(err, ErrKeyClosed):
		refusal(w, http.StatusConflict, "key_closed")
	case err != nil:
		refusal(w, http.StatusInternalServerError, "internal_error")
	case replayed:
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, http.StatusOK, c)
	default:
		answer(w, http.StatusCreated, c)
	}
}

func (s *Server) post(key string, o Order) (c Charge, replayed bool, err error) {
	s.mu.Lock()
	keysOff := s.keysOff
	s.mu.Unlock()
	if keysOff {
		c, err = s.ledger.ChargeAgain(key, o)
		return c, false, err
	}
	return s.ledger.Charge(key, o)
}

// chargeAfter lets the charge reach the ledger after the delay: the same rules hold for it then as for any other.
func (s *Server) chargeAfter(delay time.Duration, key string, o Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.under.Go(func() {
		select {
		case <-time.After(delay):
			// Nobody waits for the outcome; the ledger has it.
			_, _, _ = s.post(key, o)
		case <-s.ctx.Done():
		}
	})
}

func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	c, err := s.ledger.Find(r.URL.Query().Get("key"))
	if err != nil {
		refusal(w, http.StatusNotFound, "not_found")
		return
	}
	answer(w, http.StatusOK, c)
}

func (s *Server) closeKey(w http.ResponseWriter, r *http.Request) {
	c, err := s.ledger.CloseKey(r.PathValue("key"))
	switch {
	case errors.Is(err, ErrNotFound):
		answer(w, http.StatusOK, map[string]bool{"closed": true})
	case err != nil:
		refusal(w, http.StatusInternalServerError, "internal_error")
	default:
		answer(w, http.StatusOK, c)
	}
}

// Listing is the answer to GET /ledger.
type Listing struct {
	Count   int              `json:"count"`
	Totals  map[string]int64 `json:"totals"` // by currency
	Charges []Charge         `json:"charges"`
	Closed  []string         `json:"closed"`
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	all := s.ledger.All()
	out := Listing{Count: len(all), Totals: map[string]int64{}, Charges: all, Closed: s.ledger.ClosedKeys()}
	for _, c := range all {
		out.Totals[c.Currency] += c.Amount
	}
	answer(w, http.StatusOK, out)
}

func (s *Server) behave(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Next []string `json:"next"`
		Keys string   `json:"keys"` // on, off, or as it is
	}
	if err := decode(r, &order); err != nil {
		refusal(w, http.StatusBadRequest, err.Error())
		return
	}
	bs, err := parseBehaviours(order.Next)
	if err == nil && order.Keys != "" && order.Keys != "on" && order.Keys != "off" {
		err = errors.New("keys: neither on nor off")
	}
	if err != nil {
		refusal(w, http.StatusBadRequest, err.Error())
		return
	}
	if order.Keys != "" {
		s.HonourKeys(order.Keys == "on")
	}
	s.mu.Lock()
	s.next = append(s.next, bs...)
	queued := len(s.next)
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]int{"queued": queued})
}

// takeNext takes the behaviour of this charge from the queue; without one it is charged properly.
func (s *Server) takeNext() behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) == 0 {
		return behaviour{kind: proper}
	}
	b := s.next[0]
	s.next = s.next[1:]
	return b
}

// hangUp ends the request without an answer: net/http closes the connection on this panic, and logs nothing.
func hangUp() { panic(http.ErrAbortHandler) }

func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return err
	}
	if len(body) > maxBody {
		return errors.New("body too large")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("text after the body")
	}
	return nil
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		hangUp()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the caller may have gone; the ledger does not depend on it
}

func refusal(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]string{"error": code})
}
