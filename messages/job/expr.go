package job

import (
	"strings"
	"time"
	"unicode/utf8"
)

// maxExprLen bounds what is parsed at all. The longest useful expression
// lists all minutes of an hour and stays well under it.
const maxExprLen = 1024

// The three shapes of a schedule expression.
type exprKind uint8

const (
	kindCron exprKind = iota
	kindEvery
	kindOnce
)

// expression is Timing.Expr after parsing, before zone and bounds.
type expression struct {
	kind   exprKind
	fields [6]string // kindCron: second … day of week in lower case, the second "0" when not written
	cron   cronFields
	every  time.Duration
	at     time.Time
}

// descriptors are the shorthands, as crontab(5) defines them.
var descriptors = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

const descriptorList = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or \"@every 10m\""

// parseExpr decides which of the three shapes an expression has and parses
// it. Every refusal is about schedule_expr.
func parseExpr(t Timing) (expression, *Invalid) {
	if bad := checkText(t.Expr); bad != nil {
		return expression{}, bad
	}
	text := strings.Trim(t.Expr, " \t")
	switch {
	case text == "":
		return expression{}, refuseExpr(`is empty; write a cron expression such as "0 6 * * *", %s, or one RFC 3339 instant`, descriptorList)
	case strings.Contains(text, "="):
		// robfig/cron#470: the library panics on a prefix without fields.
		return expression{}, refuseExpr(`%s carries a zone or a setting; an expression has none, so that a job has one zone only: put the IANA name in "time_zone" and leave the fields here`, quote(text))
	case text[0] == '@':
		return parseDescriptor(text)
	case looksLikeInstant(text):
		at, bad := parseInstant(text)
		return expression{kind: kindOnce, at: at}, bad
	}
	return parseCron(text, t.Seconds)
}

// checkText refuses what no expression can contain, so that later messages
// may quote the text safely.
func checkText(text string) *Invalid {
	if len(text) > maxExprLen {
		return refuseExpr("is %d bytes long and at most %d are read; split it into several jobs, or use ranges and steps instead of long lists", len(text), maxExprLen)
	}
	if !utf8.ValidString(text) {
		return refuseExpr("is not valid UTF-8; write it in plain ASCII")
	}
	for i, r := range text {
		if r == '\t' || r >= ' ' && r <= '~' {
			continue
		}
		return refuseExpr("has the character %U at byte %d, which looks like nothing a schedule uses; write it in plain ASCII on one line", r, i+1)
	}
	return nil
}

func parseDescriptor(text string) (expression, *Invalid) {
	lower := strings.ToLower(text)
	word, rest, _ := strings.Cut(strings.ReplaceAll(lower, "\t", " "), " ")
	if cron, ok := descriptors[lower]; ok {
		return parseCron(cron, false)
	}
	switch word {
	case "@every":
		every, bad := parseEvery(strings.TrimSpace(rest))
		return expression{kind: kindEvery, every: every}, bad
	case "@reboot":
		return expression{}, refuseExpr("@reboot means the start of one machine, and a job belongs to none; use %s", descriptorList)
	}
	return expression{}, refuseExpr("%s is not a shorthand that exists; use %s", quote(text), descriptorList)
}

// refuseExpr makes the refusal of an expression.
func refuseExpr(format string, args ...any) *Invalid {
	return Refuse("schedule_expr", format, args...)
}

// quote shows user text in a message: in quotes, and cut when it is long.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		text = text[:most] + "…"
	}
	return `"` + text + `"`
}
