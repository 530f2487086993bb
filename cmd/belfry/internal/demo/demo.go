// Package demo registers the jobs that `belfry dev` shows.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/echo"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// once is the job whose instant is new with each start.
const once = "demo-once"

// Register makes the demo jobs exist. It may be called at each start: a job
// that is as it should be is left alone, with its phase and its history.
func Register(ctx context.Context, c *client.Client, target string, now time.Time) error {
	for _, want := range jobs(target, now) {
		have, err := c.Get(ctx, want.JobID)
		var problem *api.Problem
		if errors.As(err, &problem) && problem.Code == api.CodeJobNotFound {
			err = nil
		}
		if err != nil {
			return err
		}
		if settled(have.Value, want, now) {
			continue
		}
		body, err := json.Marshal(want)
		if err != nil {
			return fmt.Errorf("encode %s: %w", want.JobID, err)
		}
		if _, err := c.Put(ctx, want.JobID, body, client.Change{}); err != nil {
			return fmt.Errorf("%s: %w", want.JobID, err)
		}
	}
	return nil
}

// settled reports whether a job needs no change. One that runs once is left
// alone while it is still to come.
func settled(have api.Job, want api.JobRequest, now time.Time) bool {
	if have.JobID == "" || have.Target == nil || have.Target.HTTP == nil || have.Target.HTTP.URL != want.Target.HTTP.URL {
		return false
	}
	if want.JobID == once {
		return have.Status == string(job.Active) && have.NextRun != nil && have.NextRun.After(now)
	}
	return have.ScheduleExpr == want.ScheduleExpr
}

func jobs(target string, now time.Time) []api.JobRequest {
	berlin := "Europe/Berlin"
	attempts, pause := 4, api.Duration(time.Second)
	heartbeat := request("demo-heartbeat", "@every 5s", target+echo.OK, "Every five seconds.")
	failing := request("demo-failing", "@every 30s", target+echo.Fail, "Its target always fails: after four attempts the execution is a dead letter.")
	failing.Retry = &api.Retry{MaxAttempts: &attempts, InitialBackoff: &pause}
	single := request(once, now.Add(10*time.Second).UTC().Truncate(time.Second).Format(time.RFC3339), target+echo.OK, "Once, ten seconds after the start.")
	daily := request("demo-daily", "0 9 * * *", target+echo.OK, "At nine in Berlin, summer and winter.")
	daily.TimeZone = &berlin
	return []api.JobRequest{heartbeat, failing, single, daily}
}

func request(id, schedule, url, description string) api.JobRequest {
	body := "hello from " + id
	return api.JobRequest{JobID: id, JobSpec: api.JobSpec{
		Description: description, Labels: map[string]string{"demo": "true"}, ScheduleExpr: schedule,
		Target: &api.Target{HTTP: &api.HTTPTarget{URL: url, Body: &body}},
	}}
}
