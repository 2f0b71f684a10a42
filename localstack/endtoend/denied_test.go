package endtoend

import (
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

// Who may not write, or not to a table that is there, runs nothing, and is told at once that a retry is no use.
func TestDeniedAndNoTable(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		for name, cold := range map[string]bool{"denied": false, "denied to a cold process": true, "no table": true} {
			t.Run(name, func(t *testing.T) {
				s := &scene{e: e, table: "idem-test-no-such-table", key: name}
				defer s.close()
				if name != "no table" {
					s.table = e.Table(t)
				}
				op, _, network, err := s.process(t.Context(), cold, unhurried)
				if err != nil {
					t.Fatal(err)
				}
				if name != "no table" {
					network.Inject(func(*lab.Request) *lab.Fault { return lab.Denied })
				}
				_, err = s.do(t.Context(), op, having)
				if _, ok := err.(*idem.UnavailableError); !ok {
					t.Errorf("got %T %v", err, err)
				}
				if _, again := idem.RetryAfter(err); again {
					t.Errorf("%v: a retry is no use", err)
				}
				if effects, runs := s.count(); effects+runs > 0 || len(network.Requests()) > 2 {
					t.Errorf("%d effects, %d runs, %d requests", effects, runs, len(network.Requests()))
				}
			})
		}
	})
}
