package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Members that are gone are remembered by the address of their gossip, so that
// one that is only cut off is found again though nobody's Join names it.
const (
	forget     = 24 * time.Hour
	maxSeen    = 256
	maxBetween = time.Minute // between two tries of one address
	dialsAt    = 8           // at once
	lookupTime = 2 * time.Second
)

// sighting is a gossip address at which a member was.
type sighting struct {
	last  time.Time // when it came, or went
	tried time.Time
}

// due tells whether an address that is not alive is to be tried: the longer it
// is gone, the less often, a sixteenth of that time apart and at most a minute.
func (s *sighting) due(now time.Time) bool {
	return now.Sub(s.tried) >= min(now.Sub(s.last)/16, maxBetween)
}

// saw remembers an address, unless an earlier incarnation of ours was there.
// Called with mu held.
func (m *Members) saw(gossip string) {
	if m.own[gossip] {
		return
	}
	m.seen[gossip] = &sighting{last: time.Now()}
	if len(m.seen) <= maxSeen {
		return
	}
	oldest := gossip
	for addr, s := range m.seen {
		if s.last.Before(m.seen[oldest].last) {
			oldest = addr
		}
	}
	delete(m.seen, oldest)
}

// rejoinLoop looks for members that are not in the list, until the end.
func (m *Members) rejoinLoop(alone bool) {
	for {
		pause := time.Duration(float64(m.cfg.Rejoin) * (0.75 + rand.Float64()/2))
		select {
		case <-time.After(pause):
			alone = m.rejoin(m.ctx, alone)
		case <-m.ctx.Done():
			return
		}
	}
}

// rejoin asks everybody for their list who may be a member and is not in ours. It
// takes a few seconds at most: a look-up is bounded, each step of a dial by
// TCPTimeout. It tells whether there is nobody else, and logs when that changes.
func (m *Members) rejoin(ctx context.Context, wasAlone bool) (alone bool) {
	addrs, err := m.candidates(ctx)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(dialsAt)
	for _, addr := range addrs {
		g.Go(func() error {
			if ctx.Err() != nil || m.ctx.Err() != nil {
				return nil
			}
			_, e := m.list.Join([]string{addr})
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			return nil
		})
	}
	_ = g.Wait() // each returns nil
	m.mu.Lock()
	alone = len(m.peers) == 0
	m.mu.Unlock()
	switch {
	case alone && !wasAlone && len(m.cfg.Join) > 0:
		m.log.Info("no other member of the cluster answers; trying again", "every", m.cfg.Rejoin, "error", err)
	case wasAlone && !alone:
		m.log.Info("joined the cluster")
	}
	return alone
}

// candidates are the addresses to try now: those of Join, and those that were
// seen, without our own and without the living.
func (m *Members) candidates(ctx context.Context) ([]string, error) {
	found, err := m.lookUp(ctx)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	alive := make(map[string]bool, len(m.peers))
	for _, p := range m.peers {
		alive[p.gossip] = true
	}
	for addr, s := range m.seen {
		switch {
		case alive[addr]:
		case now.Sub(s.last) > forget:
			delete(m.seen, addr)
		case s.due(now):
			s.tried = now
			found = append(found, addr)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return slices.DeleteFunc(found, func(addr string) bool { return alive[addr] || m.own[addr] }), err
}

// lookUp resolves what Join names. What cannot be resolved is left out, with an
// error.
func (m *Members) lookUp(ctx context.Context) (found []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(dialsAt)
	for _, text := range m.cfg.Join {
		g.Go(func() error {
			addrs, e := addresses(ctx, m.cfg.resolve, text, m.port)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			for _, a := range addrs {
				found = append(found, a.String())
			}
			return nil
		})
	}
	_ = g.Wait() // each returns nil
	return found, err
}

type resolver = func(ctx context.Context, host string) ([]string, error)

func lookup(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

// splitAddress reads host, host:port or an address without port. A port that is
// not said is the given one; if that is empty, it has to be said.
func splitAddress(text, port string) (string, uint16, error) {
	host := text
	if net.ParseIP(strings.Trim(text, "[]")) != nil {
		host = strings.Trim(text, "[]")
	} else if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", 0, fmt.Errorf("%q is not host:port", text)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q: %q is not a port", text, port)
	}
	return host, uint16(n), nil
}

// checkJoin refuses what can never be joined.
func checkJoin(join []string) error {
	for _, text := range join {
		if host, port, err := splitAddress(text, "1"); err != nil || host == "" || port == 0 {
			return fmt.Errorf("join: %w", cmp.Or(err, fmt.Errorf("%q names no host and port", text)))
		}
	}
	return nil
}

// addresses are all that a text stands for.
func addresses(ctx context.Context, resolve resolver, text, port string) ([]*net.TCPAddr, error) {
	host, n, err := splitAddress(text, port)
	if err != nil {
		return nil, err
	}
	names := []string{cmp.Or(host, "0.0.0.0")}
	if host != "" && net.ParseIP(host) == nil {
		if names, err = resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	var out []*net.TCPAddr
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			out = append(out, &net.TCPAddr{IP: ip, Port: int(n)})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q resolves to no address", text)
	}
	return out, nil
}

// oneAddress is the first that a text stands for, of IPv4 if it has one.
func oneAddress(ctx context.Context, resolve resolver, text, port string) (*net.TCPAddr, error) {
	all, err := addresses(ctx, resolve, text, port)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.IP.To4() != nil {
			return a, nil
		}
	}
	return all[0], nil
}
