//go:build !unix

package main

import "time"

func cpu() time.Duration { return 0 }
