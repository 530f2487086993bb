package outside

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// API is the part of the server's that a worker needs.
type API interface {
	// Claim waits for an execution, as long as the request says; nil: none came.
	Claim(ctx context.Context, req api.ClaimRequest) (*api.Claimed, error)
	Heartbeat(ctx context.Context, id string, req api.HeartbeatRequest) error
	Complete(ctx context.Context, id string, req api.CompleteRequest) error
}

// Config says what a worker does.
type Config struct {
	API         API
	Queue       string
	Name        string        // of the worker, for people
	Concurrency int           // commands at once
	Lease       time.Duration // for which each is claimed; it is extended while its command runs
	Command     []string
	Environ     []string  // of the commands, beside what tells of the execution
	Stdout      io.Writer // what commands print goes there as well
	Stderr      io.Writer
	Note        func(format string, args ...any)
}

const (
	// claimWait is how long one claim waits for something to come.
	claimWait = 20 * time.Second
	// answerTime bounds the wait for an answer, beside that.
	answerTime = 10 * time.Second
	// Pauses after a server that could not be asked: they double.
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

// Run works until ctx ends, and then until what runs has finished. When kill ends
// what runs is killed. An error is a request that the server refuses: no repeat
// would help.
func Run(ctx, kill context.Context, cfg Config) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var slots sync.WaitGroup
	for range cfg.Concurrency {
		slots.Go(func() {
			if err := (&slot{Config: cfg}).work(ctx, kill); err != nil {
				stop(err)
			}
		})
	}
	slots.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// slot runs one command at a time.
type slot struct {
	Config
	pause time.Duration // before the server is asked again; 0: it answered
}

// work claims and runs, one after another.
func (s *slot) work(ctx, kill context.Context) error {
	wait, lease := api.Duration(claimWait), api.Duration(s.Lease)
	req := api.ClaimRequest{Queue: &s.Queue, Worker: &s.Name, Lease: &lease, Wait: &wait}
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, claimWait+answerTime)
		claimed, err := s.API.Claim(within, req)
		cancel()
		switch {
		case ctx.Err() != nil && claimed == nil:
		case refused(err):
			return err
		case err != nil:
			s.rest(ctx, err)
		default:
			s.pause = 0
			if claimed != nil {
				newRun(s.Config, claimed).run(kill)
			}
		}
	}
	return nil
}

// rest waits before the server is asked again, longer each time.
func (s *slot) rest(ctx context.Context, err error) {
	if s.pause == 0 {
		s.Note("cannot claim from %s now, and goes on trying: %v", s.Queue, err)
		s.pause = firstPause
	}
	sleep(ctx, s.pause/2+rand.N(s.pause))
	s.pause = min(2*s.pause, longestPause)
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// refused tells whether the server understood a request and will not have it.
func refused(err error) bool {
	p := problemOf(err)
	return p != nil && p.Status >= 400 && p.Status < 500 && p.Status != http.StatusTooManyRequests && p.Status != http.StatusRequestTimeout
}

func problemOf(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}
