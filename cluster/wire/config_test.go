package wire

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	files := TLS{CA: "ca", Cert: "cert", Key: "key"}
	for _, tt := range []struct {
		name      string
		cfg       Config
		advertise string // "": that of the listener
		err       string // part of it; "": none
	}{
		{"loopback", Config{Listen: "127.0.0.1:7947"}, "", ""},
		{"loopback 6", Config{Listen: "[::1]:7947"}, "", ""},
		{"loopback name", Config{Listen: "localhost:7947"}, "", ""},
		{"mapped loopback", Config{Listen: "[::ffff:127.0.0.2]:7947"}, "", ""},
		{"advertised host", Config{Listen: "127.0.0.1:7947", Advertise: "127.0.0.2"}, "127.0.0.2:7947", ""},
		{"advertised host 6", Config{Listen: "[::1]:7947", Advertise: "::1"}, "[::1]:7947", ""},
		{"advertised port", Config{Listen: "127.0.0.1:7947", Advertise: "127.0.0.2:80"}, "127.0.0.2:80", ""},
		{"advertised port 0", Config{Listen: "127.0.0.1:7947", Advertise: "127.0.0.2:0"}, "127.0.0.2:7947", ""},
		{"off loopback", Config{Listen: "10.0.0.1:7947"}, "", "--cluster-insecure"},
		{"off loopback, half of TLS", Config{Listen: "10.0.0.1:7947", TLS: TLS{CA: "ca"}}, "", "--cluster-key"},
		{"off loopback, TLS", Config{Listen: "10.0.0.1:7947", TLS: files}, "", ""},
		{"off loopback, insecure", Config{Listen: "10.0.0.1:7947", Insecure: true}, "", ""},
		{"name that is not loopback", Config{Listen: "node-1:7947"}, "", "--cluster-ca"},
		{"advertised off loopback", Config{Listen: "127.0.0.1:7947", Advertise: "10.0.0.1"}, "", "10.0.0.1:7947 is not a loopback"},
		{"all addresses", Config{Listen: ":7947", Advertise: "127.0.0.1"}, "", ":7947 is not a loopback"},
		{"all addresses, not advertised", Config{Listen: "0.0.0.0:7947", TLS: files}, "", "--advertise"},
		{"all addresses 6, not advertised", Config{Listen: "[::]:7947", TLS: files}, "", "--advertise"},
		{"no port", Config{Listen: "127.0.0.1"}, "", "host:port"},
		{"port too large", Config{Listen: "127.0.0.1:65536"}, "", "port number"},
		{"no advertised host", Config{Listen: "127.0.0.1:7947", Advertise: ":80"}, "", "advertised address"},
		{"bad advertised port", Config{Listen: "127.0.0.1:7947", Advertise: "a:b"}, "", "advertised address"},
		{"long name", Config{Listen: "127.0.0.1:7947", Cluster: strings.Repeat("x", 256)}, "", "256 bytes"},
	} {
		if tt.cfg.Cluster == "" {
			tt.cfg.Cluster = "test"
		}
		e, err := tt.cfg.check()
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.err)
		case err == nil && e.advertise != tt.advertise:
			t.Errorf("%s: advertises %q, want %q", tt.name, e.advertise, tt.advertise)
		}
	}
	if _, err := (Config{Listen: "127.0.0.1:7947"}).check(); err == nil {
		t.Error("a cluster without a name was accepted")
	}
}

// Without TLS nothing is sent off the machine, whatever addresses PIDs hold.
func TestPlaintextStays(t *testing.T) {
	a := start(t, plain)
	r := a.tell(order{Op: "request", Address: "192.0.2.1:7947", ID: "echo", N: 1, Timeout: patience})
	if m := a.stats().Metrics; r.Dead != 1 || m["connects_total{failed}"] != 0 {
		t.Errorf("%+v, metrics %v", r, m)
	}
}

func TestPortTaken(t *testing.T) {
	a := start(t, plain)
	_, r := launch(t, plain.with(func(c *nodeConfig) { c.Listen = a.address }))
	if !strings.Contains(r.Error, a.address) || !strings.Contains(r.Error, "in use") {
		t.Errorf("error %q", r.Error)
	}
}

func TestUnreadableFiles(t *testing.T) {
	_, err := prepare(quietSystem(), Config{Listen: "127.0.0.1:0", Cluster: "test", TLS: TLS{CA: "no/ca", Cert: "no/cert", Key: "no/key"}})
	if err == nil || !strings.Contains(err.Error(), "no/cert") {
		t.Errorf("error %v", err)
	}
}

// A node on a free port says which one, also when it advertises another host.
func TestFreePort(t *testing.T) {
	a := start(t, plain.with(func(c *nodeConfig) { c.Listen, c.Advertise = ownHost+":0", ownHost }))
	b := start(t, plain.with(func(c *nodeConfig) { c.Listen = "[::1]:0" }))
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		if r := way[0].request(way[1], 1, 0); r.OK != 1 {
			t.Errorf("%s to %s: %+v", way[0].address, way[1].address, r)
		}
	}
}
