package messages

import (
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Host is what limits and circuit breakers of a target go by: the host of an
// URL, the kind of an actor, a broker. "" has none.
func Host(t *belfryv1.Target) string {
	switch k := t.GetKind().(type) {
	case *belfryv1.Target_Http:
		return job.HostOf(k.Http.GetUrl())
	case *belfryv1.Target_Actor:
		return "actor " + k.Actor.GetKind()
	case *belfryv1.Target_Nats:
		return "nats " + k.Nats.GetBroker()
	case *belfryv1.Target_Kafka:
		return "kafka " + k.Kafka.GetBroker()
	}
	return ""
}
