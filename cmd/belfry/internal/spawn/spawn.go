// Package spawn runs `belfry server` as a child process: for benchmarks and
// tests that need a server of their own.
package spawn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Listening is the message of the line in a server's log that has its URL. It is
// written at every log level.
const Listening = "listening"

// Config is what to start.
type Config struct {
	Binary  string
	DataDir string
	Args    []string  // beside the data directory and a free port
	Log     io.Writer // receives the server's log; nil: nobody
}

// Server is a running child.
type Server struct {
	cfg     Config
	cmd     *exec.Cmd
	url     string
	took    time.Duration
	drained chan struct{} // its log has been read to the end

	mu   sync.Mutex
	tail []string // the last lines of its log
}

// Start starts a server and waits until it is ready.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	args := append([]string{"server", "--data-dir", cfg.DataDir, "--listen", "127.0.0.1:0", "--log-format", "json"}, cfg.Args...)
	s := &Server{cfg: cfg, cmd: exec.Command(cfg.Binary, args...), drained: make(chan struct{})}
	s.cmd.Env, s.cmd.SysProcAttr = withoutSettings(os.Environ()), ownGroup()
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	url := make(chan string, 1)
	go s.read(stderr, url)
	if err := s.await(ctx, url); err != nil {
		s.Kill()
		return nil, fmt.Errorf("start server: %w\n%s", err, s.Tail())
	}
	s.took = time.Since(start)
	return s, nil
}

// withoutSettings keeps a server of ours free of the settings of another.
func withoutSettings(environ []string) []string {
	var out []string
	for _, e := range environ {
		if !strings.HasPrefix(e, "BELFRY_") {
			out = append(out, e)
		}
	}
	return out
}

const tailLines = 30

// read passes the log on and finds the URL in it.
func (s *Server) read(log io.Reader, url chan<- string) {
	defer close(s.drained)
	defer close(url)
	lines := bufio.NewReader(log)
	for found := false; ; {
		line, err := lines.ReadBytes('\n')
		if s.cfg.Log != nil {
			_, _ = s.cfg.Log.Write(line) // for people; the server goes on without it
		}
		s.keep(line)
		var entry struct{ Msg, URL string }
		if !found && json.Unmarshal(line, &entry) == nil && entry.Msg == Listening {
			found = true
			url <- entry.URL
		}
		if err != nil {
			return
		}
	}
}

func (s *Server) keep(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := string(bytes.TrimSpace(line)); text != "" {
		s.tail = append(s.tail, text)
	}
	if len(s.tail) > tailLines {
		s.tail = s.tail[1:]
	}
}

// Tail is the end of the server's log.
func (s *Server) Tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.tail, "\n")
}

const readyPoll = 10 * time.Millisecond

// await waits for the URL, and then until the server is ready.
func (s *Server) await(ctx context.Context, url <-chan string) error {
	select {
	case s.url = <-url:
		if s.url == "" {
			return errors.New("it ended before it listened")
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		if isReady(ctx, client, s.url) {
			return nil
		}
		select {
		case <-s.drained:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func isReady(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// URL is the server's base URL.
func (s *Server) URL() string { return s.url }

// PID is its process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Took is how long it was from its start until it was ready.
func (s *Server) Took() time.Duration { return s.took }

// Stop drains the server. When the context ends first, the server is killed.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return s.wait()
	}
	select {
	case <-s.drained:
	case <-ctx.Done():
		s.Kill()
		return ctx.Err()
	}
	if err := s.wait(); err != nil {
		return fmt.Errorf("the server did not stop well: %w\n%s", err, s.Tail())
	}
	return nil
}

// Kill ends the server at once.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	_ = s.wait()
}

func (s *Server) wait() error {
	<-s.drained
	return s.cmd.Wait()
}
