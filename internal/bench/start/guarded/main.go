// Guarded is a process that runs idempotent operations, says how much memory it took, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/internal/bench/bare"
)

type charge struct {
	ID     string
	Amount int
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url, table, key := os.Args[1], os.Args[2], os.Args[3]
	n, err := strconv.Atoi(os.Args[4])
	check(err)
	store, err := dynamo.New(bare.Client(url), table, nil)
	check(err)
	op, err := idem.New[charge](store, idem.InsecureCleartext(), "charge", nil)
	check(err)
	for i := range n {
		r := idem.Request{Tenant: "acme", Key: fmt.Sprint(key, i), Payload: []byte("order")}
		_, err = op.Do(ctx, r, func(context.Context) (charge, error) { return charge{"ch_1234567890", 100}, nil })
		check(err)
	}
	fmt.Println(bare.Peak())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
