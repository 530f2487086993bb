package check

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Check returns every finding.
func (h History) Check() []Finding {
	c := newChecker(h)
	c.owned()
	for i := range h.Jobs {
		c.slots(&h.Jobs[i])
	}
	c.deliveries()
	c.epochs()
	c.silent()
	c.settled()
	c.attempts()
	c.overlaps()
	c.runs()
	c.leases()
	c.calls()
	return c.found
}

// Text is some of the findings as lines.
func Text(found []Finding) string {
	const most = 20
	var b strings.Builder
	for i, f := range found {
		if i == most {
			fmt.Fprintf(&b, "… and %d findings more\n", len(found)-i)
			break
		}
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// checker is a check under way.
type checker struct {
	History
	found   []Finding
	jobs    map[string]*Job
	sent    map[string][]Receipt // of an execution, in order of arrival
	order   []string             // executions, in the order in which they came first
	records map[string]*Record   // of each execution
	owners  map[tenure]Takeover  // who had a partition under an epoch
	terms   map[int32][]Takeover // of a partition, by epoch
	strays  map[int]int          // by the number of a fault
}

// tenure is an ownership.
type tenure struct {
	partition int32
	epoch     int64
}

func newChecker(h History) *checker {
	c := &checker{
		History: h, jobs: map[string]*Job{}, sent: make(map[string][]Receipt, len(h.Receipts)), records: make(map[string]*Record, len(h.Receipts)),
		owners: map[tenure]Takeover{}, terms: map[int32][]Takeover{}, strays: map[int]int{},
	}
	c.Receipts = slices.Clone(h.Receipts)
	inOrder := func(a, b Receipt) int { return a.Received.Compare(b.Received) }
	if !slices.IsSortedFunc(c.Receipts, inOrder) {
		slices.SortStableFunc(c.Receipts, inOrder)
	}
	for i := range h.Jobs {
		c.jobs[h.Jobs[i].ID] = &h.Jobs[i]
	}
	for i, r := range c.Receipts {
		if before, again := c.sent[r.Execution]; again {
			c.sent[r.Execution] = append(before, r)
			continue
		}
		c.order = append(c.order, r.Execution)
		c.sent[r.Execution] = c.Receipts[i : i+1 : i+1] // most come once
	}
	for _, rs := range h.Records {
		for i := range rs {
			c.records[rs[i].ExecutionID] = &rs[i]
		}
	}
	for _, o := range h.Takeovers {
		c.terms[o.Partition] = append(c.terms[o.Partition], o)
	}
	for _, terms := range c.terms {
		slices.SortStableFunc(terms, func(a, b Takeover) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
	return c
}

func (c *checker) find(rule, job, format string, args ...any) {
	c.found = append(c.found, Finding{rule, job, fmt.Sprintf(format, args...)})
}

// Partition of a job: the range of XXH64 that its id falls into.
func (h History) Partition(job string) int32 {
	if h.Partitions == 0 {
		return 0
	}
	return int32(xxhash.Sum64String(job) >> (64 - bits.TrailingZeros(uint(h.Partitions))))
}

// idOf is the id of the execution of a slot.
func idOf(job, generation string, slot time.Time) string {
	return job + "~" + generation + "~" + slot.UTC().Format("20060102T150405.000Z")
}

// takeApart splits an execution's id. One that was not scheduled (manual, a
// replay, a dependent's) says so with a letter before its instant.
func takeApart(id string) (job, generation string, scheduled bool) {
	job, rest, _ := strings.Cut(id, "~")
	generation, rest, ok := strings.Cut(rest, "~")
	return job, generation, ok && rest != "" && !strings.Contains("mrbd", rest[:1])
}

// stamp is an instant in a finding.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
