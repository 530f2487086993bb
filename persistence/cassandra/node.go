package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Bounds of waiting for a node. A start takes 10 s on an idle machine.
const (
	readyTimeout = 3 * time.Minute
	pollEvery    = 100 * time.Millisecond
	dialTimeout  = 5 * time.Second
	stopTimeout  = 30 * time.Second
)

// node is one server of a cluster.
type node struct {
	name string
	host string // host:port for clients
	java string
	args []string
	log  string
	dial func(ctx context.Context, host string) (*frame.Conn, error) // as a client

	mu     sync.Mutex // one change at a time
	proc   *process   // of the last start
	paused bool
}

func newNode(i int, cfg Config, java, jars string, addr *addresses, h *home, g *Guard) (*node, error) {
	name := "node" + strconv.Itoa(i+1)
	dir := h.nodeDir(name)
	err := writeFiles(dir, settings{
		Cluster: "belfry-test", Home: dir, Address: addr.of(i), Seed: addr.of(0),
		Token: token(i, cfg.Nodes), ClientPort: clientPort, PeerPort: peerPort, Guard: g,
	})
	if err != nil {
		return nil, err
	}
	return &node{
		name: name, host: net.JoinHostPort(addr.of(i), strconv.Itoa(clientPort)),
		java: java, args: javaArgs(jars, dir, cfg.Measured), log: h.logPath(name), dial: g.dialer(),
	}, nil
}

// start starts a node that does not run and waits until it answers clients.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && n.proc.running() {
		return fmt.Errorf("%s is running", n.name)
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(n.java, n.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if n.proc, err = launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.paused = false
	if err := n.await(ctx); err != nil {
		n.proc.kill()
		return fmt.Errorf("start %s: %w; the end of its log:\n%s", n.name, err, lastLines(n.readLog(), 20))
	}
	return nil
}

// await asks the node until it answers as one that takes clients.
func (n *node) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return poll(ctx, n.proc.ended, func(ctx context.Context) error {
		c, err := n.dial(ctx, n.host)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

var errEnded = errors.New("the process ended")

// poll repeats ask until it succeeds, the process ends, or ctx does.
func poll(ctx context.Context, ended <-chan struct{}, ask func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, dialTimeout)
		err := ask(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// kill ends the node as kill -9 does.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.kill()
	}
	n.paused = false
}

// stop asks the node to end, so that it flushes and tells its peers.
func (n *node) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused {
		return fmt.Errorf("%s is paused: resume it first", n.name)
	}
	if err := n.proc.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", n.name, err)
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case <-n.proc.ended:
		return nil
	case <-late.C:
		n.proc.kill()
		return fmt.Errorf("stop %s: still there after %v, killed", n.name, stopTimeout)
	}
}

// pause freezes the node or lets it go on; its sockets stay open meanwhile.
func (n *node) pause(on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.running() {
		return fmt.Errorf("%s does not run", n.name)
	}
	s := syscall.SIGCONT
	if on {
		s = syscall.SIGSTOP
	}
	if err := n.proc.signal(s); err != nil {
		return fmt.Errorf("pause or resume %s: %w", n.name, err)
	}
	n.paused = on
	return nil
}

// heal brings the node back from whatever a test did to it.
func (n *node) heal(ctx context.Context) error {
	n.mu.Lock()
	paused, runs := n.paused, n.proc.running()
	n.mu.Unlock()
	switch {
	case !runs:
		return n.start(ctx)
	case paused:
		return n.pause(false)
	}
	return nil
}

// up: it runs and is not paused.
func (n *node) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc != nil && n.proc.running() && !n.paused
}

// readLog is what the node has written; nothing when it never started.
func (n *node) readLog() []byte {
	b, _ := os.ReadFile(n.log)
	return b
}

// wait watches over the process of the last start.
func (n *node) wait(ctx context.Context) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case <-p.ended:
		return fmt.Errorf("%s ended (%s); the end of its log:\n%s", n.name, p.state, lastLines(n.readLog(), 20))
	}
}
