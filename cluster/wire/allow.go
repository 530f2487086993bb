package wire

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// ours begins the names of this project's messages.
var ours = string(belfryv1.File_belfry_v1_cluster_proto.Package()) + "."

// allowed is the set of message types that pass, in both directions, beside
// ours.
type allowed map[string]bool

// newAllowed adds types to the one of the library that every cluster needs: it
// says that nobody is there, which ends a request at once.
func newAllowed(more []string) allowed {
	set := allowed{typeName(&actor.DeadLetterResponse{}): true}
	for _, name := range more {
		set[name] = true
	}
	return set
}

func (a allowed) has(name string) bool { return strings.HasPrefix(name, ours) || a[name] }

func typeName(m proto.Message) string { return string(proto.MessageName(m)) }

// reserved are the processes of the library that no message from outside may
// reach: they spawn actors, publish what they get as events of this process, or
// log it.
var reserved = map[string]bool{
	"activator":           true,
	"deadletter":          true,
	"eventstream":         true,
	"gossip":              true,
	"partition-activator": true,
	"$pubsub-delivery":    true,
	"EndpointSupervisor":  true,
}

// isReserved covers their children too.
func isReserved(id string) bool {
	root, _, _ := strings.Cut(id, "/")
	return reserved[root] || strings.HasPrefix(root, "guardian")
}
