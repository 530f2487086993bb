package cqlproxy_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// fixture is a proxy in front of a recorded server, and a driver's connection
// that has prepared the conditional insert and can execute it.
type fixture struct {
	server *replay
	proxy  *cqlproxy.Proxy
	wire   wire
	lwt    frame.Frame
}

const firstInsert = "VALUES (?, ?, ?, ?) IF NOT EXISTS"

func setup(t *testing.T) *fixture {
	f := &fixture{server: newReplay(t)}
	f.proxy = cqlproxy.Start(t, f.server.listener.Addr().String())
	f.wire = dial(t, f.proxy)
	f.wire.send(prepare(t, firstInsert), 1)
	id, ok := frame.PreparedID(f.wire.hears(1, frame.OpResult))
	if !ok {
		t.Fatal("not prepared")
	}
	f.lwt = find(t, frame.OpExecute, []byte(id))
	return f
}

// ruled is setup with an action for conditional statements, and when it was done.
func ruled(t *testing.T, a cqlproxy.Action) (*fixture, <-chan struct{}) {
	f := setup(t)
	done := make(chan struct{})
	f.proxy.Decide(cqlproxy.Once(cqlproxy.Request.Conditional, a.Then(func() { close(done) })))
	return f, done
}

func TestPass(t *testing.T) {
	f, done := ruled(t, cqlproxy.Pass())
	f.wire.send(f.lwt, 7)
	f.wire.hears(7, frame.OpResult)
	within(t, done)
}

// The server has executed it, and the driver hears only of what it asks next.
func TestSwallow(t *testing.T) {
	f, done := ruled(t, cqlproxy.Swallow())
	f.wire.send(f.lwt, 7)
	within(t, done)
	f.wire.send(frame.Options(), 8)
	f.wire.hears(8, frame.OpSupported)
	if n := f.server.executed(frame.OpExecute); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// Other answers go past one that is held back, and it still comes.
func TestDelay(t *testing.T) {
	const d = 50 * time.Millisecond
	f, done := ruled(t, cqlproxy.Delay(d))
	start := time.Now()
	f.wire.send(f.lwt, 7)
	f.wire.send(frame.Options(), 8)
	f.wire.hears(8, frame.OpSupported)
	f.wire.hears(7, frame.OpResult)
	if took := time.Since(start); took < d {
		t.Errorf("held back for %v", took)
	}
	within(t, done)
}

func TestDrop(t *testing.T) {
	f, done := ruled(t, cqlproxy.Drop())
	f.wire.send(f.lwt, 7)
	within(t, done)
	f.wire.send(frame.Options(), 8)
	f.wire.hears(8, frame.OpSupported)
	if n := f.server.executed(frame.OpExecute); n != 0 {
		t.Errorf("executed %d times", n)
	}
}

func TestCut(t *testing.T) {
	f, done := ruled(t, cqlproxy.Cut())
	f.wire.send(f.lwt, 7)
	if got, err := frame.Read(f.wire); !errors.Is(err, io.EOF) {
		t.Errorf("heard %v, %v", got, err)
	}
	within(t, done)
	if n := f.server.executed(frame.OpExecute); n != 1 {
		t.Errorf("executed %d times", n)
	}
	again := dial(t, f.proxy) // new connections are welcome
	again.send(f.lwt, 9)
	again.hears(9, frame.OpResult)
}

func TestErrors(t *testing.T) {
	level := frame.LocalQuorum
	for name, c := range map[string]struct {
		action   cqlproxy.Action
		code     int32
		executed int
	}{
		"write timeout":     {cqlproxy.Replace(cqlproxy.WriteTimeout(level, 1, 2, cqlproxy.WriteCAS)), frame.CodeWriteTimeout, 1},
		"cas write unknown": {cqlproxy.Replace(cqlproxy.CASWriteUnknown(level, 1, 2)), frame.CodeCASWriteUnknown, 1},
		"read timeout":      {cqlproxy.Replace(cqlproxy.ReadTimeout(level, 1, 2)), frame.CodeReadTimeout, 1},
		"unavailable":       {cqlproxy.Refuse(cqlproxy.Unavailable(level, 2, 1)), frame.CodeUnavailable, 0},
		"overloaded":        {cqlproxy.Refuse(cqlproxy.Overloaded()), frame.CodeOverloaded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, done := ruled(t, c.action)
			f.wire.send(f.lwt, 7)
			e := frame.ParseError(f.wire.hears(7, frame.OpError))
			if e.Code != c.code {
				t.Errorf("heard %v", e)
			}
			within(t, done)
			if n := f.server.executed(frame.OpExecute); n != c.executed {
				t.Errorf("executed %d times, want %d", n, c.executed)
			}
		})
	}
}

// What the rule is told about each kind of request.
func TestRequests(t *testing.T) {
	f := setup(t)
	f.wire.send(prepare(t, "IF epoch=?"), 2)
	f.wire.hears(2, frame.OpResult)
	f.wire.send(prepare(t, "(p, c, v) VALUES (?"), 2)
	f.wire.hears(2, frame.OpResult)
	var got []cqlproxy.Request
	f.proxy.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		got = append(got, r)
		return cqlproxy.Refuse(cqlproxy.Overloaded())
	})
	batch := find(t, frame.OpBatch, nil)
	for _, r := range []frame.Frame{frame.Query("SELECT 1", frame.LocalSerial), f.lwt, batch, prepare(t, firstInsert)} {
		f.wire.send(r, 3)
		f.wire.hears(3, frame.OpError)
	}
	if len(got) != 4 || f.proxy.Requests() != 7 {
		t.Fatalf("%d requests, %d in all", len(got), f.proxy.Requests())
	}
	query, execute, many, prep := got[0], got[1], got[2], got[3]
	if query.Op != frame.OpQuery || query.N != 4 || query.Conditional() || !query.Serial() || !query.Mentions("SELECT") {
		t.Errorf("query: %+v", query)
	}
	if execute.Op != frame.OpExecute || !execute.Conditional() || execute.Serial() || !execute.Carries([]byte("it's")) {
		t.Errorf("execute: %+v", execute)
	}
	if many.Op != frame.OpBatch || !many.Conditional() || len(many.Statements) != 3 || many.Consistency != frame.LocalQuorum {
		t.Errorf("batch: %+v", many)
	}
	if prep.Op != frame.OpPrepare || prep.Conditional() {
		t.Errorf("prepare: %+v", prep)
	}
}

func TestConditional(t *testing.T) {
	for statement, want := range map[string]bool{
		"INSERT INTO t (p) VALUES (?) IF NOT EXISTS":                           true,
		"update t set a=? where p=? if a=?":                                    true,
		"DELETE FROM t WHERE p=? IF EXISTS":                                    true,
		"BEGIN UNLOGGED BATCH UPDATE t SET a=1 WHERE p=1 IF a=2; APPLY BATCH;": true,
		"UPDATE t SET a='IF b=1' WHERE p=1":                                    false,
		"UPDATE t SET a='it''s IF' WHERE p=1":                                  false,
		`UPDATE t SET "IF"=1 WHERE p=1`:                                        false,
		"UPDATE t SET a=$$ IF $$ WHERE p=1":                                    false,
		"UPDATE t SET a=1 /* IF a=2 */ WHERE p=1 -- IF a=2":                    false,
		"UPDATE t SET notif=1 WHERE p=1":                                       false,
		"CREATE TABLE IF NOT EXISTS t (p int PRIMARY KEY)":                     false,
		"SELECT a FROM t":                                                      false,
		"":                                                                     false,
	} {
		r := cqlproxy.Request{Op: frame.OpQuery, Statements: []string{statement}}
		if r.Conditional() != want {
			t.Errorf("%s: conditional is %v", statement, !want)
		}
	}
}
