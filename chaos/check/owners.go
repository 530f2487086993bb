package check

import (
	"cmp"
	"slices"
	"time"
)

func (f Fault) network() bool { return f.Kind == CutOff || f.Kind == Split }

// begun is when a fault has done what it does to deliveries under way. A cut
// goes on, but who is cut off from whom is settled after a TTL.
func (f Fault) begun(ttl time.Duration) time.Time {
	if settled := f.At.Add(ttl + stray); f.network() && settled.Before(f.End) {
		return settled
	}
	return f.End
}

// owned is C14: an epoch of a partition has one owner.
func (c *checker) owned() {
	for _, o := range c.Takeovers {
		key := tenure{o.Partition, o.Epoch}
		if other, ok := c.owners[key]; ok {
			c.find("C14", "", "partition %d had two owners under epoch %d: %s and %s", o.Partition, o.Epoch, other.Node, o.Node)
		}
		c.owners[key] = o
	}
	for p, terms := range c.terms {
		for i := 1; i < len(terms); i++ {
			// The log of a takeover is written after the fact, and the next may be
			// written before it.
			if terms[i].At.Before(terms[i-1].At.Add(-c.Recovery)) {
				c.find("C14", "", "partition %d was taken under epoch %d at %s, and under %d before, at %s", p, terms[i].Epoch, stamp(terms[i].At), terms[i-1].Epoch, stamp(terms[i-1].At))
			}
		}
	}
}

// ownerOf is the node under whose ownership a delivery was made. An owner may
// raise its epoch several times after it has taken a partition.
func (c *checker) ownerOf(r Receipt) string {
	terms := c.terms[c.Partition(r.Job)]
	i, found := slices.BinarySearchFunc(terms, r.Epoch, func(o Takeover, epoch int64) int { return cmp.Compare(o.Epoch, epoch) })
	if !found {
		i--
	}
	if i < 0 {
		return ""
	}
	return terms[i].Node
}

// epochs is C14: once a job was delivered under an epoch, an earlier owner's
// deliveries end within a TTL.
func (c *checker) epochs() {
	type seen struct {
		epoch int64
		since time.Time
	}
	newest := map[string]seen{}
	for _, r := range c.Receipts {
		s := newest[r.Job]
		switch {
		case r.Epoch > s.epoch:
			newest[r.Job] = seen{r.Epoch, r.Received}
		case r.Epoch < s.epoch && r.Received.Sub(s.since) > c.TTL:
			c.find("C14", r.Job, "%s came under epoch %d, %s after epoch %d was seen", r.Execution, r.Epoch, r.Received.Sub(s.since), s.epoch)
		}
	}
}

// silent is C15: what a node that is cut off from the database owned is not
// sent for it any more once a TTL is over.
func (c *checker) silent() {
	for _, f := range c.Faults {
		if f.Kind != CutOff {
			continue
		}
		for _, r := range c.Receipts {
			if r.Received.After(f.begun(c.TTL)) && r.Received.Before(f.End) && c.ownerOf(r) == f.Node {
				c.find("C15", r.Job, "%s came under epoch %d of %s, %s after that was cut off", r.Execution, r.Epoch, f.Node, r.Received.Sub(f.At))
			}
		}
	}
}

// settled is C18: once the recovery bound after the last fault is over, no
// partition moves any more, each has one owner, nothing waits, and nobody had to
// help.
func (c *checker) settled() {
	var end time.Time
	for _, f := range c.Faults {
		if f.End.After(end) {
			end = f.End
		}
	}
	for _, o := range c.Takeovers {
		if len(c.Faults) > 0 && o.At.After(end.Add(c.Recovery)) {
			c.find("C18", "", "partition %d went to %s %s after the last fault had ended", o.Partition, o.Node, o.At.Sub(end))
		}
	}
	if c.End == nil {
		return
	}
	for p := range int32(c.Partitions) {
		if nodes := c.End.Owners[p]; len(nodes) != 1 {
			c.find("C18", "", "partition %d is owned by %d nodes at the end: %v", p, len(nodes), nodes)
		}
	}
	if c.End.Waiting > 0 {
		c.find("C18", "", "%d executions are due and wait when all is over", c.End.Waiting)
	}
	if c.End.ByHand > 0 {
		c.find("C18", "", "%d nodes had to be restarted by hand", c.End.ByHand)
	}
}
