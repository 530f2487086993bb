package execution

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// names is a resolver whose answers are given by the test: for each name the
// addresses of the first lookup, of the second, and so on.
func names(t *testing.T, zone map[string][][]string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		asked := map[string]int{}
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerDNS(buf[:n], zone, asked); err == nil {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func answerDNS(query []byte, zone map[string][][]string, asked map[string]int) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	rounds := zone[strings.TrimSuffix(q.Name.String(), ".")]
	key := q.Name.String() + q.Type.String()
	m.Header.Response, m.Additionals = true, nil
	if len(rounds) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	for _, text := range rounds[min(asked[key], len(rounds)-1)] {
		a := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	asked[key]++
	return m.Pack()
}

func TestNamesAreJudgedByEveryAddress(t *testing.T) {
	reached := make(chan string, 10)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { reached <- r.Host })
	port := url[strings.LastIndexByte(url, ':'):]
	resolver := names(t, map[string][][]string{
		"loopback.example": {{"127.0.0.1"}},
		"six.example":      {{"::1"}},
		"mapped.example":   {{"::ffff:127.0.0.1"}},
		"private.example":  {{"10.0.0.1"}},
		"metadata.example": {{"169.254.169.254"}},
		"mixed.example":    {{"127.0.0.1", "10.0.0.1"}},
		"nothing.example":  {{}},
	})
	onlyFour := allow("127.0.0.0/8")
	for _, c := range []struct {
		policy job.AddressPolicy
		name   string
		ok     bool
	}{
		{onlyFour, "loopback.example", true},
		{onlyFour, "six.example", false},
		{onlyFour, "mixed.example", false},
		{onlyFour, "private.example", false},
		{onlyFour, "nothing.example", false},
		{onlyFour, "nobody.example", false},
		{job.AddressPolicy{AllowPlainHTTP: true}, "loopback.example", false},
		{job.AddressPolicy{AllowPlainHTTP: true}, "six.example", false},
		{job.AddressPolicy{AllowPlainHTTP: true}, "mapped.example", false},
		{job.AddressPolicy{AllowPlainHTTP: true}, "private.example", false},
		{job.AddressPolicy{AllowPlainHTTP: true}, "metadata.example", false},
	} {
		client := target(t, func(cfg *TargetConfig) { cfg.Guard = NewGuard(c.policy, resolver) })
		r := client.Deliver(t.Context(), delivery("http://"+c.name+port), 1, unbroken)
		if (r.GetOutcome() == succeededOutcome) != c.ok {
			t.Errorf("%s: %v", c.name, r)
		}
		if c.ok {
			<-reached
			continue
		}
		if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 || strings.Contains(r.GetError(), "on 127.0.0.1:") {
			t.Errorf("%s: %v", c.name, r)
		}
	}
	if len(reached) != 0 {
		t.Errorf("%d calls reached the inside", len(reached))
	}
}

// C88: the check at registration saw a public address, and by the time of the call
// the name means another.
func TestRebindingIsSeenAtTheDial(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a call reached the inside") })
	resolver := names(t, map[string][][]string{"rebind.example": {{"93.184.215.14"}, {"127.0.0.1"}}})
	policy := job.AddressPolicy{AllowPlainHTTP: true}
	target := target(t, func(cfg *TargetConfig) { cfg.Guard = NewGuard(policy, resolver) })
	if _, err := resolver.LookupNetIP(t.Context(), "ip", "rebind.example"); err != nil {
		t.Fatal(err)
	}
	r := target.Deliver(t.Context(), delivery("http://rebind.example"+url[strings.LastIndexByte(url, ':'):]), 1, unbroken)
	if r.GetOutcome() != failedOutcome || !strings.Contains(r.GetError(), "--allow-targets") {
		t.Errorf("result %v", r)
	}
}

// Also an address that no lookup was made for is judged, at the socket.
func TestEveryDialIsJudged(t *testing.T) {
	dial := NewGuard(job.AddressPolicy{AllowPlainHTTP: true}, nil).dialer(false)
	for _, address := range []string{
		"127.0.0.1:443", "127.8.9.10:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443", "0.0.0.0:443", "[::]:443",
		"10.0.0.1:443", "172.16.0.1:443", "192.168.0.1:443", "100.64.0.1:443", "169.254.169.254:443", "[::ffff:169.254.169.254]:443", "[fd00:ec2::254]:443",
		"168.63.129.16:443", "[fe80::1]:443", "[fe80::1%lo]:443", "224.0.0.1:443", "255.255.255.255:443", "8.8.8.8:22", "8.8.8.8:0", "localhost:443",
	} {
		conn, err := dial(t.Context(), "tcp", address)
		if conn != nil || !errors.Is(err, job.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestControlAloneRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	d := NewGuard(job.AddressPolicy{}, nil).netDialer(false)
	conn, err := d.DialContext(t.Context(), "tcp", listener.Addr().String())
	if conn != nil || !errors.Is(err, job.ErrAddress) {
		t.Errorf("the socket was connected: %v", err)
	}
}

func TestPlainHTTPNeedsAnAllowedAddress(t *testing.T) {
	resolver := names(t, map[string][][]string{"public.example": {{"93.184.215.14"}}})
	dial := NewGuard(allow("10.0.0.0/8"), resolver).dialer(true)
	if _, err := dial(t.Context(), "tcp", "public.example:80"); !errors.Is(err, job.ErrAddress) || !strings.Contains(err.Error(), "https") {
		t.Errorf("err = %v", err)
	}
}

func TestOwnAddressesAreNeverCalled(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a call reached this node itself") })
	own := netip.MustParseAddrPort(strings.TrimPrefix(url, "http://"))
	policy := job.DevPolicy()
	policy.Deny = []netip.AddrPort{own}
	client := target(t, func(cfg *TargetConfig) {
		cfg.Guard = NewGuard(policy, names(t, map[string][][]string{"me.example": {{"127.0.0.1"}}}))
	})
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "me.example"} {
		r := client.Deliver(t.Context(), delivery("http://"+host+url[strings.LastIndexByte(url, ':'):]), 1, unbroken)
		if r.GetOutcome() != failedOutcome || !strings.Contains(r.GetError(), "Belfry itself") {
			t.Errorf("%s: %v", host, r)
		}
	}
}

func TestOwnAddrsExpandsWildcards(t *testing.T) {
	own, err := OwnAddrs(netip.MustParseAddrPort("0.0.0.0:8080"), netip.MustParseAddrPort("192.0.2.1:9000"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, a := range own {
		found[a.String()] = true
	}
	if !found["127.0.0.1:8080"] || !found["0.0.0.0:8080"] || !found["192.0.2.1:9000"] || found["127.0.0.1:9000"] {
		t.Errorf("own addresses %v", own)
	}
}

// A silent address does not use up the time of those after it.
func TestDialsShareTheTime(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	good := netip.MustParseAddrPort(strings.TrimPrefix(url, "http://"))
	refused := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), good.Port())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := dialFirst(ctx, &net.Dialer{}, "tcp", []netip.AddrPort{refused, good})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := dialFirst(ctx, &net.Dialer{}, "tcp", nil); err == nil {
		t.Error("a connection to nowhere")
	}
}

// What was legal when a job was registered may not be any more.
func TestThePolicyOfTodayDecides(t *testing.T) {
	client := target(t, func(cfg *TargetConfig) { cfg.Guard = NewGuard(job.AddressPolicy{}, nil) })
	for _, url := range []string{"http://example.com/", "https://127.0.0.1/", "https://2130706433/"} {
		r := client.Deliver(t.Context(), delivery(url), 1, unbroken)
		if r.GetOutcome() != belfryv1.Result_OUTCOME_FAILED || r.GetSentAt() != 0 {
			t.Errorf("%s: %v", url, r)
		}
	}
}
