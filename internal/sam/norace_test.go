//go:build !race

package sam_test

const raced = false
