package job

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Bounds of the headers of a target, names and values together.
const (
	MaxHeaders     = 32
	MaxHeaderBytes = 8 << 10
)

// reservedHeaders are set by Belfry or by the HTTP client: a job that could
// set them could forge an identity, or split a request in two.
var reservedHeaders = []string{
	"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect",
	"forwarded", "idempotency-key", "x-idempotency-key", "traceparent", "tracestate",
}

var reservedPrefixes = []string{"proxy-", "x-forwarded-", "belfry-", "ce-", "ce_", "nats-", "webhook-"}

// CheckHeaders finds what is wrong with the headers of a target. Values are
// never repeated in a message: they may be secrets.
func CheckHeaders(field string, h map[string]string) []Problem {
	var problems []Problem
	refuse := func(format string, args ...any) {
		problems = append(problems, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if len(h) > MaxHeaders {
		refuse("there are %d headers, and at most %d are allowed", len(h), MaxHeaders)
	}
	size := 0
	seen := make(map[string]string, len(h))
	for _, name := range sortedKeys(h) {
		size += len(name) + len(h[name])
		lower := strings.ToLower(name)
		first, twice := seen[lower]
		seen[lower] = name
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			refuse("%s is not a header name: use letters, digits and - only", shown(name))
		case ReservedHeader(name):
			refuse("%s is set by Belfry or by HTTP itself, so a job cannot set it: leave it out", shown(name))
		case !httpguts.ValidHeaderFieldValue(h[name]):
			refuse("the value of %s holds a line break or another control character, which would end the header: leave it out", shown(name))
		case checkReference(h[name]) != nil:
			refuse("the value of %s refers to a secret that no job may use: %v", shown(name), checkReference(h[name]))
		case twice:
			refuse("%s and %s are the same header: keep one", shown(first), shown(name))
		}
	}
	if size > MaxHeaderBytes {
		refuse("names and values have %d bytes together, and at most %d are allowed; send data in the body", size, MaxHeaderBytes)
	}
	return problems
}

// ReservedHeader reports whether a job cannot set a header.
func ReservedHeader(name string) bool {
	lower := strings.ToLower(name)
	return slices.Contains(reservedHeaders, lower) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
}
