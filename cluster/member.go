package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

// Role is a part that a node plays.
type Role string

const (
	Gateway    Role = "gateway"   // serves the HTTP API
	Scheduler  Role = "scheduler" // owns partitions
	Worker     Role = "worker"    // makes deliveries
	ClientRole Role = "client"    // another service: none of these
)

// Roles is a set of roles, sorted.
type Roles []Role

// Has tells whether a role is among them.
func (r Roles) Has(role Role) bool { return slices.Contains(r, role) }

// ParseRoles reads roles of a node, separated by commas. ClientRole is not one.
func ParseRoles(text string) (Roles, error) {
	var out Roles
	for part := range strings.SplitSeq(text, ",") {
		switch r := Role(strings.TrimSpace(part)); r {
		case Gateway, Scheduler, Worker:
			if !out.Has(r) {
				out = append(out, r)
			}
		default:
			return nil, fmt.Errorf("%q is not a role: use some of gateway, scheduler, worker, separated by commas", part)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (r Roles) String() string {
	text := make([]string, len(r))
	for i, role := range r {
		text[i] = string(role)
	}
	return strings.Join(text, ",")
}

// Member is one process of the cluster: a node's name plus the incarnation of
// its process. The same name with another incarnation is another member.
type Member struct {
	Node        string
	Incarnation uuid.UUID
	Started     int64  // wall clock of its start, ms since 1970: of two incarnations of one node the later one counts
	Address     string // host:port of its actors
	Roles       Roles
	Kinds       []string // of actors that it hosts for targets
	Version     string   // of the program
	Format      int      // the highest format of stored messages that it knows
}

// Owner names the member as the owner of partitions.
func (m Member) Owner() persistence.Owner {
	return persistence.Owner{Node: m.Node, Incarnation: m.Incarnation}
}

// View is who seems to be alive, at one moment and as one member sees it. It is
// a hint: nothing that must be right may rest on it. It is not changed once
// made.
type View struct {
	Members []Member // by node name; no name twice
}

// Find is the member that is one incarnation of a node.
func (v *View) Find(o persistence.Owner) (Member, bool) {
	for _, m := range v.Members {
		if m.Node == o.Node && m.Incarnation == o.Incarnation {
			return m, true
		}
	}
	return Member{}, false
}

// With is the members that have a role.
func (v *View) With(r Role) []Member {
	var out []Member
	for _, m := range v.Members {
		if m.Roles.Has(r) {
			out = append(out, m)
		}
	}
	return out
}
