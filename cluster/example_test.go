package cluster_test

import (
	"context"
	"fmt"
	"log"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// A service joins the cluster, says that it sends mail, and has mail sent every
// morning.
func ExampleConnect() {
	send := func(_ context.Context, e cluster.Execution) error {
		if e.Identity == "" {
			return cluster.Final(fmt.Errorf("nobody to send %q to", e.Payload))
		}
		fmt.Printf("to %s: %s (%s)\n", e.Identity, e.Payload, e.JobID)
		return nil
	}
	ctx := context.Background()
	client, err := connect(ctx, cluster.ClientConfig{ // cluster.Connect, outside of this test
		Join:  []string{"belfry.internal"},
		Kinds: cluster.Kinds{Handlers: map[string]cluster.Handler{"mail": send}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := client.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	made, err := client.Register(ctx, "good-morning", job.Spec{
		Schedule: job.Timing{Expr: "0 6 * * 1-5", Zone: "Europe/Berlin"},
		Target:   job.Target{Actor: &job.ActorTarget{Kind: "mail", Identity: "ada", Payload: []byte("good morning")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.ID, made.Status)

	if _, err := client.Trigger(ctx, "good-morning"); err != nil { // without waiting for the morning
		log.Fatal(err)
	}
	runs, _, err := client.Executions(ctx, "good-morning", 10, cluster.Place{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range runs {
		fmt.Println(r.Trigger, r.Status)
	}
	// Output:
	// good-morning active
	// to ada: good morning (good-morning)
	// manual succeeded
}

// connect is cluster.Connect to a cluster in memory.
var connect = cluster.ConnectInMemory
