// Package localkms runs kmsenc on local-kms, a KMS written in Go, inside the test. It is a module of its own, as local-kms brings
// an old AWS SDK with it.
package localkms

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	server "github.com/nsmithuk/local-kms/src"
	"github.com/nsmithuk/local-kms/src/config"
	"github.com/nsmithuk/local-kms/src/data"
	"github.com/sirupsen/logrus"

	"github.com/idem-go/idem/kmsenc/internal/endpoint"
)

// Local-kms's own main listens on every address; httptest on the loopback alone. It panics on some texts, which net/http turns into
// a closed connection.
func TestOnLocalKMS(t *testing.T) {
	logrus.SetOutput(io.Discard) // a line for each call
	folder := t.TempDir()
	config.AWSAccountId, config.AWSRegion, config.DatabasePath = "111122223333", "eu-central-1", folder
	db := data.NewDatabase(folder)
	t.Cleanup(db.Close)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.HandleRequest(w, r, db) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	endpoint.Exercise(t, "local-kms", endpoint.Client(s.URL))
}
