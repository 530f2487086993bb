package cassandra

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

func TestExternalHosts(t *testing.T) {
	for value, want := range map[string][]string{
		"":                         nil,
		" , ":                      nil,
		"10.0.0.1":                 {"10.0.0.1:9042"},
		"10.0.0.1:19042, db2:9142": {"10.0.0.1:19042", "db2:9142"},
		"::1,[::2]:9043":           {"[::1]:9042", "[::2]:9043"},
	} {
		t.Setenv(HostsVariable, value)
		var got []string
		if e := external(); e != nil {
			got = e.hosts
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", value, got, want)
		}
	}
}

// failing is a test that remembers how it failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatal(args ...any) {
	f.said = args[0].(error).Error()
	panic(f)
}

// A server that is not ours is used as it is, and every harm fails the test.
func TestExternalServer(t *testing.T) {
	t.Setenv(HostsVariable, speaker(t)+","+speaker(t))
	t.Setenv(DCVariable, "dc7")
	s, err := Open(t.Context(), Config{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	tb := &failing{TB: t}
	db := &Cluster{t: tb, server: s, touched: map[int]bool{}}
	if !db.External() || db.LocalDC() != "dc7" || len(db.Hosts()) != 2 || s.Dir() != "" {
		t.Errorf("external %v, %s, %v, %q", db.External(), db.LocalDC(), db.Hosts(), s.Dir())
	}
	for name, verb := range map[string]func(int){
		"kill": db.Kill, "stop": db.Stop, "pause": db.Pause, "resume": db.Resume, "restart": db.Restart,
		"log": func(i int) { db.Log(i) },
	} {
		tb.said = ""
		func() {
			defer func() { _ = recover() }()
			verb(0)
		}()
		if tb.said != ErrExternal.Error() {
			t.Errorf("%s: %q", name, tb.said)
		}
	}
	db.heal() // does nothing
	if err := s.Close(false); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), Config{Nodes: 3}); err == nil || !strings.Contains(err.Error(), "3 database nodes are needed") {
		t.Errorf("three of two: %v", err)
	}
}

func TestExternalAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(HostsVariable, l.Addr().String())
	l.Close()
	if _, err := Open(t.Context(), Config{Nodes: 1}); err == nil || !strings.Contains(err.Error(), HostsVariable) {
		t.Errorf("open: %v", err)
	}
	if err := (Config{}).Validate(); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("no nodes: %v", err)
	}
}

// speaker is a server that answers OPTIONS and STARTUP.
func speaker(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			speak(c)
		}
	}()
	return l.Addr().String()
}

func speak(c net.Conn) {
	defer c.Close()
	for {
		f, err := frame.Read(c)
		if err != nil {
			return
		}
		a := frame.Frame{Version: frame.Version, Answer: true, Stream: f.Stream, Opcode: frame.OpReady}
		if f.Opcode == frame.OpOptions {
			a.Opcode = frame.OpSupported
		}
		if a.Write(c) != nil {
			return
		}
	}
}
