package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The test binary plays an engine when it is started with this variable.
const fakeVariable = "IDEM_FAKE_ENGINE"

func TestMain(m *testing.M) {
	if address := os.Getenv(fakeVariable); address != "" {
		fmt.Println("fake engine:", fakeEngine(address))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fakeEngine answers the calls by which readiness is told, until it is killed.
func fakeEngine(address string) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
		case "ListTables":
			io.WriteString(w, `{"TableNames": []}`)
		case "ListKeys":
			io.WriteString(w, `{"Keys": []}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
}

func readPID(t *testing.T, file string) process {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
