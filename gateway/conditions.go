package gateway

import (
	"strconv"
	"strings"
)

// etag is the entity tag of a revision.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// condition reads If-Match and If-None-Match.
func (c *call) condition() (condition, error) {
	match, none := c.r.Header.Values("If-Match"), c.r.Header.Values("If-None-Match")
	switch {
	case len(match) > 0 && len(none) > 0:
		return condition{}, invalid("header.If-None-Match", "it contradicts If-Match: send one of the two")
	case len(none) > 0:
		if len(none) > 1 || none[0] != "*" || c.r.Method != "PUT" {
			return condition{}, invalid("header.If-None-Match", "only * is understood, and only with PUT: it means create, never replace")
		}
		return condition{absent: true}, nil
	case len(match) == 0:
		return condition{}, nil
	case len(match) > 1 || strings.Contains(match[0], ","):
		return condition{}, invalid("header.If-Match", "one ETag is understood: send the one that you read last")
	case match[0] == "*":
		return condition{exists: true}, nil
	}
	return parseMatch(match[0])
}

// unconditional refuses a condition that an action would not keep to.
func (c *call) unconditional() error {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if c.r.Header.Get(name) != "" {
			return invalid("header."+name, "this action takes no condition, and would be done without regard to it: leave it out")
		}
	}
	return nil
}

// noSuchRevision never holds: an ETag that this server has not made.
const noSuchRevision = -1

func parseMatch(tag string) (condition, error) {
	weak := strings.HasPrefix(tag, "W/")
	inner := strings.TrimPrefix(tag, "W/")
	if len(inner) < 2 || inner[0] != '"' || inner[len(inner)-1] != '"' {
		return condition{}, invalid("header.If-Match", `an ETag stands in quotes: send it as you got it, such as "17"`)
	}
	revision, err := strconv.ParseInt(inner[1:len(inner)-1], 10, 64)
	if weak || err != nil || revision <= 0 || etag(revision) != inner {
		revision = noSuchRevision
	}
	return condition{revision: revision, exists: true}, nil
}
