package gateway

import (
	"net/http"
	"slices"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// route is one address of the API: what it accepts, what it answers, and who
// does the work. The OpenAPI document and the checks of a request both follow
// from it.
type route struct {
	method, path string
	name         string // operationId
	summary      string
	details      string
	params       []param
	body         any      // nil: none; else a value of the type in the body
	bodyTypes    []string // media types of the body; default JSON
	bodyOptional bool
	answers      map[int]any // status: a value of the type, or nil for an empty body
	answerType   string      // media type of the answer; default JSON
	errors       []int       // statuses of problems, beside those that every route has
	stream       bool        // lives long: counted apart
	waits        bool        // until something comes: counted apart
	vital        bool        // always admitted
	handle       func(*call) error

	query map[string]bool // its query parameters; true: may be repeated
}

// param is a parameter of a route.
type param struct {
	in, name string
	about    string
	kind     string // JSON schema type; default string
	required bool
	repeats  bool
}

func (rt *route) prepare() {
	rt.query = map[string]bool{}
	for _, p := range rt.params {
		if p.in == "query" {
			rt.query[p.name] = p.repeats
		}
	}
}

// Parameters that several routes have.
var (
	idParam     = param{in: "path", name: "id", about: "The job_id.", required: true}
	execParam   = param{in: "path", name: "id", about: "The execution_id.", required: true}
	backfillPar = param{in: "path", name: "backfill", about: "The backfill_id.", required: true}
	keyPar      = param{in: "header", name: "Idempotency-Key", about: "New for each new request, such as a UUID. A repeat with the same key and body gets the first answer, for 24 h; with another body, 422; while the first is being worked on, 409 with Retry-After."}
	match       = param{in: "header", name: "If-Match", about: "The ETag that the job must still have, or * for any."}
	dryPar      = param{in: "query", name: "validate_only", about: "true: answer what the job would be, with its next runs and warnings, and store nothing. What the job itself or the graph of dependencies is refused for is refused, too; a job of depends_on that is not there yet is only warned of, since the jobs of one file are validated before any of them is stored.", kind: "boolean"}
	sizePar     = param{in: "query", name: "page_size", about: "1 to 500; default 100. A page may be short although more follows: only the Link header tells.", kind: "integer"}
	limPar      = param{in: "query", name: "limit", about: "Another name of page_size.", kind: "integer"}
	tokPar      = param{in: "query", name: "page_token", about: "From the Link header of the page before; it belongs to one list with one filter."}
)

var filterPars = []param{
	{in: "query", name: "label", about: "key=value; repeat it for more labels, all of which must match.", repeats: true},
	{in: "query", name: "state", about: "active, paused, finished or error."},
	{in: "query", name: "target", about: "A part of the target's URL, such as its host."},
	{in: "query", name: "id_prefix", about: "What the job_id begins with."},
	{in: "query", name: "next_run_before", about: "An RFC 3339 instant; jobs that have a next run before it."},
}

// routes is the whole API, or what a node serves that is no gateway.
func (g *Gateway) routes() []*route {
	if g != nil && g.cfg.NodeOnly { // nil: the document is made without one
		return g.nodeRoutes()
	}
	return slices.Concat(g.jobRoutes(), g.manyRoutes(), g.queueRoutes(), g.clusterRoutes(), g.nodeRoutes())
}

func (g *Gateway) jobRoutes() []*route {
	id := "/v1/jobs/{id}"
	return []*route{
		{
			method: http.MethodPost, path: "/v1/jobs", name: "createJob", summary: "Create a job", handle: g.createJob,
			details: "Without job_id an id is made from the request, so that a repeat with the same Idempotency-Key gets the same one.",
			params:  []param{keyPar, dryPar}, body: api.JobRequest{},
			answers: map[int]any{201: api.Job{}, 200: api.Job{}}, errors: []int{409, 413, 415, 422, 503},
		}, {
			method: http.MethodPut, path: id, name: "replaceJob", summary: "Create or replace a job under your own id", handle: g.replaceJob,
			details: "What is left out takes its default, except paused. An identical replacement changes nothing.",
			params:  []param{idParam, match, {in: "header", name: "If-None-Match", about: "*: create, never replace."}, dryPar}, body: api.JobRequest{},
			answers: map[int]any{200: api.Job{}, 201: api.Job{}}, errors: []int{409, 412, 413, 415, 503},
		}, {
			method: http.MethodGet, path: id, name: "getJob", summary: "A job, its next runs, and why it does not run if it does not", handle: g.getJob,
			params: []param{idParam}, answers: map[int]any{200: api.Job{}}, errors: []int{404, 503},
		}, {
			method: http.MethodPatch, path: id, name: "patchJob", summary: "Change what is named (RFC 7396)", handle: g.patchJob,
			details: "A merge patch of the job: what is absent stays, null takes the default.",
			params:  []param{idParam, match, dryPar}, body: api.JobRequest{}, bodyTypes: []string{typeMerge, typeJSON},
			answers: map[int]any{200: api.Job{}}, errors: []int{404, 409, 412, 413, 415, 503},
		}, {
			method: http.MethodDelete, path: id, name: "deleteJob", summary: "Delete a job; its executions stay readable", handle: g.deleteJob,
			details: "While others depend on it, 409 names them; for a moment also one that has just been deleted, or depends on it no more.",
			params:  []param{idParam, match, {in: "query", name: "cascade", about: "true: the jobs that depend on it are deleted, too, directly and through others, each before what it depends on.", kind: "boolean"}},
			answers: map[int]any{204: nil}, errors: []int{404, 409, 412, 503},
		}, {
			method: http.MethodGet, path: id + "/graph", name: "getGraph", summary: "The jobs that a job follows, and those that follow it", handle: g.getGraph,
			params:  []param{idParam, {in: "query", name: "format", about: "json (default), or mermaid: a flow chart, as with Accept: " + typeMermaid + "."}},
			answers: map[int]any{200: api.Graph{}}, errors: []int{404, 503},
		}, {
			method: http.MethodPost, path: id + "/pause", name: "pauseJob", summary: "Pause a job: what comes due is skipped", handle: g.pauseJob,
			params: []param{idParam, keyPar}, body: api.PauseRequest{}, bodyOptional: true,
			answers: map[int]any{200: api.Job{}}, errors: []int{404, 409, 415, 422, 503},
		}, {
			method: http.MethodPost, path: id + "/resume", name: "resumeJob", summary: "Resume a job with its next slot", handle: g.resumeJob,
			params: []param{idParam, keyPar}, body: api.ResumeRequest{}, bodyOptional: true,
			answers: map[int]any{200: api.Job{}}, errors: []int{404, 409, 415, 422, 503},
		}, {
			method: http.MethodPost, path: id + "/trigger", name: "triggerJob", summary: "Run a job now, beside its schedule", handle: g.triggerJob,
			params: []param{idParam, keyPar}, answers: map[int]any{202: api.Triggered{}}, errors: []int{404, 409, 422, 503},
		}, {
			method: http.MethodGet, path: id + "/explain", name: "explainJob", summary: "Why a job did or did not run", handle: g.explainJob,
			details: "At an instant: the record of what came of it, or why there is none. Without one: why the job does not run now. Also of a job that was deleted.",
			params:  []param{idParam, {in: "query", name: "at", about: "An RFC 3339 instant. Absent: now."}}, answers: map[int]any{200: api.Explanation{}}, errors: []int{404, 503},
		}, {
			method: http.MethodPost, path: id + "/backfill", name: "backfillJob", summary: "Run the slots of a range again", handle: g.backfillJob,
			details: "Exactly the slots that the job's schedule has in the range. A pause of the job does not stop it, an edit does not touch it, a delete cancels it. It runs beside the schedule at a pace that leaves live slots their workers.",
			params:  []param{idParam, keyPar, {in: "query", name: "validate_only", about: "true: answer how many slots there are and the first of them, and run nothing.", kind: "boolean"}}, body: api.BackfillRequest{},
			answers: map[int]any{202: api.Backfill{}, 200: api.Backfill{}}, errors: []int{404, 409, 413, 415, 422, 503},
		}, {
			method: http.MethodGet, path: id + "/backfills/{backfill}", name: "getBackfill", summary: "How far a backfill is", handle: g.getBackfill,
			params: []param{idParam, backfillPar}, answers: map[int]any{200: api.Backfill{}}, errors: []int{404, 503},
		}, {
			method: http.MethodDelete, path: id + "/backfills/{backfill}", name: "cancelBackfill", summary: "Run nothing more of a backfill", handle: g.cancelBackfill,
			details: "What waits of it is cancelled; what runs is left to finish and not tried again. Of one that has ended nothing changes.",
			params:  []param{idParam, backfillPar}, answers: map[int]any{204: nil}, errors: []int{404, 503},
		}, {
			method: http.MethodGet, path: id + "/executions", name: "listExecutions", summary: "Executions of a job, newest first", handle: g.listExecutions,
			details: "Ordered by scheduled_for, then execution_id, both descending. Consecutive slots with one fate are one element with range.",
			params:  []param{idParam, sizePar, limPar, tokPar}, answers: map[int]any{200: []api.Execution{}}, errors: []int{404, 503},
		}, {
			method: http.MethodGet, path: "/v1/executions/{id}", name: "getExecution", summary: "An execution with its attempts", handle: g.getExecution,
			params:  []param{execParam},
			answers: map[int]any{200: api.ExecutionDetail{}}, errors: []int{404, 503},
		}, {
			method: http.MethodPost, path: "/v1/executions/{id}/retry", name: "retryExecution", summary: "Replay a dead letter", handle: g.retryExecution,
			details: "A new execution with the original's key, scheduled_for and payload, also after its job has changed or was deleted. With success the dead letter is gone; one that fails takes its place. Later than target.key_lifetime after the key was first used, one of new_key and same_key must be said.",
			params:  []param{execParam, keyPar}, body: api.ReplayRequest{}, bodyOptional: true,
			answers: map[int]any{202: api.Replayed{}}, errors: []int{404, 409, 415, 422, 503},
		}, {
			method: http.MethodGet, path: "/v1/dead-letters", name: "listDeadLetters", summary: "Dead letters", handle: g.listDead,
			details: "In the order in which they are stored: those of a job together. They are kept until they are replayed with success or purged, or until the server's retention is over.",
			params: []param{sizePar, limPar, tokPar,
				{in: "query", name: "job_id", about: "Of this job."},
				{in: "query", name: "label", about: "key=value; repeat it for more labels, all of which must match.", repeats: true},
				{in: "query", name: "since", about: "Failed at or after this RFC 3339 instant."},
				{in: "query", name: "until", about: "Failed before this RFC 3339 instant."},
				{in: "query", name: "reason", about: "A part of the reason or of the last error."},
				{in: "query", name: "attempts", about: "answered: all of them were; unknown: at least one was not."},
			},
			answers: map[int]any{200: []api.DeadLetter{}}, errors: []int{503},
		}, {
			method: http.MethodDelete, path: "/v1/dead-letters/{id}", name: "purgeDeadLetter", summary: "Forget a dead letter; its history stays", handle: g.purgeDead,
			params: []param{execParam}, answers: map[int]any{204: nil}, errors: []int{404, 503},
		}, {
			method: http.MethodPost, path: "/v1/dead-letters:retry", name: "retryDeadLetters", summary: "Replay a page of dead letters", handle: g.retryDead,
			details: "One call handles one page of what the filter selects and answers a line for each; Link names the next page: send the same body there. A job with as many replays as it may have at once is waited for.",
			params:  []param{keyPar, sizePar, limPar, tokPar}, body: api.DeadRetryRequest{},
			answers: map[int]any{200: api.DeadRetryResult{}}, answerType: typeNDJSON, errors: []int{413, 415, 503}, stream: true,
		}, {
			method: http.MethodPost, path: "/v1/executions/{id}/cancel", name: "cancelExecution", summary: "Cancel an execution that waits or runs", handle: g.cancelExecution,
			details: "What waits is cancelled at once (200). What runs is told to end (202): follow it by its id.",
			params:  []param{execParam, keyPar}, body: api.CancelRequest{}, bodyOptional: true,
			answers: map[int]any{200: api.Cancelled{}, 202: api.Cancelled{}}, errors: []int{404, 409, 415, 422, 503},
		},
	}
}

func (g *Gateway) manyRoutes() []*route {
	return []*route{
		{
			method: http.MethodGet, path: "/v1/jobs", name: "listJobs", summary: "Jobs", handle: g.listJobs,
			details: "In the order in which they are stored, which is no order of names. A page may be short, even empty, although more follows.",
			params:  append([]param{sizePar, limPar, tokPar}, filterPars...), answers: map[int]any{200: []api.Job{}}, errors: []int{503},
		}, {
			method: http.MethodPost, path: "/v1/jobs:import", name: "importJobs", summary: "Create or replace many jobs, one a line", handle: g.importJobs,
			details: "Each line is a JobRequest with a job_id. Each is answered by one line, in order, after it is durable; answers come while lines are still being sent. A bad line gets an error, and the others go on.",
			body:    api.JobRequest{}, bodyTypes: []string{typeNDJSON}, stream: true,
			answers: map[int]any{200: api.ImportResult{}}, answerType: typeNDJSON, errors: []int{415},
		}, {
			method: http.MethodPost, path: "/v1/jobs:bulk", name: "bulkJobs", summary: "Pause, resume, delete or trigger a page of jobs", handle: g.bulkJobs,
			details: "One call handles one page of what the filter selects and answers a line for each job; Link names the next page: send the same body there.",
			params:  []param{keyPar, sizePar, limPar, tokPar}, body: api.BulkRequest{},
			answers: map[int]any{200: api.BulkResult{}}, answerType: typeNDJSON, errors: []int{413, 415, 503},
		}, {
			method: http.MethodPost, path: "/v1/schedules/preview", name: "previewSchedule", summary: "What a schedule means", handle: g.previewSchedule,
			body: api.PreviewRequest{}, answers: map[int]any{200: api.Preview{}}, errors: []int{413, 415},
		}, {
			method: http.MethodGet, path: "/v1/events", name: "watchEvents", summary: "What happens, as server-sent events", handle: g.watchEvents,
			details: "From now on, or from after Last-Event-ID while the newest 10,000 events reach back that far; else `event: reset` comes first.",
			params: []param{
				{in: "query", name: "job_id", about: "Events of this job only."},
				{in: "query", name: "type", about: "Events of this type only; ending in a dot, of all types that begin so: execution."},
				{in: "header", name: "Last-Event-ID", about: "The id of the last event that was handled."},
			},
			answers: map[int]any{200: api.Event{}}, answerType: "text/event-stream", stream: true,
		},
	}
}

func (g *Gateway) nodeRoutes() []*route {
	return []*route{
		{
			method: http.MethodGet, path: "/healthz", name: "healthz", summary: "Whether the process answers", handle: g.healthz, vital: true,
			answers: map[int]any{200: health{}},
		}, {
			method: http.MethodGet, path: "/readyz", name: "readyz", summary: "Whether this node takes requests", handle: g.readyz, vital: true,
			answers: map[int]any{200: health{}}, errors: []int{503},
		}, {
			method: http.MethodGet, path: "/metrics", name: "metrics", summary: "Prometheus metrics", handle: g.metricsPage, vital: true,
			answers: map[int]any{200: ""}, answerType: "text/plain",
		}, {
			method: http.MethodGet, path: "/openapi.json", name: "openapi", summary: "This document", handle: g.openapiPage,
			answers: map[int]any{200: map[string]any{}},
		},
	}
}
