// Package crontab reads a user's crontab as crontab(5) describes it: schedule
// and command a line, variables in between, % for the command's input. Whether
// a schedule makes sense is not judged here.
package crontab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// Entry is one line that runs a command.
type Entry struct {
	Line     int
	Schedule string            // five fields with single spaces, or a descriptor such as "@daily"
	Zone     string            // of the last CRON_TZ or TZ line above; "" when there was none
	Command  string            // up to the first unescaped %
	Stdin    string            // what follows the first unescaped %, with newlines for the others
	Env      map[string]string // variables set above the line, zones left out
}

// Problem is a line that cannot be imported.
type Problem struct {
	Line    int
	Text    string
	Message string
}

func (p *Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

// maxLine is far more than any cron reads.
const maxLine = 1 << 20

// Parse reads a crontab line by line and calls one of the two functions for
// each line that is neither blank nor a comment nor a variable. It stops at
// the first error that they return.
func Parse(r io.Reader, entry func(Entry) error, problem func(*Problem) error) error {
	p := parser{env: map[string]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		p.line++
		e, bad := p.read(lines.Text())
		var err error
		switch {
		case bad != nil:
			err = problem(bad)
		case e != nil:
			err = entry(*e)
		}
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return problem(&Problem{Line: p.line + 1, Message: fmt.Sprintf("it is longer than %d bytes; nothing after it was read", maxLine)})
	} else if err != nil {
		return fmt.Errorf("read crontab: %w", err)
	}
	return nil
}

// parser is what earlier lines mean for later ones.
type parser struct {
	line int
	zone string
	env  map[string]string
}

// read takes one line: nil, nil when it asks for no run.
func (p *parser) read(text string) (*Entry, *Problem) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return nil, nil
	}
	if name, value, ok := variable(text); ok {
		p.set(name, value)
		return nil, nil
	}
	schedule, command := split(text)
	switch {
	case strings.EqualFold(schedule, "@reboot"):
		return nil, p.problem(text, "@reboot has no due time: a scheduler that runs apart from the machine does not see it start; start that command from the machine's own service manager")
	case command == "":
		return nil, p.problem(text, "it has no command after its schedule; write five time fields, or a descriptor such as @daily, and then the command")
	}
	e := &Entry{Line: p.line, Schedule: schedule, Zone: p.zone, Env: maps.Clone(p.env)}
	e.Command, e.Stdin = percent(command)
	return e, nil
}

func (p *parser) problem(text, message string) *Problem {
	return &Problem{Line: p.line, Text: text, Message: message}
}

func (p *parser) set(name, value string) {
	if name == "CRON_TZ" || name == "TZ" {
		p.zone = strings.TrimPrefix(value, ":")
		return
	}
	p.env[name] = value
}

// variable takes NAME=value apart; either side may be quoted.
func variable(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(text, "=")
	if !ok {
		return "", "", false
	}
	name = unquote(strings.TrimSpace(name))
	if name == "" || strings.IndexFunc(name, notInName) >= 0 || name[0] >= '0' && name[0] <= '9' {
		return "", "", false
	}
	return name, unquote(strings.TrimSpace(value)), true
}

func notInName(r rune) bool {
	return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// split parts the schedule from the command: one word when it begins with @,
// else five.
func split(text string) (schedule, command string) {
	n := 5
	if text[0] == '@' {
		n = 1
	}
	fields := make([]string, 0, n)
	for range n {
		text = strings.TrimLeft(text, " \t")
		end := strings.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		fields = append(fields, text[:end])
		text = text[end:]
	}
	return strings.TrimSpace(strings.Join(fields, " ")), strings.TrimSpace(text)
}

// percent applies cron's rule for %: the first one ends the command, the
// others are newlines in its input, and \% is a percent sign.
func percent(text string) (command, stdin string) {
	var parts [2]strings.Builder
	at := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '%':
			parts[at].WriteByte('%')
			i++
		case c == '%' && at == 0:
			at = 1
		case c == '%':
			parts[at].WriteByte('\n')
		default:
			parts[at].WriteByte(c)
		}
	}
	return strings.TrimSpace(parts[0].String()), parts[1].String()
}
