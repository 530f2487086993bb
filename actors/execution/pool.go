package execution

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 30 * time.Second // less than most servers keep a connection
)

// pool makes connections and keeps those that have no call to carry.
//
// Invariant: count is the number of all kept connections, and at most limit.
// Invariant: the kept connections of a place stand in the order of their use.
type pool struct {
	plain, secure func(ctx context.Context, network, address string) (net.Conn, error)
	tls           *tls.Config
	limit         int

	mu    sync.Mutex
	kept  map[string][]*conn // by place
	count int
	sweep *time.Timer // set while any is kept
	over  bool
}

func newPool(guard *Guard, cfg *tls.Config, limit int) *pool {
	if cfg = cfg.Clone(); cfg == nil {
		cfg = &tls.Config{}
	}
	cfg.NextProtos = []string{"http/1.1"}
	return &pool{plain: guard.dialer(true), secure: guard.dialer(false), tls: cfg, limit: limit, kept: map[string][]*conn{}}
}

// dial makes a connection.
func (p *pool) dial(ctx context.Context, to *place) (*conn, error) {
	dial := p.secure
	if to.plain {
		dial = p.plain
	}
	raw, err := dial(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	under := &countedConn{Conn: raw}
	if to.plain {
		return newConn(under, under, to.key), nil
	}
	cfg := p.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = to.name
	}
	top := tls.Client(under, cfg)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := top.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newConn(top, under, to.key), nil
}

// take is the kept connection that was used last; nil when there is none.
func (p *pool) take(to *place) *conn {
	for {
		c := p.pop(to.key)
		if c == nil || c.alive() {
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop(place string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.kept[place]
	if len(all) == 0 {
		return nil
	}
	last := len(all) - 1
	c := all[last]
	p.kept[place] = slices.Delete(all, last, last+1)
	p.count--
	return c
}

// keep takes a connection back. When there are too many, those to one other
// place make room.
func (p *pool) keep(c *conn) {
	c.kept, c.used = true, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close()
		return
	}
	for place, all := range p.kept {
		if p.count < p.limit {
			break
		}
		p.drop(place, len(all))
	}
	p.kept[c.place] = append(p.kept[c.place], c)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleTimeout, p.expire)
	}
}

// expire closes what was not used for long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for place, all := range p.kept {
		n := slices.IndexFunc(all, func(c *conn) bool { return now.Sub(c.used) < idleTimeout })
		if n < 0 {
			n = len(all)
		}
		p.drop(place, n)
	}
	p.sweep = nil
	if p.count > 0 {
		p.sweep = time.AfterFunc(idleTimeout/4, p.expire)
	}
}

// drop closes the n connections of a place that were not used for longest.
func (p *pool) drop(place string, n int) {
	all := p.kept[place]
	for _, c := range all[:n] {
		_ = c.Close()
	}
	p.count -= n
	if n == len(all) {
		delete(p.kept, place)
	} else {
		p.kept[place] = slices.Delete(all, 0, n)
	}
}

// close closes what is kept, and makes keep close what comes back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for place, all := range p.kept {
		p.drop(place, len(all))
	}
	if p.sweep != nil {
		p.sweep.Stop()
	}
}
