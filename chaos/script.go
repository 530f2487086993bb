package chaos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// Script is how a target answers. It is in the query of its URL, so that each job
// has its own.
type Script struct {
	After  time.Duration // before it answers
	Status int           // 0: 200
	UpTo   int           // only attempts up to this number are answered so, later ones at once with 200; 0: all
	Hang   bool          // it never answers
	Reset  bool          // it does its work, and then the connection breaks
	Body   int           // bytes of the answer
	To     string        // it redirects there
}

func (s Script) query() string {
	q := url.Values{}
	set := func(name string, is bool, value string) {
		if is {
			q.Set(name, value)
		}
	}
	set("after", s.After > 0, s.After.String())
	set("status", s.Status > 0, strconv.Itoa(s.Status))
	set("up_to", s.UpTo > 0, strconv.Itoa(s.UpTo))
	set("hang", s.Hang, "1")
	set("reset", s.Reset, "1")
	set("body", s.Body > 0, strconv.Itoa(s.Body))
	set("to", s.To != "", s.To)
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// scriptOf is the script of a delivery's attempt. What cannot be read is as if it
// were not there: scripts are made by At.
func scriptOf(r *http.Request) Script {
	if r.URL.RawQuery == "" {
		return Script{}
	}
	q := r.URL.Query()
	number := func(name string) int { n, _ := strconv.Atoi(q.Get(name)); return n }
	after, _ := time.ParseDuration(q.Get("after"))
	s := Script{
		After: after, Status: number("status"), UpTo: number("up_to"), Hang: q.Has("hang"), Reset: q.Has("reset"),
		Body: number("body"), To: q.Get("to"),
	}
	if attempt, _ := strconv.Atoi(r.Header.Get("Belfry-Attempt")); s.UpTo > 0 && attempt > s.UpTo {
		return Script{}
	}
	return s
}

// play answers, and returns the status that the caller has seen; 0: none.
func (s Script) play(w http.ResponseWriter, r *http.Request) int {
	if s.After > 0 || s.Hang {
		var over <-chan time.Time
		if !s.Hang {
			over = time.After(s.After)
		}
		select {
		case <-over:
		case <-r.Context().Done():
			return 0
		}
	}
	if s.Reset {
		reset(w)
		return 0
	}
	status := s.Status
	if status == 0 {
		status = http.StatusOK
	}
	if s.To != "" {
		status = http.StatusFound
		w.Header().Set("Location", s.To)
	}
	w.WriteHeader(status)
	for left := s.Body; left > 0; left -= len(filler) {
		if _, err := w.Write(filler[:min(left, len(filler))]); err != nil {
			break // the caller has read enough: it has the status
		}
	}
	return status
}

var filler = []byte(strings.Repeat("x", 64<<10))

// reset breaks the connection as a machine does that is gone.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// signature checks one of Standard Webhooks: a base64 HMAC-SHA256 of id, timestamp
// and body. There may be several, of secrets old and new.
func signature(secret []byte, h http.Header, body []byte) check.Signature {
	given := strings.Fields(h.Get("Webhook-Signature"))
	if len(given) == 0 {
		return check.Unsigned
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for _, one := range given {
		version, text, _ := strings.Cut(one, ",")
		sum, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil && hmac.Equal(sum, want) {
			return check.Verified
		}
	}
	return check.Forged
}
