package persistence

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// Cluster is what is fixed when a store is created, but for the format, which
// an operator raises.
type Cluster struct {
	ID         uuid.UUID // drawn at creation
	Partitions int
	Hash       string
	Format     int // of the stored messages; a node wants the highest that it knows
}

// Admit is nil when a node that wants these constants may work on a store that
// has the stored ones, else a *Mismatch. A node that knows a higher format than
// the stored one writes the stored one; a node that knows only lower ones could
// not read what is there.
func (stored Cluster) Admit(want Cluster) error {
	switch {
	case stored.Partitions != want.Partitions:
		return &Mismatch{Setting: "partitions", Stored: strconv.Itoa(stored.Partitions), Want: strconv.Itoa(want.Partitions)}
	case stored.Hash != want.Hash:
		return &Mismatch{Setting: "hash", Stored: stored.Hash, Want: want.Hash}
	case stored.Format > want.Format:
		return &Mismatch{Setting: settingFormat, Stored: strconv.Itoa(stored.Format), Want: strconv.Itoa(want.Format)}
	}
	return nil
}

// Raise is the constants with a raised format; change is false when it is
// raised already. ErrFormatMoved when the stored one is neither.
func (stored Cluster) Raise(from, to int) (raised Cluster, change bool, err error) {
	switch {
	case to <= from:
		return stored, false, fmt.Errorf("a format is only ever raised, and %d is not above %d", to, from)
	case stored.Format == to:
		return stored, false, nil
	case stored.Format != from:
		return stored, false, fmt.Errorf("%w: it is %d, not %d", ErrFormatMoved, stored.Format, from)
	}
	stored.Format = to
	return stored, true, nil
}

// ErrFormatMoved is the answer to a raise from a format that is not the stored
// one: read it again and decide anew.
var ErrFormatMoved = errors.New("the stored format is another one by now")

// Mismatch is the answer to a node whose settings differ from the stored ones.
type Mismatch struct {
	Setting      string
	Stored, Want string
}

const settingFormat = "format"

func (e *Mismatch) Error() string {
	if e.Setting == settingFormat {
		return fmt.Sprintf("this store has format %s, and this build of Belfry knows formats up to %s: start a version that knows format %[1]s, as the other nodes do", e.Stored, e.Want)
	}
	return fmt.Sprintf("this store was created with %s %s, and the node is set to %s: start it with the stored value, or on another store", e.Setting, e.Stored, e.Want)
}
