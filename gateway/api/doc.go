// Package api is the JSON of Belfry's HTTP API as Go types: what the gateway
// reads and writes, and what the command line and other clients send and get.
//
//	POST   /v1/jobs                     JobRequest      201 Job
//	PUT    /v1/jobs/{id}                JobRequest      200 or 201 Job
//	PATCH  /v1/jobs/{id}                merge patch     200 Job
//	GET    /v1/jobs/{id}                                200 Job
//	GET    /v1/jobs                                     200 []Job, Link: rel="next"
//	DELETE /v1/jobs/{id}                                204
//	POST   /v1/jobs/{id}/trigger                        202 Triggered
//	POST   /v1/jobs/{id}/pause          PauseRequest    200 Job
//	POST   /v1/jobs/{id}/resume         ResumeRequest   200 Job
//	GET    /v1/jobs/{id}/executions                     200 []Execution, Link: rel="next"
//	GET    /v1/executions/{id}                          200 ExecutionDetail
//	POST   /v1/schedules/preview        PreviewRequest  200 Preview
//	POST   /v1/jobs:import              JobRequest a line   200 ImportResult a line
//	POST   /v1/jobs:bulk                BulkRequest     200 BulkResult a line, Link: rel="next"
//	GET    /v1/cluster/members                          200 []Member
//	POST   /v1/cluster/members/{node}/drain             202 Draining
//	GET    /v1/cluster/partitions                       200 []PartitionOwner
//	GET    /v1/cluster/format                           200 ClusterFormat
//	PUT    /v1/cluster/format           FormatRequest   200 ClusterFormat
//	GET    /v1/events                                   200 server-sent events, data: Event
//
// Every other answer is a Problem. Instants are RFC 3339 in UTC; durations are
// Go durations such as "30s"; a field that is absent in a request means its
// default.
package api
