package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
)

// gate lets requests for the control item wait.
type gate struct {
	dynamo.API
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	g.arrived <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.API.GetItem(ctx, in, opts...)
}

// TestGuardIsCheckedOnceForAll: callers wait for one check, and one who goes away does not take the others along.
func TestGuardIsCheckedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		fs := &faults{next: f}
		g := &gate{clientOver(fs, "http://fake"), make(chan struct{}, 99), make(chan struct{})}
		s, err := dynamo.New(g, "records", &dynamo.Options{AttemptTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		leader, leave := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := s.Generation(leader)
			result <- err
		}()
		<-g.arrived
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.Generation(t.Context()) })
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Generation(impatient); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("a caller without time: %v", err)
		}
		synctest.Wait()
		leave()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away: %v", err)
		}
		<-g.arrived // another one took over
		close(g.open)
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("who stayed: %v", err)
		}
		if calls := fs.sent(); !slices.Equal(calls, []string{"GetItem", "DescribeTable"}) {
			t.Errorf("sent %v", calls)
		}
	})
}

// TestRequests: one each on a warm store, whatever comes of it, and never another call than the three.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, faults := f.open(t, nil)
		r := claim()
		n := completion(r)
		other := claim()
		other.Version = idem.Version{9}
		for i, row := range []struct {
			call string
			do   func() error
		}{
			{"GetItem", func() error { _, err := s.Load(t.Context(), r.ID); return err }},
			{"UpdateItem", func() error { _, err := s.Swap(t.Context(), idem.Version{4}, other); return err }},
			{"UpdateItem", func() error { _, err := s.Create(t.Context(), r); return err }},
			{"UpdateItem", func() error { _, err := s.Create(t.Context(), r); return err }},
			{"UpdateItem", func() error { _, err := s.Create(t.Context(), other); return err }},
			{"UpdateItem", func() error { _, err := s.Swap(t.Context(), idem.Version{4}, other); return err }},
			{"UpdateItem", func() error { _, err := s.Swap(t.Context(), r.Version, n); return err }},
			{"GetItem", func() error { _, err := s.Load(t.Context(), r.ID); return err }},
			{"", func() error { _, err := s.Generation(t.Context()); return err }},
		} {
			if err := row.do(); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if got := fmt.Sprint(faults.sent()); got != "["+row.call+"]" {
				t.Errorf("%d: sent %s, want one %s", i, got, row.call)
			}
		}
	})
}

func TestNew(t *testing.T) {
	api := clientOver(http.DefaultTransport, "http://fake")
	if _, err := dynamo.New(api, "records", &dynamo.Options{}); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"no api":   second(dynamo.New(nil, "records", nil)),
		"no table": second(dynamo.New(api, "", nil)),
		"timeout":  second(dynamo.New(api, "records", &dynamo.Options{AttemptTimeout: -1})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second(_ *dynamo.Store, err error) error { return err }
