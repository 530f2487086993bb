package execution

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 30 * time.Second // less than most servers keep a connection
)

// pool makes connections and keeps those that have nothing to do.
type pool struct {
	plain, secure func(ctx context.Context, network, address string) (net.Conn, error)
	tls           *tls.Config
	most          int // kept at once

	mu    sync.Mutex
	kept  map[string][]*conn // by place; the one used last is last
	count int
	sweep *time.Timer // runs while any is kept
	over  bool
}

func newPool(cfg TargetConfig) *pool {
	p := &pool{plain: cfg.Guard.dialer(true), secure: cfg.Guard.dialer(false), most: 2 * cfg.Slots, kept: map[string][]*conn{}}
	p.tls = cfg.TLS.Clone()
	if p.tls == nil {
		p.tls = &tls.Config{}
	}
	p.tls.NextProtos = []string{"http/1.1"}
	return p
}

// take is a kept connection; nil when there is none.
func (p *pool) take(to *place) *conn {
	for {
		c := p.pop(to.key)
		if c == nil || c.idle() {
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop(key string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.kept[key]
	if len(all) == 0 {
		return nil
	}
	c := all[len(all)-1]
	all[len(all)-1] = nil
	p.kept[key] = all[:len(all)-1]
	p.count--
	return c
}

// dial makes a connection.
func (p *pool) dial(ctx context.Context, to *place) (*conn, error) {
	if to.plain {
		raw, err := p.plain(ctx, "tcp", to.address)
		if err != nil {
			return nil, err
		}
		return newConn(&countedConn{Conn: raw}, nil, to.key), nil
	}
	raw, err := p.secure(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	under := &countedConn{Conn: raw}
	cfg := p.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = to.name
	}
	secure := tls.Client(under, cfg)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newConn(under, secure, to.key), nil
}

// keep takes a connection back after a whole answer.
func (p *pool) keep(c *conn, res *http.Response) {
	if c.broken || res.Close || res.StatusCode == http.StatusSwitchingProtocols || c.in.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.kept, c.used = true, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close()
		return
	}
	for place := range p.kept { // full: those of any one place make room
		if p.count < p.most {
			break
		}
		p.drop(place, len(p.kept[place]))
	}
	p.kept[c.place] = append(p.kept[c.place], c)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleTimeout, p.expire)
	}
}

// drop closes the n connections of a place that were used least recently.
func (p *pool) drop(place string, n int) {
	all := p.kept[place]
	for _, c := range all[:n] {
		_ = c.Close()
	}
	p.count -= n
	if n == len(all) {
		delete(p.kept, place)
		return
	}
	p.kept[place] = append([]*conn(nil), all[n:]...)
}

// expire closes what was not used for long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := time.Now().Add(-idleTimeout)
	for place, all := range p.kept {
		n := 0
		for n < len(all) && !all[n].used.After(old) {
			n++
		}
		p.drop(place, n)
	}
	p.sweep = nil
	if p.count > 0 && !p.over {
		p.sweep = time.AfterFunc(idleTimeout/4, p.expire)
	}
}

// close drops what is kept, and what comes later.
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
