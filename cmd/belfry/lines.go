package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

// happening is an event as a line on the terminal.
type happening struct {
	at      time.Time
	job     string
	kind    string // execution.succeeded, …
	attempt int
	late    time.Duration
	reason  string
	catchUp bool // a slot that was missed, run afterwards
}

// Colours of outcomes, as ANSI escapes.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	grey   = "\x1b[90m"
	plain  = "\x1b[0m"
)

// eventLine is one event in columns: when, which job, what, how late, why.
func eventLine(h happening, colour bool) string {
	word := strings.TrimPrefix(h.kind, "execution.")
	outcome := fmt.Sprintf("%-10s", word)
	if colour {
		outcome = colourOf(word) + outcome + plain
	}
	rest := ""
	if strings.HasPrefix(h.kind, "execution.") && h.attempt > 0 {
		rest = fmt.Sprintf("%7s late  attempt %d", ms(h.late), h.attempt)
	}
	if h.catchUp {
		rest += "  catch-up"
	}
	if h.reason != "" {
		rest += "  " + output.Printable(h.reason)
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-20s  %s  %s", h.at.Local().Format("15:04:05.000"), output.Printable(h.job), outcome, rest), " ")
}

func colourOf(word string) string {
	switch word {
	case "succeeded":
		return green
	case "retrying", "skipped", "missed", "cancelled":
		return yellow
	case "failed":
		return red
	}
	return grey
}
