//go:build race

package kmsenc_test

const raceEnabled = true
