package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that ends with the first SIGINT or SIGTERM:
// a server drains, a command gives up. A further signal ends the process at once,
// unless hurry has something to do first.
func interruptible(parent context.Context, hurry func() bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case _, ok := <-signals:
				if !ok {
					return
				}
			case <-parent.Done():
				return
			}
			switch {
			case n == 0:
				cancel()
			case !hurry():
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel()
	}
}
