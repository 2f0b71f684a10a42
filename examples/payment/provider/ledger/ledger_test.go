package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
)

var order = ledger.Order{Merchant: "m1", Order: "o1", Amount: 1250, Currency: "EUR"}

func open(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func reopen(t *testing.T, l *ledger.Ledger, path string) *ledger.Ledger {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func mustCharge(t *testing.T, l *ledger.Ledger, key string, o ledger.Order) ledger.Charge {
	t.Helper()
	c, replayed, err := l.Charge(key, o)
	if err != nil || replayed {
		t.Fatalf("charge: replayed %v, %v", replayed, err)
	}
	return c
}

func TestSameKeyChargesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	first := mustCharge(t, l, "k", order)
	l = reopen(t, l, path)
	if c, replayed, err := l.Charge("k", order); c != first || !replayed || err != nil {
		t.Errorf("same order: got %+v, replayed %v, %v", c, replayed, err)
	}
	other := order
	other.Amount++
	if _, _, err := l.Charge("k", other); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("other order: got %v", err)
	}
	if c, err := l.Find("k"); c != first || err != nil {
		t.Errorf("find: got %+v, %v", c, err)
	}
	if got := len(l.All()); got != 1 {
		t.Errorf("got %d charges", got)
	}
}

func TestWithoutKeyEveryChargeCharges(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	if a, b := mustCharge(t, l, "", order), mustCharge(t, l, "", order); a.ID == b.ID {
		t.Error("two charges with one id")
	}
	if _, err := l.Find(""); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("find without key: got %v", err)
	}
}

func TestSameKeyAtTheSameTimeChargesOnce(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	ids := make([]string, 32)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			c, _, err := l.Charge("k", order)
			if err != nil {
				t.Error(err)
			}
			ids[i] = c.ID
		})
	}
	wg.Wait()
	if got := len(slices.Compact(ids)); got != 1 || len(l.All()) != 1 {
		t.Errorf("got %d answers, %d charges", got, len(l.All()))
	}
}

func TestClosedKeyIsNeverChargedUnder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	if _, err := l.CloseKey("k"); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("close: got %v", err)
	}
	l = reopen(t, l, path)
	if _, _, err := l.Charge("k", order); !errors.Is(err, ledger.ErrKeyClosed) {
		t.Errorf("charge: got %v", err)
	}
	if _, err := l.ChargeAgain("k", order); !errors.Is(err, ledger.ErrKeyClosed) {
		t.Errorf("charge without honouring keys: got %v", err)
	}
	if got := l.ClosedKeys(); !slices.Equal(got, []string{"k"}) {
		t.Errorf("closed keys: got %v", got)
	}
}

func TestClosingAKeyAnswersWithItsCharge(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	first := mustCharge(t, l, "k", order)
	if c, err := l.CloseKey("k"); c != first || err != nil {
		t.Errorf("close: got %+v, %v", c, err)
	}
	if c, replayed, err := l.Charge("k", order); c != first || !replayed || err != nil {
		t.Errorf("charge afterwards: got %+v, replayed %v, %v", c, replayed, err)
	}
}

func TestTornLastLineIsCutOff(t *testing.T) {
	for _, torn := range []string{
		"{", `{"id":"ch_000002","merc`,
		`{"id":"ch_000002","merchant":"m1","order":"o2","amount":1,"currency":"EUR","at":"2026-01-01T00:00:00Z"}`,
	} {
		path := filepath.Join(t.TempDir(), "ledger")
		l := open(t, path)
		first := mustCharge(t, l, "k", order)
		write(t, path, torn)
		l = reopen(t, l, path)
		second := mustCharge(t, l, "k2", order)
		l = reopen(t, l, path)
		if got := l.All(); !slices.Equal(got, []ledger.Charge{first, second}) {
			t.Errorf("after %q: got %+v", torn, got)
		}
	}
}

func TestDamagedLineIsAnError(t *testing.T) {
	for _, damaged := range []string{"{\n", "{}\n", "\n", `{"id":"ch_000001"}` + "\n"} {
		path := filepath.Join(t.TempDir(), "ledger")
		write(t, path, damaged)
		if _, err := ledger.Open(path); err == nil {
			t.Errorf("%q: opened", damaged)
		}
	}
}

func TestClosedLedgerRefuses(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Charge("k", order); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if got := len(l.All()); got != 0 {
		t.Errorf("got %d charges", got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
