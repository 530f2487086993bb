package api

// Graph is the jobs that a job follows, and those that follow it, directly and
// through others.
type Graph struct {
	JobID     string      `json:"job_id"`
	Jobs      []GraphJob  `json:"jobs" doc:"By id, the job itself among them."`
	Edges     []GraphEdge `json:"edges"`
	Truncated bool        `json:"truncated,omitzero" doc:"There are more than an answer shows."`
}

// GraphJob is a job as its graph shows it.
type GraphJob struct {
	JobID  string `json:"job_id"`
	Status string `json:"status,omitzero" doc:"Absent: the job is being created, or deleted."`
	Last   string `json:"last,omitzero" doc:"How its last execution ended."`
}

// GraphEdge is a job that follows another.
type GraphEdge struct {
	Upstream  string `json:"upstream"`
	Dependent string `json:"dependent"`
}
