package gateway

import (
	"slices"
	"strings"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// filter selects jobs.
type filter struct {
	api.Filter
}

// filter reads a filter from the query.
func (c *call) filter() (*filter, error) {
	f := &filter{api.Filter{State: c.query.Get("state"), Target: c.query.Get("target"), IDPrefix: c.query.Get("id_prefix")}}
	labels, err := c.labels()
	if err != nil {
		return nil, err
	}
	f.Labels = labels
	if c.query.Has("next_run_before") {
		at, err := c.instant("next_run_before")
		if err != nil {
			return nil, err
		}
		f.NextRunBefore = &at
	}
	return f, f.check("query")
}

// labels are those that a filter asks for.
func (c *call) labels() (labels map[string]string, err error) {
	for _, l := range c.query["label"] {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return nil, invalid("query.label", "%q is not key=value: write label=team=billing, once for each label that must match", clip(l))
		}
		if old, twice := labels[key]; twice && old != value {
			return nil, invalid("query.label", "the label %s is asked to have two values, which no job has: leave one out", clip(key))
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

// check refuses values that no job could have. A filter that is asked for and
// says nothing would select everything, so it is refused too.
func (f *filter) check(prefix string) error {
	states := []string{string(job.Active), string(job.Paused), string(job.Finished), string(job.Faulty)}
	switch {
	case f.State != "" && !slices.Contains(states, f.State):
		return invalid(join(prefix, "state"), "%q is not one of %s", clip(f.State), strings.Join(states, ", "))
	case f.IDPrefix != "" && len(f.IDPrefix) > job.MaxJobID:
		return invalid(join(prefix, "id_prefix"), "it has %d bytes, and a job_id has at most %d", len(f.IDPrefix), job.MaxJobID)
	}
	return nil
}

// all tells that nothing is filtered.
func (f *filter) all() bool {
	return len(f.Labels) == 0 && f.State == "" && f.Target == "" && f.IDPrefix == "" && f.NextRunBefore == nil
}

// name identifies the list that this filter makes, for its page tokens.
func (f *filter) name() string {
	b, err := encode(f.Filter)
	if err != nil {
		return "jobs"
	}
	return "jobs\x00" + string(b)
}

// match returns the job of a row if it is selected, else nil. What the row
// shows is looked at before its blobs are decoded.
func (f *filter) match(row persistence.Row) *stored {
	switch {
	case row.Status == job.Deleted,
		f.State != "" && f.State != string(job.Faulty) && string(row.Status) != f.State,
		!strings.HasPrefix(row.JobID, f.IDPrefix),
		f.NextRunBefore != nil && (row.NextRun == 0 || row.NextRun >= f.NextRunBefore.UnixMilli()),
		!hasLabels(row.Labels, f.Labels):
		return nil
	}
	s := decodeRow(row)
	if f.State != "" && string(s.row.Status) != f.State || f.Target != "" && !f.targets(s.spec) {
		return nil
	}
	return s
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// targets looks for the text in the URL as it is shown: a list must not tell
// what a secret in it begins with. An actor is kind/identity, a queue its
// name, a message broker/subject or broker/topic.
func (f *filter) targets(s *belfryv1.JobSpec) bool {
	return strings.Contains(strings.ToLower(shownTarget(s.GetTarget())), strings.ToLower(f.Target))
}

func shownTarget(t *belfryv1.Target) string {
	switch {
	case t.GetActor() != nil:
		return t.GetActor().GetKind() + "/" + t.GetActor().GetIdentity()
	case t.GetQueue() != nil:
		return t.GetQueue().GetName()
	case t.GetNats() != nil:
		return t.GetNats().GetBroker() + "/" + t.GetNats().GetSubject()
	case t.GetKafka() != nil:
		return t.GetKafka().GetBroker() + "/" + t.GetKafka().GetTopic()
	}
	return maskURL(t.GetHttp().GetUrl())
}
