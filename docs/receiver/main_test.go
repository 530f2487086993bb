package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/belfry-scheduler/belfry/actors/execution"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// What Belfry sends is accepted, and worked on once; what others send is not.
func TestReceiver(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var worked []string
	fails := true
	server := httptest.NewServer(newReceiver(verifier, func(key string, body []byte) error {
		worked = append(worked, key+" "+string(body))
		if fails {
			fails = false
			return errors.New("the first time fails")
		}
		return nil
	}))
	defer server.Close()
	target := execution.NewTarget(execution.TargetConfig{
		Guard: execution.NewGuard(job.DevPolicy(), nil), Slots: 1,
		Vault: &execution.Vault{Getenv: func(string) (string, bool) { return secret, true }},
	})
	defer target.Close()
	deliver := func(ref string, attempt int32) int32 {
		return target.Deliver(context.Background(), &belfryv1.Delivery{
			ExecutionId: "e", JobId: "j", Key: "key-1", Attempt: attempt,
			Target: &belfryv1.Target{Kind: &belfryv1.Target_Http{Http: &belfryv1.HTTPTarget{Method: "POST", Url: server.URL, Body: []byte("b"), SigningSecretRef: ref}}},
		}, 1, func() bool { return true }).GetStatusCode()
	}
	for attempt, want := range []int32{http.StatusInternalServerError, http.StatusOK, http.StatusOK} {
		if got := deliver("env://BELFRY_SECRET_HOOK", int32(attempt+1)); got != want {
			t.Errorf("attempt %d is answered %d, want %d", attempt+1, got, want)
		}
	}
	if got := deliver("", 4); got != http.StatusUnauthorized {
		t.Errorf("without a signature: %d", got)
	}
	if got := strings.Join(worked, ", "); got != "key-1 b, key-1 b" {
		t.Errorf("worked: %s: want one that failed and one that did not", got)
	}
}

// What is under way is not begun again.
func TestAKeyUnderWay(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	r := newReceiver(nil, func(string, []byte) error {
		close(begun)
		<-end
		return nil
	})
	first := make(chan error, 1)
	go func() { first <- r.once("k", nil) }()
	<-begun
	if err := r.once("k", nil); !errors.Is(err, errUnderWay) {
		t.Errorf("meanwhile: %v", err)
	}
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := r.once("k", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
