//go:build !race

package idemtest

const raced = false // the race detector makes everything some five times slower
