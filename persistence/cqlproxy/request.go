package cqlproxy

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Request is a request with statements on its way to the server.
type Request struct {
	N          int // counts the requests with statements of a proxy, from 1
	Conn       int // counts its connections, from 1
	Stream     int16
	Op         frame.Opcode // QUERY, PREPARE, EXECUTE or BATCH
	Statements []string     // their texts; empty for one that was prepared past the proxy
	// Consistency of the request; of a conditional statement it is the level of
	// its commit. None in a PREPARE.
	Consistency frame.Consistency
	Body        []byte // of the frame, with all values; not to be changed
}

// Conditional: it runs, and with a condition: a lightweight transaction. A
// PREPARE runs nothing.
func (r Request) Conditional() bool {
	if r.Op == frame.OpPrepare {
		return false
	}
	for _, s := range r.Statements {
		if conditional(s) {
			return true
		}
	}
	return false
}

// Serial: a read that finishes what conditional statements left half done.
func (r Request) Serial() bool {
	return r.Consistency == frame.Serial || r.Consistency == frame.LocalSerial
}

// Mentions: one of the statements has this text in it.
func (r Request) Mentions(text string) bool {
	for _, s := range r.Statements {
		if strings.Contains(s, text) {
			return true
		}
	}
	return false
}

// Carries: the bytes are somewhere in it: a uuid, a text or a blob among its
// values.
func (r Request) Carries(value []byte) bool { return bytes.Contains(r.Body, value) }

var (
	// quoted is what may hold an IF without meaning it: strings, names in quotes,
	// comments.
	quoted = regexp.MustCompile(`(?s)'[^']*'|"[^"]*"|\$\$.*?\$\$|/\*.*?\*/|--[^\n]*|//[^\n]*`)
	writes = regexp.MustCompile(`(?i)^\s*(INSERT|UPDATE|DELETE|BEGIN)\b`)
	ifWord = regexp.MustCompile(`(?i)\bIF\b`)
)

// conditional tells a write with a condition from others by its text. CREATE and
// DROP have an IF too, and are none.
func conditional(statement string) bool {
	bare := quoted.ReplaceAllString(statement, " ")
	return writes.MatchString(bare) && ifWord.MatchString(bare)
}
