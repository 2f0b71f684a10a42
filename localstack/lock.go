package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lock waits until no other run in this folder holds the lock of that name, and says so if it has to wait. The lock ends
// with unlock or with this process, so a run that was killed never blocks the next.
func (p *project) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(p.local(), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.local(name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		ok, err := tryLock(f)
		if ok {
			// The file stays: removing it would let two runs hold locks on two files of that name.
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !waited {
			p.say("another run in this folder holds %s: waiting for it", f.Name())
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
