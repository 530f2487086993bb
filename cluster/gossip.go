package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// gossipConfig has the values of memberlist. A dead node is out of the others'
// lists after 1.2 s, 1.8 s at most (measured, one of three); when the one that is
// left of three finds both others dead, after 2.6 s, 3.5 s at most.
func gossipConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.ProbeInterval = 250 * time.Millisecond
	c.ProbeTimeout = 150 * time.Millisecond
	c.SuspicionMult = 3           // 3 × 250 ms from suspect to dead, when another suspects it too
	c.SuspicionMaxTimeoutMult = 2 // twice that when nobody else does, as for the one left of three
	c.GossipInterval = 100 * time.Millisecond
	c.RetransmitMult = 8 // with the usual 4, one of six joins of 7 nodes at once was not everywhere before the next exchange of lists [measured]
	c.PushPullInterval = 5 * time.Second
	c.TCPTimeout = 2 * time.Second // of each step of a join
	// The dead are kept for as long and then forgotten, which bounds the list
	// however often nodes are restarted. Another node's list does not bring them
	// back: what is dead there and unknown here is ignored.
	c.GossipToTheDeadTime = 30 * time.Second
	c.DeadNodeReclaimTime = 30 * time.Second // no name has two addresses here; 0 would keep the first for ever
	c.EnableCompression = false              // packets are small: LZW costs more than it saves
	return c
}

// newMembers makes a membership of one.
func newMembers(ctx context.Context, cfg MembersConfig) (*Members, error) {
	cfg.setDefaults()
	about, err := encodeMember(cfg.Self)
	if err != nil {
		return nil, err
	}
	if len(cfg.Label) > memberlist.LabelMaxSize {
		return nil, fmt.Errorf("the cluster's name has %d bytes, and at most %d are allowed", len(cfg.Label), memberlist.LabelMaxSize)
	}
	if err := checkKeys(cfg.Keys); err != nil {
		return nil, err
	}
	if err := checkJoin(cfg.Join); err != nil {
		return nil, err
	}
	m := &Members{
		cfg:   cfg,
		log:   cfg.Log,
		lines: newGossipLog(cfg.Log),
		dirty: make(chan struct{}, 1),
		peers: make(map[string]*peer),
		seen:  make(map[string]*sighting),
		wall:  newWall(cfg.Now, cfg.Boot),
	}
	if m.count, err = newMembersMetrics(cfg.Registry); err != nil {
		return nil, err
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if err := m.open(ctx, about); err != nil {
		m.stop()
		m.count.unregister()
		return nil, err
	}
	m.refresh()
	return m, nil
}

// open binds the port and starts memberlist.
func (m *Members) open(ctx context.Context, about []byte) error {
	c := gossipConfig()
	c.Name = memberName(m.cfg.Self)
	c.Label = m.cfg.Label
	c.Logger = log.New(m.lines, "", 0)
	d := &delegate{m: m, meta: about}
	c.Delegate, c.Events, c.Ping = d, d, d
	if len(m.cfg.Keys) > 0 {
		ring, err := memberlist.NewKeyring(m.cfg.Keys, m.cfg.Keys[0])
		if err != nil {
			return err
		}
		m.keys, c.Keyring = ring, ring
	}
	if m.cfg.tune != nil {
		m.cfg.tune(c)
	}
	t, err := m.bind(ctx, c)
	if err != nil {
		return err
	}
	c.Transport = t
	if m.list, err = memberlist.Create(c); err != nil {
		abandon(t)
		return err
	}
	return nil
}

// bind opens the port and settles the addresses.
func (m *Members) bind(ctx context.Context, c *memberlist.Config) (memberlist.NodeAwareTransport, error) {
	listen, err := oneAddress(ctx, m.cfg.resolve, m.cfg.Listen, "")
	if err != nil {
		return nil, fmt.Errorf("listen address: %w", err)
	}
	if len(m.cfg.Keys) == 0 && !m.cfg.Insecure && !listen.IP.IsLoopback() {
		return nil, fmt.Errorf("listen address %s is beyond loopback: gossip there needs keys", m.cfg.Listen)
	}
	t := m.cfg.transport
	if t == nil {
		if t, err = m.listen(listen, c.Logger); err != nil {
			return nil, err
		}
	}
	if err := m.settle(ctx, c, t, listen); err != nil {
		abandon(t)
		return nil, err
	}
	return t, nil
}

// listen opens TCP and UDP on one port, and puts it into the address if it is 0:
// then the port that is free for TCP may be taken for UDP, and another is tried.
func (m *Members) listen(at *net.TCPAddr, lines *log.Logger) (t memberlist.NodeAwareTransport, err error) {
	for range 10 {
		var n *memberlist.NetTransport
		n, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{at.IP.String()}, BindPort: at.Port, Logger: lines})
		if err == nil {
			at.Port = n.GetAutoBindPort()
			return netTransport{n, m.ctx}, nil
		}
		if at.Port != 0 {
			break
		}
	}
	return nil, fmt.Errorf("listen for gossip on %s: %w", at, err)
}

// settle finds the address that others are told, and all those that are ours.
func (m *Members) settle(ctx context.Context, c *memberlist.Config, t memberlist.NodeAwareTransport, bound *net.TCPAddr) error {
	m.port = strconv.Itoa(bound.Port)
	if m.cfg.Advertise != "" {
		a, err := oneAddress(ctx, m.cfg.resolve, m.cfg.Advertise, m.port)
		if err != nil {
			return fmt.Errorf("advertised address: %w", err)
		}
		c.AdvertiseAddr, c.AdvertisePort = a.IP.String(), a.Port
	}
	ip, port, err := t.FinalAdvertiseAddr(c.AdvertiseAddr, c.AdvertisePort)
	if err != nil {
		return err
	}
	if ip.IsUnspecified() {
		return fmt.Errorf("listen address %s: say which address others are to use (advertise)", m.cfg.Listen)
	}
	m.gossip = net.JoinHostPort(ip.String(), strconv.Itoa(port))
	m.own = map[string]bool{m.gossip: true, bound.String(): true}
	if bound.IP.IsUnspecified() {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				m.own[net.JoinHostPort(n.IP.String(), m.port)] = true
			}
		}
	}
	return nil
}

// netTransport is memberlist's, except that a dial ends with the membership.
type netTransport struct {
	*memberlist.NetTransport
	ctx context.Context
}

func (t netTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(t.ctx, "tcp", a.Addr)
}

// abandon ends a transport that no memberlist reads: without a reader its own
// end would wait for one.
func abandon(t memberlist.NodeAwareTransport) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.Shutdown()
	}()
	for {
		select {
		case <-t.PacketCh():
		case conn := <-t.StreamCh():
			_ = conn.Close()
		case <-done:
			return
		}
	}
}

// delegate is what memberlist calls. Members are reported under its lock, so
// nothing here waits; what it hands out is changed later, so it is copied.
type delegate struct {
	m    *Members
	meta []byte
}

func (d *delegate) NodeMeta(int) []byte             { return d.meta }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.alive(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.alive(n) }

func (d *delegate) alive(n *memberlist.Node) {
	m := d.m
	if n.Name == memberName(m.cfg.Self) {
		return
	}
	p := &peer{gossip: n.Address()}
	if p.member, p.err = decodeMember(n.Name, bytes.Clone(n.Meta)); p.err != nil {
		m.count.refused.WithLabelValues("meta").Inc()
	}
	m.mu.Lock()
	m.peers[n.Name] = p
	m.saw(p.gossip)
	m.mu.Unlock()
	m.poke()
}

func (d *delegate) NotifyLeave(n *memberlist.Node) {
	m := d.m
	m.mu.Lock()
	delete(m.peers, n.Name)
	m.saw(n.Address())
	m.mu.Unlock()
	m.poke()
}

func (d *delegate) AckPayload() []byte { return encodeClock(d.m.cfg.Now()) }

// NotifyPingComplete takes a reading of the other's clock, which was read when
// half of the round trip was over.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, payload []byte) {
	m := d.m
	middle := m.cfg.Boot() - rtt/2
	wall, ok := decodeClock(payload)
	if ok = ok && rtt >= 0; !ok {
		m.count.refused.WithLabelValues("clock").Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[n.Name]
	if p == nil {
		return
	}
	if ok {
		p.clocks.add(clockSample{ahead: wall - middle, rtt: rtt})
	}
	if !p.answered {
		p.answered = true
		m.poke()
	}
}
