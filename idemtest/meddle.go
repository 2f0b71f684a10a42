package idemtest

import (
	"context"

	"github.com/idem-go/idem"
)

var (
	_ Clock   = (*Memory)(nil)
	_ Meddler = (*Memory)(nil)
)

// Meddle implements [Meddler].
func (m *Memory) Meddle(_ context.Context, id idem.ID, what Unknown) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.items[id]
	if i == nil {
		return refusef("meddle with %v: no record", id)
	}
	m.items[id] = &item{record: i.record, unknown: what}
	return nil
}

// Kept implements [Meddler].
func (m *Memory) Kept(_ context.Context, id idem.ID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.items[id]
	return i != nil && i.unknown == UnknownField, nil
}

// Remove implements [Meddler].
func (m *Memory) Remove(_ context.Context, id idem.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.items, id)
	return nil
}

// Tear implements [Meddler].
func (m *Memory) Tear(_ context.Context, id idem.ID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.items[id]
	if i == nil || i.record.Receipt.Ref == "" {
		return false, nil
	}
	delete(m.beside, i.record.Receipt.Ref)
	return true, nil
}
