package idemtest

import (
	"context"

	"github.com/idem-go/idem"
)

// worldStore is the store as the processes of one run have it.
type worldStore struct{ run *run }

var _ idem.Store = (*worldStore)(nil)

func (s *worldStore) Create(ctx context.Context, rec idem.Record) (idem.Record, error) {
	return s.write(ctx, true, rec, func(ctx context.Context) (idem.Record, error) { return s.run.memory.Create(ctx, rec) })
}

func (s *worldStore) Swap(ctx context.Context, seen idem.Version, rec idem.Record) (idem.Record, error) {
	return s.write(ctx, false, rec, func(ctx context.Context) (idem.Record, error) { return s.run.memory.Swap(ctx, seen, rec) })
}

func (s *worldStore) Load(ctx context.Context, id idem.ID) (idem.Record, error) {
	if err := s.read(ctx, "the read of the record"); err != nil {
		return idem.Record{}, err
	}
	return s.run.memory.Load(ctx, id)
}

func (s *worldStore) Fetch(ctx context.Context, rec idem.Record) (idem.Record, error) {
	if err := s.read(ctx, "the read of a large receipt"); err != nil {
		return idem.Record{}, err
	}
	return s.run.memory.Fetch(ctx, rec)
}

func (s *worldStore) Generation(ctx context.Context) (idem.Generation, error) {
	if err := s.read(ctx, "the check of the table"); err != nil {
		return idem.Generation{}, err
	}
	return s.run.memory.Generation(ctx)
}

func (s *worldStore) read(ctx context.Context, what string) error {
	p := s.run.process(ctx)
	switch {
	case p == nil:
		return nil
	case p.gone():
		return errDead
	case ctx.Err() == nil && s.run.choose(p, what, []fault{none, refused}) == refused:
		return errRefused
	}
	return nil
}

func (s *worldStore) write(ctx context.Context, create bool, rec idem.Record, send func(context.Context) (idem.Record, error)) (idem.Record, error) {
	r := s.run
	p := r.process(ctx)
	switch {
	case p == nil:
		return send(ctx)
	case p.gone():
		return idem.Record{}, errDead
	case ctx.Err() != nil:
		return send(ctx)
	}
	if create {
		s.again(p, rec.ID)
	}
	what := p.words(rec, r.memory)
	faults := faultsOutside
	if idem.AttemptFrom(ctx) != nil {
		faults = faultsInside
	}
	if text, err := idem.InsecureCleartext().Open(ctx, nil, nil, nil, rec.Receipt.Bytes); rec.State == idem.Completed && err == nil && r.results[rec.ID.Operation] == nil {
		r.results[rec.ID.Operation] = text
	}
	f := r.choose(p, what, faults)
	unheard := func() (idem.Record, error) { return send(context.WithoutCancel(ctx)) }
	if f == none || f == pausesBefore || f == callerLeaves || f == deadlinePasses {
		unheard = func() (idem.Record, error) { return send(ctx) }
	}
	got, err := disturb(p, f, what, unheard, errCut, errRefused)
	if err == nil && got.Version == rec.Version && rec.State == idem.Pending {
		p.mu.Lock()
		p.fences[rec.ID] = rec.Fence
		p.mu.Unlock()
	}
	return got, err
}

// again is before a claim. Who claims a second time waits for the owner: then it is the owner's turn, or time passes.
func (s *worldStore) again(p *process, id idem.ID) {
	p.mu.Lock()
	p.claims[id]++
	first := p.claims[id] == 1
	p.mu.Unlock()
	if first {
		return
	}
	if len(s.run.late) > 0 { // only this process has the word, so nobody changes the list
		s.run.say("%s waits", p.name)
		for _, l := range s.run.late {
			l.due = 0
		}
		p.goesOnLater([]int{1})
		return
	}
	for _, rec := range s.run.memory.Records() {
		if rec.ID == id && rec.State == idem.Pending {
			s.run.until(rec.Lease, "the lease is over while "+p.name+" waits")
		}
	}
}

// gone says whether a dead process calls, from a deferred function.
func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// words name a write.
func (p *process) words(rec idem.Record, m *Memory) string {
	p.mu.Lock()
	owner := p.fences[rec.ID] == rec.Fence
	p.mu.Unlock()
	m.mu.Lock()
	begins := m.items[rec.ID] != nil && rec.Begun && !m.items[rec.ID].record.Begun
	m.mu.Unlock()
	switch {
	case rec.State == idem.Pending && owner && begins:
		return "its begin"
	case rec.State == idem.Pending && owner:
		return "its note"
	case rec.State == idem.Pending:
		return "its claim"
	case rec.State == idem.Completed && owner:
		return "the record of its success"
	case rec.State == idem.Failed && owner:
		return "the record of its final failure"
	case rec.State == idem.Released && owner:
		return "the record that nothing happened"
	case rec.State == idem.Indeterminate && rec.Asks > 0:
		return "its mark that the reconciler is asked"
	case rec.State == idem.Indeterminate:
		return "its mark that the outcome is unknown"
	}
	return "the record of the reconciler's answer"
}

// worldSealer seals nothing, so that the operator can, too. It can be down.
type worldSealer struct{ run *run }

var _ idem.Sealer = (*worldSealer)(nil)

func (s *worldSealer) Prepare(ctx context.Context, scope map[string]string) (func(dst, binding, text []byte) ([]byte, error), error) {
	if err := s.down(ctx, "the key to seal with"); err != nil {
		return nil, err
	}
	return idem.InsecureCleartext().Prepare(ctx, scope)
}

func (s *worldSealer) Open(ctx context.Context, scope map[string]string, dst, binding, sealed []byte) ([]byte, error) {
	if err := s.down(ctx, "the opening of what was sealed"); err != nil {
		return nil, err
	}
	return idem.InsecureCleartext().Open(ctx, scope, dst, binding, sealed)
}

func (s *worldSealer) down(ctx context.Context, what string) error {
	if p := s.run.process(ctx); p != nil && s.run.choose(p, what, []fault{none, refused}) == refused {
		return keysDown{}
	}
	return nil
}

// keysDown is what a key service says that will be back.
type keysDown struct{}

func (keysDown) Error() string   { return "idemtest: the key service does not answer" }
func (keysDown) Retryable() bool { return true }
