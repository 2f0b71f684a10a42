// Package ledger is the payment provider of the worked example: a ledger on disk that tells the truth about what was
// charged, and an HTTP server in front of it that can be told to misbehave.
//
// # What is promised
//
// A charge is answered only after its line is on disk. A charge that was answered is there after a crash; a charge
// that was not answered is there or not, and whoever reads the ledger sees which. A key that was closed is never
// charged under again, also after a restart.
package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// An Order is what is to be paid. Two orders are the same request if all their fields are equal.
type Order struct {
	Merchant string `json:"merchant"`
	Order    string `json:"order"`
	Amount   int64  `json:"amount"` // in the currency's smallest unit
	Currency string `json:"currency"`
}

// A Charge is an order that was charged.
type Charge struct {
	ID  string `json:"id"`
	Key string `json:"key,omitempty"` // the idempotency key it carried, if any
	Order
	At time.Time `json:"at"`
}

// What a ledger refuses. Each means that this request charged nothing.
var (
	ErrNotFound  = errors.New("no charge under this key")
	ErrKeyReused = errors.New("key was used for another order")
	ErrKeyClosed = errors.New("key is closed")
)

// Ledger is an append-only file of JSON lines, one for each charge and one for each closed key. Its methods may be
// called concurrently; writes follow one another, so two charges under one key never pass each other.
type Ledger struct {
	mu      sync.Mutex
	file    *os.File
	charges []Charge
	first   map[string]int  // key -> its first charge
	closed  map[string]bool // keys that are never charged under again
	broken  error           // the first failed write; nothing is written after it
}

// line is one line of the file: a charge, or a closed key.
type line struct {
	*Charge
	Closed   string     `json:"closed,omitempty"`
	ClosedAt *time.Time `json:"closedAt,omitempty"`
}

// Open reads the ledger at path, or begins one. A last line without its newline was torn by a crash before it was
// answered, and is cut off; a damaged line anywhere else is an error, since a charge may be missing.
func Open(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Ledger{file: f, first: map[string]int{}, closed: map[string]bool{}}
	if err := errors.Join(l.read(), syncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	return l, nil
}

// syncDir makes a new file's name as durable as its lines.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (l *Ledger) read() error {
	in := bufio.NewReader(l.file)
	whole := int64(0) // bytes up to the end of the last whole line
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			if len(text) == 0 {
				return nil
			}
			return l.file.Truncate(whole)
		}
		if err != nil {
			return err
		}
		var ln line
		if err := json.Unmarshal(text, &ln); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if ln.Closed == "" && (ln.Charge == nil || ln.Charge.ID == "" || ln.Charge.Amount <= 0) {
			return fmt.Errorf("line %d: neither a charge nor a closed key", n)
		}
		l.apply(ln)
		whole += int64(len(text))
	}
}

// Charge charges the order under the key. The same order under the same key is answered with its first charge
// (replayed); another one is ErrKeyReused. An empty key never meets an earlier charge.
func (l *Ledger) Charge(key string, o Order) (c Charge, replayed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.first[key]; ok && key != "" {
		if l.charges[i].Order != o {
			return Charge{}, false, ErrKeyReused
		}
		return l.charges[i], true, nil
	}
	c, err = l.charge(key, o)
	return c, false, err
}

// ChargeAgain charges the order whether or not the key was used before: a provider that only notes the key. A closed
// key is refused all the same.
func (l *Ledger) ChargeAgain(key string, o Order) (Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.charge(key, o)
}

func (l *Ledger) charge(key string, o Order) (Charge, error) {
	if l.closed[key] {
		return Charge{}, ErrKeyClosed
	}
	c := Charge{ID: fmt.Sprintf("ch_%06d", len(l.charges)+1), Key: key, Order: o, At: time.Now().UTC()}
	return c, l.append(line{Charge: &c})
}

// Find returns the first charge under the key, or ErrNotFound. Not found is not never: a charge that is still under
// way may arrive. Only CloseKey makes it never.
func (l *Ledger) Find(key string) (Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.first[key]; ok {
		return l.charges[i], nil
	}
	return Charge{}, ErrNotFound
}

// CloseKey promises that nothing is charged under the key from now on. It answers with the key's charge if there is
// one, and with ErrNotFound if there is none and never will be.
func (l *Ledger) CloseKey(key string) (Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed[key] {
		now := time.Now().UTC()
		if err := l.append(line{Closed: key, ClosedAt: &now}); err != nil {
			return Charge{}, err
		}
	}
	if i, ok := l.first[key]; ok {
		return l.charges[i], nil
	}
	return Charge{}, ErrNotFound
}

// All returns the charges in the order in which they were made.
func (l *Ledger) All() []Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Charge{}, l.charges...)
}

// ClosedKeys returns the closed keys, sorted.
func (l *Ledger) ClosedKeys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := slices.AppendSeq([]string{}, maps.Keys(l.closed))
	slices.Sort(keys)
	return keys
}

// Close closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = os.ErrClosed
	return l.file.Close()
}

// append makes the line durable and only then lets anybody see it. If we crash before the write is whole, the torn
// line is cut off at the next start; if we crash after it, the charge was made and nobody was told.
func (l *Ledger) append(ln line) error {
	if l.broken != nil {
		return fmt.Errorf("ledger refuses writes: %w", l.broken)
	}
	text, err := json.Marshal(ln)
	if err != nil {
		return err
	}
	if _, err = l.file.Write(append(text, '\n')); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// What is on disk is unknown now, so nothing may be written behind it.
		l.broken = err
		return err
	}
	l.apply(ln)
	return nil
}

func (l *Ledger) apply(ln line) {
	if ln.Closed != "" {
		l.closed[ln.Closed] = true
	}
	if ln.Charge == nil {
		return
	}
	l.charges = append(l.charges, *ln.Charge)
	if _, ok := l.first[ln.Charge.Key]; !ok && ln.Charge.Key != "" {
		l.first[ln.Charge.Key] = len(l.charges) - 1
	}
}
