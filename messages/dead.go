package messages

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// DecodeDead reads a dead letter from the two blobs of its row. Those of the
// first version have the spec in the letter.
func DecodeDead(spec, state []byte) (*belfryv1.DeadLetter, error) {
	d := new(belfryv1.DeadLetter)
	if err := proto.Unmarshal(state, d); err != nil {
		return nil, fmt.Errorf("decode dead letter: %w", err)
	}
	if d.GetSpec() == nil {
		d.Spec = new(belfryv1.JobSpec)
		if err := proto.Unmarshal(spec, d.Spec); err != nil {
			return nil, fmt.Errorf("decode the spec of a dead letter: %w", err)
		}
	}
	return d, nil
}
