package execution

import (
	"cmp"
	"net"
	"net/url"
	"sync"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// knownPlaces is how many URLs are remembered.
const knownPlaces = 1024

// place is what a URL says about where and how to call.
type place struct {
	refused error  // by the policy, as far as the URL shows
	plain   bool   // http, not https
	key     string // connections to the same key are the same
	address string // to dial: host and port
	name    string // in the target's certificate
	line    string // of a request, behind the method
}

// places remembers what URLs say: a job calls the same one each time, and the
// policy never changes. What a name means is not remembered here.
type places struct {
	policy job.AddressPolicy
	mu     sync.Mutex
	known  map[string]*place
}

func (p *places) of(raw string) *place {
	p.mu.Lock()
	to := p.known[raw]
	p.mu.Unlock()
	if to != nil {
		return to
	}
	to = p.read(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= knownPlaces {
		p.known = map[string]*place{}
	}
	p.known[raw] = to
	return to
}

func (p *places) read(raw string) *place {
	if refused := p.policy.CheckURL("target.http.url", raw); refused != nil {
		return &place{refused: refused}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return &place{refused: err}
	}
	to := &place{plain: u.Scheme == "http", name: u.Hostname()}
	port := "443"
	if to.plain {
		port = "80"
	}
	to.address = net.JoinHostPort(to.name, cmp.Or(u.Port(), port))
	to.key = u.Scheme + "://" + to.address
	to.line = " " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n"
	return to
}
