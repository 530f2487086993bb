package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// wire is a connection that speaks just enough HTTP/1.1 to load a server
// without taking its processor away: one request at a time, written from a
// buffer that is used again, and an answer of which only the status is kept.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	head []byte // request line and headers that do not change
	out  []byte
}

// dialWire connects for requests of one kind.
func dialWire(ctx context.Context, server, method, path string) (*wire, error) {
	base, err := url.Parse(server)
	if err != nil || base.Scheme != "http" {
		return nil, fmt.Errorf("the load generator speaks plain http, and %q is something else", server)
	}
	host := base.Host
	if base.Port() == "" {
		host = net.JoinHostPort(base.Hostname(), "80")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n", method, base.Path+path, base.Host)
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), head: []byte(head)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// do sends a request and reads the status of its answer. The body is returned
// only when the answer is no success.
func (w *wire) do(key string, body []byte) (status int, problem []byte, err error) {
	w.out = append(w.out[:0], w.head...)
	if key != "" {
		w.out = append(append(append(w.out, "Idempotency-Key: "...), key...), "\r\n"...)
	}
	w.out = strconv.AppendInt(append(w.out, "Content-Length: "...), int64(len(body)), 10)
	w.out = append(append(w.out, "\r\n\r\n"...), body...)
	if err := w.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, nil, err
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return 0, nil, err
	}
	return w.answer()
}

func (w *wire) answer() (status int, problem []byte, err error) {
	status, err = w.status()
	if err != nil {
		return 0, nil, err
	}
	length, chunked, err := w.headers()
	if err != nil {
		return 0, nil, err
	}
	var keep io.Writer = io.Discard
	var text bytes.Buffer
	if status >= 300 {
		keep = &text
	}
	if chunked {
		err = w.chunks(keep)
	} else {
		_, err = io.CopyN(keep, w.in, length)
	}
	return status, text.Bytes(), err
}

var errAnswer = errors.New("the answer is not HTTP/1.1")

func (w *wire) status() (int, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errAnswer
	}
	return strconv.Atoi(string(line[9:12]))
}

// headers reads to the empty line, and what it says of the body.
func (w *wire) headers() (length int64, chunked bool, err error) {
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, chunked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
				return 0, false, errAnswer
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	}
}

func (w *wire) chunks(keep io.Writer) error {
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return errAnswer
		}
		if _, err := io.CopyN(keep, w.in, size); err != nil {
			return err
		}
		if _, err := w.in.Discard(2); err != nil || size == 0 {
			return err
		}
	}
}
