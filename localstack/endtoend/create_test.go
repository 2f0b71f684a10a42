package endtoend

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/sam"
)

// lossy loses the first answer of every call that cannot be made twice.
type lossy struct {
	mu   sync.Mutex
	lost map[string]bool
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	target := r.Header.Get("X-Amz-Target")
	l.mu.Lock()
	defer l.mu.Unlock()
	once := strings.HasSuffix(target, ".CreateTable") || strings.HasSuffix(target, ".UpdateTimeToLive")
	if err != nil || !once || l.lost[target] {
		return res, err
	}
	l.lost[target] = true
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// The SDK sends a request again whose answer was lost, and meets what the first one did. It happens by itself on a busy machine.
func TestTableIsCreatedThoughAnswersAreLost(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		template, err := sam.Template()
		if err != nil {
			t.Fatal(err)
		}
		l := &lossy{lost: map[string]bool{}}
		client := engine.Client(e.URL, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: l} })
		name := "idem-test-" + rand.Text()
		if err := sam.Create(t.Context(), client, name, template); err != nil || len(l.lost) != 2 {
			t.Errorf("got %v; lost answers of %v", err, l.lost)
		}
		if _, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Error(err)
		}
	})
}
