package chaos

import "time"

// Faults of the network. The targets are reached all the while.
const (
	// CutOff: the node does not reach the database, nor maybe the other nodes.
	CutOff FaultKind = "cut off"
	// Split: the node reaches the database, but not all nodes reach each other.
	Split FaultKind = "split"
)

func (f Fault) network() bool { return f.Kind == CutOff || f.Kind == Split }

// begun is when a fault has done what it does to deliveries under way. A cut
// goes on, but who is cut off from whom is settled after a TTL.
func (f Fault) begun() time.Time {
	if settled := f.At.Add(TTL + stray); f.network() && settled.Before(f.End) {
		return settled
	}
	return f.End
}

// silent is C15: what a node that is cut off from the database owned is not
// sent for it any more once a TTL is over.
func (c *checker) silent() {
	for _, f := range c.Faults {
		if f.Kind != CutOff {
			continue
		}
		for _, r := range c.Receipts {
			if r.Received.After(f.begun()) && r.Received.Before(f.End) && c.ownerOf(r) == f.Node {
				c.find("C15", r.Job, "%s came under epoch %d of %s, %s after that was cut off", r.Execution, r.Epoch, f.Node, r.Received.Sub(f.At))
			}
		}
	}
}

// ownerOf is the node under whose ownership a delivery was made. An owner may
// raise its epoch several times after it has taken a partition.
func (c *checker) ownerOf(r Receipt) string {
	var last Takeover
	for _, o := range c.Takeovers {
		if o.Partition == c.partitionOf(r) && o.Epoch <= r.Epoch && o.Epoch > last.Epoch {
			last = o
		}
	}
	return last.Node
}
