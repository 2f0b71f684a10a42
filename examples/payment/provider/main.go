// Command provider runs the payment provider of the worked example on a loopback address. Its first line of output is
// its base URL, printed when it accepts requests. SIGINT and SIGTERM end it: requests under way are answered first.
//
//	provider -ledger FILE [-addr 127.0.0.1:0] [-keys on|off]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:0", "loopback `address` to listen on")
	path := flags.String("ledger", "", "`file` of the ledger, made if it is not there")
	keys := flags.String("keys", "on", "`on`: the same key is charged once; off: keys are noted and not honoured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *path == "" {
		return errors.New("no -ledger")
	}
	if *keys != "on" && *keys != "off" {
		return fmt.Errorf("-keys %s: neither on nor off", *keys)
	}
	if err := checkLoopback(*addr); err != nil {
		return err
	}
	l, err := ledger.Open(*path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	provider := ledger.NewServer(l)
	provider.HonourKeys(*keys == "on")
	server := &http.Server{Handler: provider, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s\n", listener.Addr())

	select {
	case err := <-served:
		provider.Close()
		return err
	case <-ctx.Done():
	}
	provider.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(bounded)
}

// checkLoopback refuses an address that other machines could reach: this provider asks nobody who they are.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %s is not on the loopback", addr)
	}
	return nil
}
