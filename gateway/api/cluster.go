package api

import "time"

// What a member of the cluster is doing.
const (
	MemberAlive    = "alive"
	MemberDraining = "draining"  // it hands its partitions over and takes no new work
	MemberClockOff = "clock_off" // its wall clock is wrong: it owns nothing until it is right again
	MemberUnheard  = "unheard"   // it shows signs of life in the store, and the node asked hears nothing of it
)

// Member is one process of the cluster, as the node that was asked sees it.
type Member struct {
	Node          string    `json:"node"`
	Incarnation   string    `json:"incarnation" doc:"Of the process: a node that was restarted has another one."`
	Address       string    `json:"address" doc:"host:port at which other nodes reach it; no address of the API."`
	Roles         []string  `json:"roles" doc:"Some of gateway, scheduler and worker, or client: another service."`
	Version       string    `json:"version"`
	Format        int       `json:"format" doc:"The highest format of stored messages that it knows; 0: it has not said."`
	State         string    `json:"state" enum:"alive,draining,clock_off,unheard"`
	Partitions    int       `json:"partitions" doc:"How many it owns."`
	ClockOffsetMS *int64    `json:"clock_offset_ms,omitempty" doc:"Of its wall clock, against the median of all nodes; absent: not known yet."`
	StartedAt     time.Time `json:"started_at"`
	Self          bool      `json:"self,omitzero" doc:"It is the node that was asked."`
}

// PartitionOwner says who owns a partition, as the node that was asked sees it.
type PartitionOwner struct {
	Partition int32  `json:"partition"`
	Node      string `json:"node" doc:"Empty: nobody is known."`
	Address   string `json:"address"`
	Epoch     int64  `json:"epoch" doc:"Grows with each change of the owner; 0: nobody is known."`
}

// Draining is the answer to a request to drain a node: it has been told.
type Draining struct {
	Node  string `json:"node"`
	State string `json:"state" enum:"draining"`
}

// ClusterFormat is which format of stored messages the nodes write, and which
// they could.
type ClusterFormat struct {
	Format int          `json:"format" doc:"What the nodes write. A node that does not know it does not start."`
	Known  int          `json:"known" doc:"The highest format that every node knows: it can be raised that far."`
	Newest int          `json:"newest" doc:"The highest format that any node knows."`
	Behind []NodeFormat `json:"behind,omitempty" doc:"The nodes that do not know the newest."`
}

// NodeFormat is the highest format that a node knows; 0: it has not said.
type NodeFormat struct {
	Node   string `json:"node"`
	Format int    `json:"format"`
}

// FormatRequest raises the format of stored messages. There is no way back.
type FormatRequest struct {
	Format int `json:"format" doc:"The format to write from now on; every node must know it."`
}
