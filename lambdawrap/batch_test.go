package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

func TestSameMessageTwiceInABatch(t *testing.T) {
	for _, workers := range []int{1, 8} {
		// Wait would make a duplicate wait for the owner, who is the same invocation.
		o := &idem.Options{Wait: time.Hour}
		l := &ledger{fail: map[string]error{"3": idem.NotApplied(errors.New("not now"))}}
		h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), o), byBody, l.handle, &lambdawrap.SQSOptions{Concurrency: workers})
		batch := slices.Concat(standard("1", "2", "3"), standard("1", "3"), []events.SQSMessage{message(standardQueue, "other", "", "2")})
		expect(t, "failures", handled(t, h, invoked(t), batch), []string{"m-3"})
		slices.Sort(l.runs)
		expect(t, "runs", l.runs, []string{"1", "2", "3"})
	}
}

// Two messages with one key do not meet: the second finds the first one's outcome.
func TestMessagesWithOneKeyRunOneAfterTheOther(t *testing.T) {
	l := &ledger{}
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(ctx context.Context, m events.SQSMessage) (idem.None, error) {
		time.Sleep(2 * time.Millisecond)
		return l.handle(ctx, m)
	}, &lambdawrap.SQSOptions{Concurrency: 4})
	batch := []events.SQSMessage{message(standardQueue, "a", "", "1"), message(standardQueue, "b", "", "2"), message(standardQueue, "c", "", "1"), message(standardQueue, "d", "", "1")}
	expect(t, "failures", handled(t, h, invoked(t), batch), nil)
	if len(l.runs) != 2 {
		t.Errorf("runs %q", l.runs)
	}
}

// The reserve is what recording the outcome needs, and another message would need as long as the slowest one so far.
func TestNoMessageIsStartedInTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, l := idemtest.NewMemory(t), &ledger{}
		h := lambdawrap.SQS(operation[idem.None](t, store, nil), byBody, func(ctx context.Context, m events.SQSMessage) (idem.None, error) {
			time.Sleep(7 * time.Second)
			return l.handle(ctx, m)
		}, &lambdawrap.SQSOptions{Failed: l.failed})
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		expect(t, "failures", handled(t, h, ctx, fifo("A1", "A2", "B1", "A3", "C1")), []string{"m-A3", "m-C1"})
		expect(t, "runs", l.runs, []string{"A1", "A2", "B1"})
		if n := len(store.Records()); n != 3 {
			t.Errorf("%d records", n)
		}
		if !strings.Contains(l.failure["m-C1"].Error(), "too little time") {
			t.Error(l.failure["m-C1"])
		}

		o := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, l.handle, &lambdawrap.SQSOptions{Reserve: 10 * time.Second})
		ctx, cancel = context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		expect(t, "own reserve", handled(t, o, ctx, standard("1")), []string{"m-1"})
	})
}

func TestConcurrencyIsBoundedAndEndsWithTheInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which ends only when every goroutine has
		var mu sync.Mutex
		running, most := 0, 0
		h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(context.Context, events.SQSMessage) (idem.None, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return idem.None{}, nil
		}, &lambdawrap.SQSOptions{Concurrency: 3})
		expect(t, "failures", handled(t, h, invoked(t), standard("1", "2", "3", "4", "5", "6", "7", "8", "9")), nil)
		if most != 3 || running != 0 {
			t.Errorf("%d at once, %d still run", most, running)
		}
	})
}

// A panic reaches the runtime on the invocation's goroutine, with its value, after what was started has ended.
func TestPanicOfAMessageGoesOn(t *testing.T) {
	for _, workers := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			l, ended := &ledger{}, false
			h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(ctx context.Context, m events.SQSMessage) (idem.None, error) {
				switch m.Body {
				case "1": // ends after 2 has panicked, where both run at once
					time.Sleep(2 * time.Second)
					ended = true
				case "2":
					time.Sleep(time.Second)
					panic(&CardDeclined{})
				}
				return l.handle(ctx, m)
			}, &lambdawrap.SQSOptions{Concurrency: workers})
			batch := standard("1", "2", "3")
			func() {
				defer func() {
					if _, ok := recover().(*CardDeclined); !ok || !ended {
						t.Errorf("%d workers: no panic with its value, or too early", workers)
					}
				}()
				handled(t, h, invoked(t), batch)
			}()
			expect(t, "runs", l.runs, []string{"1"})
			expect(t, "again", handled(t, h, invoked(t), batch), []string{"m-2"}) // held, and the others go on
			expect(t, "runs", l.runs, []string{"1", "3"})
		})
	}
}

func TestGoexitOfAMessageGoesOn(t *testing.T) {
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(context.Context, events.SQSMessage) (idem.None, error) {
		runtime.Goexit()
		return idem.None{}, nil
	}, &lambdawrap.SQSOptions{Concurrency: 2})
	returned, ctx, ended := false, invoked(t), make(chan bool)
	go func() {
		defer close(ended)
		handled(t, h, ctx, standard("1", "2"))
		returned = true
	}()
	<-ended
	if returned {
		t.Error("answered")
	}
}

func TestHandlerMayKeepMessages(t *testing.T) {
	var kept []events.SQSMessage
	h := lambdawrap.SQS(operation[idem.None](t, idemtest.NewMemory(t), nil), byBody, func(_ context.Context, m events.SQSMessage) (idem.None, error) {
		kept = append(kept, m)
		return idem.None{}, nil
	}, nil)
	event, _ := json.Marshal(events.SQSEvent{Records: standard("1")})
	var want events.SQSEvent
	json.Unmarshal(event, &want)
	h.Invoke(invoked(t), event)
	clear(event)
	if !reflect.DeepEqual(kept, want.Records) {
		t.Errorf("kept %+v", kept)
	}
}
