package api

import "strings"

// Problem is every answer that is not a success: RFC 9457,
// application/problem+json. Code is stable; the texts are for people.
type Problem struct {
	Type      string         `json:"type" doc:"urn:belfry:problem: and the code."`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail" doc:"What is wrong, why, and what to do."`
	Code      string         `json:"code" doc:"Stable, for programs."`
	Errors    []FieldProblem `json:"errors,omitempty"`
	RequestID string         `json:"request_id,omitzero"`
}

// FieldProblem is one thing wrong with a request.
type FieldProblem struct {
	Location string `json:"location" doc:"body.retry.max_attempts, body.exclude[0], query.page_size, header.If-Match, path.id"`
	Message  string `json:"message"`
}

// Error is the detail, and each further problem on a line of its own.
func (p *Problem) Error() string {
	lines := []string{p.Detail}
	for _, e := range p.Errors {
		lines = append(lines, e.Location+": "+e.Message)
	}
	if p.Detail == "" {
		lines[0] = p.Title
	}
	return strings.Join(lines, "\n")
}

// The codes of problems.
const (
	CodeInvalid        = "invalid"                // 400: the content of the request; see errors
	CodeMalformed      = "malformed_json"         // 400: not JSON, or not strict JSON
	CodeCrossOrigin    = "cross_origin"           // 403: a browser page of another origin
	CodeJobNotFound    = "job_not_found"          // 404
	CodeNoExecution    = "execution_not_found"    // 404
	CodeNoBackfill     = "backfill_not_found"     // 404
	CodeNoMember       = "member_not_found"       // 404: no such node in the cluster
	CodeNoRoute        = "route_not_found"        // 404
	CodeMethod         = "method_not_allowed"     // 405
	CodeJobExists      = "job_exists"             // 409
	CodeConflict       = "conflict"               // 409: the job changed meanwhile
	CodeWrongState     = "wrong_state"            // 409: the job's state does not allow it
	CodeInFlight       = "request_in_flight"      // 409 with Retry-After
	CodeLeaseLost      = "lease_lost"             // 409: the lease of a claimed execution is over
	CodeCancelled      = "execution_cancelled"    // 409: so is the lease
	CodeFormatUnknown  = "format_not_known"       // 409: not every node knows the format; see errors
	CodeFormatMoved    = "format_moved"           // 409: others raised the format meanwhile
	CodePrecondition   = "precondition_failed"    // 412: If-Match or If-None-Match
	CodeTooLarge       = "body_too_large"         // 413
	CodeMediaType      = "unsupported_media_type" // 415
	CodeKeyReused      = "idempotency_key_reused" // 422: another body under the same key
	CodeFormatRefused  = "format_refused"         // 422: below the stored one, or known to no node
	CodeOverloaded     = "overloaded"             // 429 with Retry-After
	CodeInternal       = "internal"               // 500
	CodeNoCluster      = "no_cluster"             // 501: this process is alone
	CodeOwnerAway      = "owner_unavailable"      // 503 with Retry-After
	CodeStoreAway      = "store_unavailable"      // 503 with Retry-After
	CodeNodeAway       = "node_unavailable"       // 503 with Retry-After
	CodeNotReady       = "not_ready"              // 503: readyz
	CodeRequestTimeout = "request_timeout"        // 408: the body did not arrive in time
)
