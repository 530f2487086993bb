package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// dial opens a connection on which a test may write what it likes.
func (b *bundle) dial() net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.srv.Listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

func closeWrite(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// raw sends bytes and reads one answer.
func (b *bundle) raw(text string) response {
	b.t.Helper()
	conn := b.dial()
	if _, err := io.WriteString(conn, text); err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequest("GET", "/raw", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		b.t.Fatalf("%q: %v", text, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response{resp, b.t, string(body)}
}

func TestOldProtocolAndUnknownVerbs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if r := b.raw("GET /healthz HTTP/1.0\r\n\r\n").want(200); !strings.Contains(r.text, `"ok"`) {
		t.Errorf("HTTP/1.0: %s", r.text)
	}
	for _, verb := range []string{"BREW", "TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get"} {
		r := b.raw(verb + " /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		r.problem(api.CodeMethod)
		if got := strings.Join(r.Header.Values("Allow"), " "); got != "GET HEAD POST" {
			t.Errorf("%s: Allow %q", verb, got)
		}
	}
	b.do("DELETE", "/v1/jobs", "").problem(api.CodeMethod)
	b.do("GET", "/v1/jobs/", "").problem(api.CodeNoRoute)
	b.do("GET", "/v2/jobs", "").problem(api.CodeNoRoute)
	b.do("GET", "//v1/jobs", "").problem(api.CodeNoRoute)
	for _, bad := range []string{"GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"} {
		if r := b.raw(bad); r.StatusCode < 400 || r.StatusCode >= 600 {
			t.Errorf("%q: %d", bad, r.StatusCode)
		}
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	get, head := b.do("GET", "/v1/jobs/a", "").want(200), b.do("HEAD", "/v1/jobs/a", "").want(200)
	if head.text != "" || head.Header.Get("ETag") != get.Header.Get("ETag") {
		t.Errorf("HEAD: %q, %v", head.text, head.Header)
	}
	if r := b.do("HEAD", "/v1/jobs/none", ""); r.StatusCode != 404 {
		t.Errorf("HEAD of nothing: %d", r.StatusCode)
	}
	if r := b.do("HEAD", "/v1/events", ""); r.StatusCode != 405 {
		t.Errorf("HEAD of a stream: %d", r.StatusCode)
	}
}

// A client that sends its head, or its body, byte by byte is cut off.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := NewServer("", b.gw.Handler())
	if slow.ReadHeaderTimeout != 5*time.Second || slow.ReadTimeout != 15*time.Second || slow.IdleTimeout != time.Minute || slow.WriteTimeout == 0 || slow.MaxHeaderBytes != 16<<10 {
		t.Errorf("server %+v", slow)
	}
	slow.ReadHeaderTimeout, slow.ReadTimeout = 50*time.Millisecond, 100*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- slow.Serve(l) }()
	for _, begin := range []string{
		"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(conn) // ends only because the server ends it
		if strings.HasPrefix(begin, "POST") && !strings.Contains(string(text), api.CodeRequestTimeout) {
			t.Errorf("a slow body was answered %q", text)
		}
		_ = conn.Close()
	}
	_ = slow.Close()
	<-served
}

func TestHeadersThatAreTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
	if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", r.StatusCode)
	}
}

func TestBodyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	big := spec(`"description":"` + strings.Repeat("x", 10<<20) + `"`)
	b.do("POST", "/v1/jobs", big).problem(api.CodeTooLarge)
	r := b.raw(fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", DefaultBody+1, strings.Repeat(" ", DefaultBody+1)))
	r.problem(api.CodeTooLarge)
	b.raw("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n").problem(api.CodeTooLarge)
}

func TestAPageOfAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.do("POST", "/v1/jobs/a/trigger", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").problem(api.CodeCrossOrigin)
	b.do("DELETE", "/v1/jobs/a", "", "Sec-Fetch-Site", "same-site").problem(api.CodeCrossOrigin)
	b.do("GET", "/v1/jobs/a", "", "Sec-Fetch-Site", "cross-site").want(200)
	b.do("POST", "/v1/jobs/a/trigger", "", "Sec-Fetch-Site", "same-origin").want(202)
}

func TestListenAddresses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, "127.9.9.9:0": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:80": false, ":80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false, "localhost.evil.example:80": false,
		"127.0.0.1": false, "": false,
	} {
		if err := CheckListen(addr, false); (err == nil) != want {
			t.Errorf("%q: %v", addr, err)
		}
	}
	err := CheckListen("0.0.0.0:8380", false)
	if err == nil || !strings.Contains(err.Error(), "--insecure-no-auth") || CheckListen("0.0.0.0:8380", true) != nil || CheckListen("nonsense", true) == nil {
		t.Errorf("the way out: %v", err)
	}
}

func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	from := func(addr string) net.Conn { return &fakeConn{addr: addr} }
	feed := &fakeListener{conns: []net.Conn{from("192.0.2.1:1"), from("192.0.2.1:2"), from("192.0.2.1:3"), from("192.0.2.2:1"), from("127.0.0.1:1"), from("[::ffff:192.0.2.1]:9")}}
	limited := LimitConns(feed, 2)
	var got []net.Conn
	for {
		c, err := limited.Accept()
		if err != nil {
			break
		}
		got = append(got, c)
	}
	if len(got) != 4 {
		t.Fatalf("%d connections were let in", len(got))
	}
	for range 2 {
		_ = got[0].Close() // twice: its place is given back once
	}
	feed.conns = []net.Conn{from("192.0.2.1:4"), from("192.0.2.1:5")}
	if c, err := limited.Accept(); err != nil || c.RemoteAddr().String() != "192.0.2.1:4" {
		t.Errorf("after one was closed: %v, %v", c, err)
	}
	if c, err := limited.Accept(); err == nil {
		t.Errorf("a third one was let in: %v", c.RemoteAddr())
	}
}

type fakeListener struct {
	net.Listener
	conns []net.Conn
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, io.EOF
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

type fakeConn struct {
	net.Conn
	addr string
}

func (c *fakeConn) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.addr)
	if err != nil {
		panic(err)
	}
	return a
}

func (c *fakeConn) Close() error { return nil }
