package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// run is the command of one execution, from its claim to its completion.
type run struct {
	*api.Claimed
	cfg   Config
	began time.Time
	tail  tail
}

// Why a command is killed.
var (
	errTimeout = errors.New("killed: it did not end within the job's timeout")
	errLost    = errors.New("killed: its lease was lost")
	errStopped = errors.New("killed: the worker was stopped")
)

func newRun(cfg Config, claimed *api.Claimed) *run {
	return &run{Claimed: claimed, cfg: cfg, began: time.Now()}
}

// run runs the command and completes the execution.
func (r *run) run(kill context.Context) {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer context.AfterFunc(kill, func() { end(errStopped) })()
	timeout := time.AfterFunc(r.timeLeft(), func() { end(errTimeout) })
	defer timeout.Stop()
	held := make(chan struct{})
	go func() {
		defer close(held)
		r.keep(ctx, end)
	}()
	err := r.command(ctx)
	why := context.Cause(ctx)
	end(nil)
	<-held
	switch {
	case errors.Is(why, errLost):
		r.cfg.Note("%s attempt %d: %v", r.ExecutionID, r.Attempt, why)
		return
	case why != nil:
		err = why
	}
	r.complete(kill, err)
}

// timeLeft is for how long the command may run: to the job's timeout, less what
// it takes to say so while the lease holds.
func (r *run) timeLeft() time.Duration {
	t := time.Duration(r.Timeout)
	return t - min(time.Second, t/10)
}

// command runs the command; an error is why it did not succeed. All that it has
// started is killed with it.
func (r *run) command(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, r.cfg.Command[0], r.cfg.Command[1:]...)
	cmd.Stdin = strings.NewReader(payload(r.Payload))
	cmd.Stdout, cmd.Stderr = io.MultiWriter(r.cfg.Stdout, &r.tail), io.MultiWriter(r.cfg.Stderr, &r.tail)
	cmd.Env = append(append([]string(nil), r.cfg.Environ...),
		"BELFRY_EXECUTION_ID="+r.ExecutionID, "BELFRY_JOB_ID="+r.JobID, "BELFRY_QUEUE="+r.Queue,
		"BELFRY_SCHEDULED_FOR="+r.ScheduledFor.UTC().Format(time.RFC3339Nano),
		"BELFRY_ATTEMPT="+strconv.Itoa(r.Attempt), "BELFRY_IDEMPOTENCY_KEY="+r.Key)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = time.Second // for what others still hold its output open
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended well, and left something behind
		return nil
	}
	return err
}

// payload is what the command reads: the text of a string, any other value as it
// is.
func payload(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// keep extends the lease until ctx ends, and ends it when the lease is lost. It
// lasts from the last heartbeat that was answered, as it was sent.
func (r *run) keep(ctx context.Context, end context.CancelCauseFunc) {
	lease := time.Duration(r.LeaseDuration)
	until := r.began.Add(lease - lease/10) // it was granted a little earlier
	every := time.NewTicker(lease / 3)
	defer every.Stop()
	lost := time.NewTimer(time.Until(until))
	defer lost.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost.C:
			end(errLost)
			return
		case <-every.C:
		}
		sent := time.Now()
		within, cancel := context.WithDeadline(ctx, until)
		err := r.cfg.API.Heartbeat(within, r.ExecutionID, api.HeartbeatRequest{Lease: r.Lease})
		cancel()
		switch {
		case err == nil:
			until = sent.Add(lease)
			lost.Reset(time.Until(until))
		case refused(err):
			end(fmt.Errorf("%w: %w", errLost, err))
			return
		}
	}
}

// completeFor is how long a completion is repeated: longer than it takes the
// cluster to find another owner, who gives every lease its full time again.
const completeFor = 2 * time.Minute

// complete tells the server how it ended, until it has an answer.
func (r *run) complete(kill context.Context, failed error) {
	req := api.CompleteRequest{Status: "succeeded", Lease: r.Lease, Output: r.tail.String()}
	if failed != nil {
		req.Status, req.Error = "failed", failed.Error()
	}
	give := time.Now().Add(completeFor)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		within, cancel := context.WithTimeout(context.Background(), answerTime)
		err := r.cfg.API.Complete(within, r.ExecutionID, req)
		cancel()
		switch {
		case err == nil && failed != nil:
			r.cfg.Note("%s attempt %d failed: %v", r.ExecutionID, r.Attempt, failed)
			return
		case err == nil:
			return
		case refused(err) || time.Now().After(give) || kill.Err() != nil:
			r.cfg.Note("%s attempt %d %s, and the server was not told: %v", r.ExecutionID, r.Attempt, req.Status, err)
			return
		}
		sleep(kill, pause)
	}
}
