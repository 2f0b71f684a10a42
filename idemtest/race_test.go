//go:build race

package idemtest

const raced = true
