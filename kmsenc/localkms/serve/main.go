// Serve runs local-kms on a loopback port, for the local back ends: local-kms's own program listens on every address.
//
//	serve -port N -data FOLDER
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	server "github.com/nsmithuk/local-kms/src"
	"github.com/nsmithuk/local-kms/src/config"
	"github.com/nsmithuk/local-kms/src/data"
	"github.com/sirupsen/logrus"
)

func main() {
	port := flag.Int("port", 0, "loopback `port`")
	folder := flag.String("data", "", "`folder` for its keys")
	flag.Parse()
	if err := run(*port, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "local-kms:", err)
		os.Exit(1)
	}
}

func run(port int, folder string) error {
	logrus.SetOutput(io.Discard) // a line for each call
	config.AWSAccountId, config.AWSRegion, config.DatabasePath = "111122223333", "eu-central-1", folder
	db := data.NewDatabase(folder)
	defer db.Close()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.HandleRequest(w, r, db) }),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // it panics on some texts, which net/http turns into a closed connection
	}
	return s.Serve(l)
}
