package endtoend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

// path is a way through Operation.Do.
type path struct {
	name     string
	options  func(*scene) idem.Options
	before   func(context.Context, *scene) error // leaves the record in the state that the path starts from
	handler  handler
	again    handler // of later deliveries; the same if nil
	cold     bool    // the process has not talked to the table yet
	effects  int     // in the end
	requests int     // without a fault
	answer   string  // of its successes; charged if empty
}

func having(_ context.Context, s *scene) (string, error) { return s.have() }

func saying(word func(error) error) handler {
	return func(context.Context, *scene) (string, error) { return "", word(own) }
}

func beginning(ctx context.Context, s *scene) (string, error) {
	if err := idem.AttemptFrom(ctx).Begin(ctx, "about to charge"); err != nil {
		return "", errors.Join(own, err)
	}
	return s.have()
}

func noting(ctx context.Context, s *scene) (string, error) {
	if err := idem.AttemptFrom(ctx).Note(ctx, "a note"); err != nil {
		return "", idem.NotApplied(errors.Join(own, err))
	}
	return s.have()
}

// doubting has its effect and does not know.
func doubting(_ context.Context, s *scene) (string, error) {
	s.have()
	return "", own
}

func knowing(s *scene) idem.Options {
	return idem.Options{Recover: idem.Reconcile(time.Minute, func(context.Context, idem.Doubt) (string, error) {
		if effects, _ := s.count(); effects > 0 {
			return s.answer, nil
		}
		return "", idem.NeverApplied(errors.New("nothing found, and the key is closed"))
	})}
}

func plain(*scene) idem.Options   { return idem.Options{} }
func durable(*scene) idem.Options { return idem.Options{Begin: idem.Durable} }
func rerun(*scene) idem.Options   { return idem.Options{Recover: idem.Rerun(24 * time.Hour)} }

func crashing(h handler) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error { return s.crash(ctx, h) }
}

func delivered(h handler) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		op, _, _, err := s.process(ctx, false, unhurried)
		if err == nil {
			s.do(ctx, op, h)
		}
		return err
	}
}

func dies(context.Context, *scene) (string, error) { return "", own }

var paths = []path{
	{"first execution", plain, nil, having, nil, false, 1, 2, ""},
	{"first execution of a cold process", plain, nil, having, nil, true, 1, 4, ""},
	{"stored begin", durable, nil, beginning, nil, false, 1, 3, ""},
	{"note", plain, nil, noting, nil, false, 1, 3, ""},
	{"release", plain, nil, saying(idem.NotApplied), having, false, 1, 2, ""},
	{"final failure", plain, nil, saying(idem.Final), nil, false, 0, 2, ""},
	{"unknown", plain, nil, doubting, nil, false, 1, 2, ""},
	{"replay", plain, delivered(having), having, nil, false, 1, 1, ""},
	{"replay of a failure", plain, delivered(saying(idem.Final)), having, nil, false, 0, 1, ""},
	{"duplicate of a dead one that had its effect", plain, crashing(having), having, nil, false, 1, 2, ""},
	{"run of what was released", plain, delivered(saying(idem.NotApplied)), having, nil, false, 1, 3, ""},
	{"reconciled", knowing, delivered(doubting), having, nil, false, 1, 3, ""},
	{"reconciled, to run", knowing, delivered(saying(idem.Unknown)), having, nil, false, 1, 4, ""},
	{"reconciled after a crash", knowing, crashing(having), having, nil, false, 1, 4, ""},
	{"taken over from a dead one that had not begun", durable, crashing(dies), beginning, nil, false, 1, 4, ""},
	{"run again under the downstream's key", rerun, crashing(func(_ context.Context, s *scene) (string, error) { return s.haveOnce() }),
		func(_ context.Context, s *scene) (string, error) { return s.haveOnce() }, nil, false, 1, 3, ""},
	{"first execution, large", plain, nil, having, nil, false, 1, 3, large},
	{"replay, large", plain, delivered(having), having, nil, false, 1, 2, large},
	{"reconciled, large", knowing, delivered(doubting), having, nil, false, 1, 4, large},
}

// scope says which requests a fault hits, beginning with one of the path.
type scope string

const (
	once scope = "once"  // that request
	call scope = "call"  // that request and each time it is sent again
	down scope = "after" // that request and everything after it
)

var faults = []*lab.Fault{lab.Lost, lab.ErrorAfter, lab.ErrorBefore, lab.Twice, lab.TwiceSecond, lab.Late, lab.Cut, lab.Throttled, lab.NoName, lab.IdleClosed}

// row is one fault at one request of one path.
type row struct {
	path
	request int // from 0
	fault   *lab.Fault
	scope
}

func (r row) String() string {
	if r.fault == nil {
		return r.name
	}
	return fmt.Sprintf("%s, request %d, %s, %s", r.name, r.request+1, r.fault.Name, r.scope)
}

// hits is the function for the transport. Requests are told apart by what is in them: each write has a version of its own.
func (r row) hits() func(*lab.Request) *lab.Fault {
	var sent []string
	return func(req *lab.Request) *lab.Fault {
		text := req.Target + canonical(req.Body)
		n := slices.Index(sent, text)
		first := n < 0
		if first {
			n = len(sent)
			sent = append(sent, text)
		}
		if n == r.request && (first || r.scope != once) || n > r.request && r.scope == down {
			return r.fault
		}
		return nil
	}
}

// canonical is JSON with its members in order: the SDK writes them as they come.
func canonical(body []byte) string {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return string(body)
	}
	b, _ := json.Marshal(v) // what was JSON is JSON again
	return string(b)
}

// unnoticed says that the caller is told what it would be told without the fault: where the request is sent again, and where the
// write was carried out each time, so that one read tells.
func (r row) unnoticed() bool {
	after := r.fault == lab.Lost || r.fault == lab.ErrorAfter || r.fault == lab.Cut
	return r.scope == once || r.scope == call && after && !r.cold && r.answer == "" // those two read, too
}

// times are those of an attempt and of the invocation. What does not go away is waited for to the end, so that is short; but a
// healthy request that the engine answers late must not be taken for a second fault.
func (r row) times() (attempt, invocation time.Duration) {
	switch {
	case r.scope == call && r.unnoticed(): // a write on the way to a claim is given up after 3 s, and then there is a read
		return 300 * time.Millisecond, 5 * time.Second
	case r.scope == call || r.scope == down:
		return 300 * time.Millisecond, 2 * time.Second
	case r.fault == lab.Late:
		return time.Second, 20 * time.Second
	}
	return unhurried, 20 * time.Second
}

// play takes one path, once, with its fault, and heals what it left.
func (r row) play(ctx context.Context, e engine.Engine, table, key string) (told string, err error) {
	s := &scene{e: e, table: table, key: key, answer: cmp.Or(r.answer, charged)}
	defer s.close()
	s.options = r.options(s)
	s.options.Reserve = 500 * time.Millisecond
	if r.before != nil {
		if err := r.before(ctx, s); err != nil {
			return "", fmt.Errorf("before: %w", err)
		}
	}
	attempt, invocation := r.times()
	op, _, network, err := s.process(ctx, r.cold, attempt)
	if err != nil {
		return "", err
	}
	if r.fault != nil {
		network.Inject(r.hits())
	}
	effects, runs := s.count()
	invoked, cancel := context.WithTimeout(ctx, invocation)
	defer cancel()
	res, err := s.do(invoked, op, r.handler)
	told = fmt.Sprintf("%T", err)
	if err == nil {
		told = res.Outcome.String()
	}
	effectsNow, runsNow := s.count()
	if err := s.truth(res, err, runsNow-runs, effectsNow-effects); err != nil {
		return told, err
	}
	if got := len(network.Requests()); r.fault == nil && got != r.requests {
		return told, fmt.Errorf("%d requests, want %d", got, r.requests)
	}
	network.Inject(nil)
	network.Deliver()
	h := r.handler
	if r.again != nil {
		h = r.again
	}
	for range 2 { // the second time it is a replay
		if err := s.heal(ctx, h); err != nil {
			return told, fmt.Errorf("told %s; then: %w", told, err)
		}
	}
	if effects, _ := s.count(); effects != r.effects {
		return told, fmt.Errorf("%d effects, want %d", effects, r.effects)
	}
	return told, nil
}

// Whatever happens to a request of whatever path: the effect is there once, what the caller is told is true, and a retry heals it.
// What happens to one request only, nobody notices; nor that every answer to a write is lost.
func TestFaultMatrix(t *testing.T) { engine.Each(t, faultMatrix) }

func faultMatrix(t *testing.T, e engine.Engine) {
	table := e.Table(t)
	var rows []row
	usual := make(map[string]string) // what a path tells without a fault
	for _, p := range paths {
		r := row{path: p}
		told, err := r.play(t.Context(), e, table, p.name)
		if err != nil {
			t.Fatalf("%v, without a fault: %v", r, err)
		}
		usual[p.name] = told
		for request := range p.requests {
			for _, f := range faults {
				for _, s := range []scope{once, call, down} {
					if s == once || f != lab.IdleClosed && f != lab.Twice && f != lab.TwiceSecond { // these do no more harm the second time
						rows = append(rows, row{p, request, f, s})
					}
				}
			}
		}
	}
	var (
		mu    sync.Mutex
		tolds = make(map[string]int)
		wg    sync.WaitGroup
		queue = make(chan row)
	)
	for range 24 { // they mostly wait
		wg.Go(func() {
			for r := range queue {
				told, err := r.play(t.Context(), e, table, r.String())
				for again := range 2 { // an engine that pauses is one fault more
					if err != nil || !r.unnoticed() || told == usual[r.name] {
						break
					}
					told, err = r.play(t.Context(), e, table, fmt.Sprint(r, again))
				}
				if err == nil && r.unnoticed() && told != usual[r.name] {
					err = fmt.Errorf("told %s, without the fault %s", told, usual[r.name])
				}
				mu.Lock()
				if err != nil {
					t.Errorf("%v: %v", r, err)
				}
				tolds[string(r.scope)+": "+told]++
				mu.Unlock()
			}
		})
	}
	for _, r := range rows {
		queue <- r
	}
	close(queue)
	wg.Wait()
	var lines []string
	for _, told := range slices.Sorted(maps.Keys(tolds)) {
		lines = append(lines, fmt.Sprintf("%s %d", told, tolds[told]))
	}
	t.Logf("%d rows; %s", len(rows), strings.Join(lines, ", "))
}
