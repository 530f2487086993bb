// Command cassandra runs one node of the test database in the foreground, for a
// developer who wants to point a server at it. Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	need    bool
	network string
	data    string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("cassandra", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.need, "need", false, "only say in one line what is missing on this machine, if anything is")
	f.StringVar(&o.network, "network", "127.0.0", "first three numbers of the node's address; the last is 1")
	f.StringVar(&o.data, "data", "", "directory that keeps the data for the next start; empty: a temporary one that goes with the node")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.need {
		return cassandra.Need()
	}
	if os.Getenv(cassandra.HostsVariable) != "" {
		return fmt.Errorf("%s names a database that runs already: nothing to start", cassandra.HostsVariable)
	}
	return serve(ctx, o, stdout)
}

// serve runs the node until ctx ends or the node does.
func serve(ctx context.Context, o options, stdout io.Writer) (err error) {
	start := time.Now()
	fmt.Fprintln(stdout, "Starting Apache Cassandra 5.0.6. The first time Maven resolves its jars.")
	s, err := cassandra.Open(ctx, cassandra.Config{Nodes: 1, Network: o.network, Dir: o.data, Measured: true})
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("interrupted before the database was up")
	}
	if err != nil {
		return err
	}
	failed := true
	defer func() {
		if cerr := s.Close(failed); err == nil {
			err = cerr
		}
	}()
	fmt.Fprintf(stdout, "It answers at %s after %.1f s. Its log is in %s.\n\n", s.Hosts()[0], time.Since(start).Seconds(), s.Dir())
	fmt.Fprintf(stdout, "  %s\n\n", command(s))
	fmt.Fprintln(stdout, "Ctrl-C ends it.")
	if err = s.Wait(ctx, 0); err == nil {
		failed = false
	}
	return err
}

// command is how a server is pointed at the node.
func command(s *cassandra.Server) string {
	return fmt.Sprintf("bin/belfry server --store cql --cql-hosts %s --cql-keyspace belfry --cql-local-dc %s", s.Hosts()[0], s.LocalDC())
}
