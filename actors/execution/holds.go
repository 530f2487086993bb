package execution

import belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"

// holdsPart is how many deliveries one Holds names. With ids of 200 bytes that is
// less than 1 MiB, of the 4 MiB that a transport takes.
const holdsPart = 4096

// holds are the parts of the answer to an Inquire.
func (l *ledger) holds(partition int32, epoch int64) []*belfryv1.Holds {
	l.answers++
	all := l.inquire(partition)
	out := make([]*belfryv1.Holds, max((len(all)+holdsPart-1)/holdsPart, 1))
	for i := range out {
		n := min(len(all), holdsPart)
		out[i] = &belfryv1.Holds{Partition: partition, Epoch: epoch, Deliveries: all[:n:n], Answer: l.answers, Parts: int32(len(out))}
		all = all[n:]
	}
	return out
}
