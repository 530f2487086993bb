package cassandra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// shared is the one-node server of this test binary.
var shared struct {
	once     sync.Once
	server   *Server
	err      error
	mu       sync.Mutex
	keepLogs bool // a test that used it failed
}

func sharedServer() (*Server, error) {
	shared.once.Do(func() {
		shared.server, shared.err = Open(context.Background(), Config{Nodes: 1})
	})
	return shared.server, shared.err
}

func keepSharedLogs() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.keepLogs = true
}

// Shutdown ends the shared server, if any test started it. It is for TestMain,
// after the tests; afterwards Start gives no server any more.
func Shutdown() {
	shared.once.Do(func() {})
	s := shared.server
	shared.server, shared.err = nil, errors.New("the test database has been shut down")
	if s == nil {
		return
	}
	shared.mu.Lock()
	keep := shared.keepLogs
	shared.mu.Unlock()
	if err := s.Close(keep); err != nil {
		fmt.Fprintln(os.Stderr, "end the test database:", err)
	}
}

// Tests wraps a test binary's m, so that the shared server ends after the tests
// and before whoever called, such as a check for leaked goroutines, looks on.
func Tests(m interface{ Run() int }) TestingM { return TestingM{m} }

// TestingM is a testing.M with a Shutdown after it.
type TestingM struct{ tests interface{ Run() int } }

// Run runs the tests and answers with their exit code.
func (m TestingM) Run() int {
	defer Shutdown()
	return m.tests.Run()
}
