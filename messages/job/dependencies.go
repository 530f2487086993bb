package job

// triggered is the schedule of a job that its upstreams trigger: it is never due.
// A timing that is given all the same must be good.
func triggered(t Timing) (*Schedule, error) {
	if t.Triggered = false; t.Expr != "" {
		if _, err := Compile(t); err != nil {
			return nil, err
		}
	}
	return Never(), nil
}

// Never is a schedule without a slot.
func Never() *Schedule {
	return &Schedule{kind: kindEvery, zone: utc, grid: grid{step: 1, first: 1}} // nothing lies in [from, to)
}

// dependsOn checks a sorted list of upstreams. Whether they exist, and whether
// they close a cycle, only their owners know.
func (v *validation) dependsOn(ids []string) {
	if len(ids) > MaxUpstreams {
		v.refuse("depends_on", "it has %d jobs, and at most %d are allowed: let a job between gather some of them", len(ids), MaxUpstreams)
	}
	for i, id := range ids {
		if bad := CheckID(id); bad != nil {
			v.refuse("depends_on", "%s is not the id of a job: %s", quote(printable(id)), bad.Problems[0].Message)
		}
		if i > 0 && ids[i-1] == id {
			v.refuse("depends_on", "%s is named twice: name each job once", quote(printable(id)))
			return
		}
	}
}
