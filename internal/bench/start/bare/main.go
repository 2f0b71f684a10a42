// Bare is a process that makes the calls of idempotent operations with the SDK alone, says how much memory it took, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/idem-go/idem/internal/bench/bare"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url, table, key := os.Args[1], os.Args[2], os.Args[3]
	n, err := strconv.Atoi(os.Args[4])
	check(err)
	calls := bare.New(bare.Client(url), table)
	calls.Anew = true
	for i := range n {
		check(calls.First(ctx, fmt.Sprintf("1#acme#charge#%-43s", fmt.Sprint(key, i))))
	}
	fmt.Println(bare.Peak())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
