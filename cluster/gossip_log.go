package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// gossipLog takes the lines of memberlist's logger. What it calls an error is
// what befalls another member, or what a stranger sent: a warning here. Anybody
// who reaches the port can cause lines, so there are at most 10 a second.
type gossipLog struct {
	log   *slog.Logger
	limit *rate.Limiter

	mu      sync.Mutex
	dropped int
	closed  bool
}

func newGossipLog(log *slog.Logger) *gossipLog {
	return &gossipLog{log: log, limit: rate.NewLimiter(10, 50)}
}

func (g *gossipLog) Write(line []byte) (int, error) {
	level, text := gossipLine(string(line))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed || !g.log.Enabled(context.Background(), level):
	case !g.limit.Allow():
		g.dropped++
	case g.dropped > 0:
		g.log.Log(context.Background(), level, "gossip", "text", text, "dropped", g.dropped)
		g.dropped = 0
	default:
		g.log.Log(context.Background(), level, "gossip", "text", text)
	}
	return len(line), nil
}

// close ends it: memberlist goes on for a moment after its shutdown.
func (g *gossipLog) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// gossipLine splits a line such as "[WARN] memberlist: text".
func gossipLine(line string) (slog.Level, string) {
	level, text := slog.LevelWarn, strings.TrimSpace(line)
	for prefix, l := range map[string]slog.Level{"[DEBUG]": slog.LevelDebug, "[INFO]": slog.LevelInfo, "[WARN]": slog.LevelWarn, "[ERR]": slog.LevelWarn, "[ERROR]": slog.LevelWarn} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			level, text = l, rest
			break
		}
	}
	return level, strings.TrimPrefix(strings.TrimSpace(text), "memberlist: ")
}
