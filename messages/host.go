package messages

import (
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Host is what limits and circuit breakers of a target go by: the host of an
// URL, the kind of an actor. "" has none.
func Host(t *belfryv1.Target) string {
	switch h, a := t.GetHttp(), t.GetActor(); {
	case h != nil:
		return job.HostOf(h.GetUrl())
	case a != nil:
		return "actor " + a.GetKind()
	}
	return ""
}
