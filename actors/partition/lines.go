package partition

import "github.com/belfry-scheduler/belfry/persistence"

// lines are the changes that no batch has taken yet. There are two, and batches
// take from both alike, row for row: somebody waits for the answer to a command,
// and must not wait for the executions of a spike as well, which a flood of
// commands must not stop either.
//
// All changes of a job are committed in the order in which they were made.
// They are absolute rows, so an older one must never come after a newer.
// Therefore a job's changes stand in one line at a time: a command takes along
// what its job has waiting, and whatever the job does next joins it there.
type lines struct {
	again      []*change           // of a batch that was refused; they go before all others
	commands   []*change           // of jobs with a command among them
	executions []*change           // of all other jobs
	jobs       map[string]standing // by job id. Invariant: exactly the jobs in commands and executions.
	made       int64               // changes so far; the number of the last
	lead       int                 // rows that commands went ahead of executions, since both wait
}

// standing is what a job has in line.
type standing struct {
	n       int
	command bool // in commands, not in executions
}

func (l *lines) len() int { return len(l.again) + len(l.commands) + len(l.executions) }

// add puts a new change at the end of its job's line.
func (l *lines) add(c *change) {
	l.made++
	c.number = l.made
	st := l.jobs[c.id]
	st.n++
	l.jobs[c.id] = st
	if st.command {
		l.commands = append(l.commands, c)
	} else {
		l.executions = append(l.executions, c)
	}
}

// hurry moves what a job has waiting behind the commands that wait already.
func (l *lines) hurry(id string) {
	st, ok := l.jobs[id]
	if !ok || st.command {
		return
	}
	first := len(l.executions)
	for found := 0; found < st.n; { // from the end: most often the command's own change is all there is
		if first--; l.executions[first].id == id {
			found++
		}
	}
	kept := l.executions[:first]
	for _, c := range l.executions[first:] {
		if c.id == id {
			l.commands = append(l.commands, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(l.executions[len(kept):])
	l.executions = kept
	l.jobs[id] = standing{st.n, true}
}

// putBack returns a refused batch, in its order.
func (l *lines) putBack(changes []*change) {
	l.again = append(append(make([]*change, 0, len(changes)+len(l.again)), changes...), l.again...)
}

// next is the line whose first change goes next; nil: nothing waits.
func (l *lines) next() *[]*change {
	switch {
	case len(l.again) > 0:
		return &l.again
	case len(l.commands) > 0 && (l.lead <= 0 || len(l.executions) == 0):
		return &l.commands
	case len(l.executions) > 0:
		return &l.executions
	}
	return nil
}

// pop takes the first change out of a line.
func (l *lines) pop(line *[]*change) *change {
	c := (*line)[0]
	(*line)[0] = nil
	if *line = (*line)[1:]; len(*line) == 0 {
		*line = nil // let go of the array
	}
	switch {
	case line == &l.again:
		return c
	case len(l.commands) == 0 || len(l.executions) == 0:
		l.lead = 0
	case line == &l.commands:
		l.lead += c.size()
	default:
		l.lead -= c.size()
	}
	if st := l.jobs[c.id]; st.n > 1 {
		l.jobs[c.id] = standing{st.n - 1, st.command}
	} else {
		delete(l.jobs, c.id)
	}
	return c
}

// idle takes out a change that has nothing to write and nothing of its job
// before it, when there is one at the head of a line.
func (l *lines) idle() *change {
	heads := []*[]*change{&l.again}
	if len(l.again) == 0 {
		heads = []*[]*change{&l.commands, &l.executions}
	}
	for _, line := range heads {
		if len(*line) > 0 && (*line)[0].empty() {
			return l.pop(line)
		}
	}
	return nil
}

// take takes out the changes of the next batch: at most so many, with at most
// so many rows and as many bytes as a batch may have; but always one, if any
// waits.
func (l *lines) take(changes, rows int) (batch []*change, size int) {
	bytes := 0
	for line := l.next(); line != nil && len(batch) < changes; line = l.next() {
		c := (*line)[0]
		if len(batch) > 0 && (size+c.size() > rows || bytes+c.bytes > persistence.MaxBatchBytes) {
			break
		}
		size, bytes = size+c.size(), bytes+c.bytes
		batch = append(batch, l.pop(line))
	}
	return batch, size
}
