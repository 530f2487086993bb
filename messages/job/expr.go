package job

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxExprLen bounds what is parsed at all. The longest useful expression
// lists all minutes of an hour and stays well under it.
const maxExprLen = 1024

// The three shapes of a schedule expression, and several together.
type exprKind uint8

const (
	kindCron exprKind = iota
	kindEvery
	kindOnce
	kindMany
)

// expression is one of a Timing after parsing, before zone and bounds.
type expression struct {
	kind   exprKind
	fields [6]string // kindCron: second … day of week in lower case, the second "0" when not written
	year   string    // kindCron: "*" when not written
	spread bool      // kindCron: it has an H, and fields have the values of a job
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

// MaxExprs bounds how many schedules a job may have.
const MaxExprs = 10

// parseAll parses every schedule of a Timing. A refusal is about schedule_expr,
// or about one of schedule_exprs when there are several.
func parseAll(t Timing) ([]expression, *Invalid) {
	if len(t.Exprs) == 0 {
		e, bad := parseExpr(t.Expr, t.Seconds, t.Job)
		return []expression{e}, bad
	}
	if n := 1 + len(t.Exprs); n > MaxExprs {
		return nil, Refuse("schedule_exprs", "there are %d, and a job has at most %d; register another job for the rest", n, MaxExprs)
	}
	all, bad := []expression{}, &Invalid{}
	for i, text := range append([]string{t.Expr}, t.Exprs...) {
		e, refused := parseExpr(text, t.Seconds, t.Job)
		if refused == nil && e.kind == kindEvery {
			refused = refuseExpr("%s is an interval, whose phase is that of its job, and does not go together with other schedules; register a job for it", quote(text))
		}
		if refused != nil {
			bad.Problems = append(bad.Problems, Problem{fmt.Sprintf("schedule_exprs[%d]", i), refused.Problems[0].Message})
		}
		all = append(all, e)
	}
	if bad.Problems != nil {
		return nil, bad
	}
	return all, nil
}

// parseExpr decides which of the three shapes an expression has and parses it.
func parseExpr(expr string, seconds bool, jobID string) (expression, *Invalid) {
	if bad := checkText(expr); bad != nil {
		return expression{}, bad
	}
	text := strings.Trim(expr, " \t")
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
	return parseCron(text, seconds, jobID)
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
		return parseCron(cron, false, "")
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
