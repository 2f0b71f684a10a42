package endtoend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

// scene is one key with its effect, and a store whose clock is ahead by as much as the scene needs: no test waits for a lease.
type scene struct {
	e       engine.Engine
	table   string
	key     string
	options idem.Options
	skew    time.Duration
	answer  string // of every success
	open    []*lab.Transport

	mu      sync.Mutex
	effects int
	runs    int
}

// What successes answer: in the record, or beside it.
var (
	charged = "charged"
	large   = strings.Repeat("charged ", 4<<10)
)

// have is the effect.
func (s *scene) have() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects++
	return s.answer, nil
}

// haveOnce is the effect of a downstream that knows its keys.
func (s *scene) haveOnce() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects = 1
	return s.answer, nil
}

func (s *scene) count() (effects, runs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects, s.runs
}

// process is the operation as another process has it, with a network of its own. It is warm unless cold is asked for.
func (s *scene) process(ctx context.Context, cold bool, timeout time.Duration) (*idem.Operation[string], *dynamo.Store, *lab.Transport, error) {
	network := lab.NewTransport()
	network.Skew(s.skew)
	s.open = append(s.open, network)
	client := engine.Client(s.e.URL, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: network} })
	store, err := dynamo.New(client, s.table, &dynamo.Options{AttemptTimeout: timeout})
	if err != nil {
		return nil, nil, nil, err
	}
	if !cold {
		for range 10 { // with little patience, an engine that pauses is not there
			if _, err = store.Generation(ctx); err == nil {
				break
			}
		}
		if err != nil {
			return nil, nil, nil, err
		}
		network.Forget()
	}
	o := s.options
	op, err := idem.New[string](store, idem.InsecureCleartext(), "charge", &o)
	return op, store, network, err
}

func (s *scene) close() {
	for _, network := range s.open {
		network.CloseIdleConnections()
	}
}

// unhurried is the timeout of a request that nothing is done to: engines pause for a second now and then.
const unhurried = 5 * time.Second

func (s *scene) request() idem.Request { return request("acme", s.key) }

func (s *scene) id() idem.ID {
	return idem.ID{Tenant: "acme", Operation: "charge", Key: sha256.Sum256([]byte(s.key))}
}

// do is one delivery. The handler's runs are counted.
func (s *scene) do(ctx context.Context, op *idem.Operation[string], h handler) (idem.Result[string], error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	return op.Do(ctx, s.request(), func(ctx context.Context) (string, error) {
		s.mu.Lock()
		s.runs++
		s.mu.Unlock()
		return h(ctx, s)
	})
}

type handler func(context.Context, *scene) (string, error)

// crash leaves the record as a process does that dies in the handler: its store is told at once that it may write no more.
func (s *scene) crash(ctx context.Context, h handler) error {
	op, _, network, err := s.process(ctx, false, unhurried)
	if err != nil {
		return err
	}
	s.do(ctx, op, func(ctx context.Context, s *scene) (string, error) {
		defer network.Inject(func(*lab.Request) *lab.Fault { return lab.Denied })
		return h(ctx, s)
	})
	s.skew += time.Hour // and its lease is over
	return nil
}

// own is the handlers' own error.
var own = errors.New("the handler's own")

// truth compares what one request was told with what has happened: runs and effects are by this request alone.
func (s *scene) truth(res idem.Result[string], err error, ran, had int) error {
	effects, _ := s.count()
	switch e := err.(type) {
	case nil:
		if res.Value != s.answer || effects != 1 {
			return fmt.Errorf("told %.20q (%v) of %d effects", res.Value, res.Outcome, effects)
		}
	case *idem.UnavailableError, *idem.InProgressError, *idem.IndeterminateError, *idem.RequestError, *idem.MismatchError:
		if ran != 0 || had != 0 {
			return fmt.Errorf("told %T, but it ran %d times, %d effects", err, ran, had)
		}
	case *idem.NotRecordedError, *idem.LostError:
		if ran != 1 || effects != 1 {
			return fmt.Errorf("told %T, but it ran %d times, %d effects", err, ran, effects)
		}
	case *idem.FailedError:
		if effects != 0 {
			return fmt.Errorf("told %v, but there are %d effects", e, effects)
		}
	default:
		if ran != 1 || !errors.Is(err, own) {
			return fmt.Errorf("told %T %w, and it ran %d times", err, err, ran)
		}
	}
	return nil
}

// heal delivers the request again, each time by another process and without a fault, as its source would, until it is answered.
// Where the operation holds an operator looks at the effect and tells the truth.
func (s *scene) heal(ctx context.Context, h handler) error {
	var last error
	for range 8 {
		op, store, _, err := s.process(ctx, false, unhurried)
		if err != nil {
			return err
		}
		res, err := s.do(ctx, op, h)
		_, final := err.(*idem.FailedError)
		if err == nil || final {
			return s.truth(res, err, 0, 0)
		}
		last = err
		_, doubt := err.(*idem.IndeterminateError)
		_, again := idem.RetryAfter(err)
		s.skew += time.Hour
		if !doubt || again {
			continue
		}
		seen, err := store.Load(ctx, s.id())
		if err != nil {
			return err
		}
		v := idem.Verdict{State: idem.Completed, Result: []byte(`"` + s.answer + `"`), By: "operator", Why: "saw the effects"}
		if effects, _ := s.count(); effects == 0 {
			v.State, v.Result, v.Never = idem.Released, nil, true // nothing of this scene runs any more
		}
		if _, err := idem.Resolve(ctx, store, idem.InsecureCleartext(), seen, v); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
	}
	return fmt.Errorf("8 more deliveries did not heal it: %w", last)
}
