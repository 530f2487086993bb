package frame

import "fmt"

// Consistency is a consistency level as it goes over the wire.
type Consistency uint16

// Consistency levels.
const (
	Any         Consistency = 0x0
	One         Consistency = 0x1
	Two         Consistency = 0x2
	Three       Consistency = 0x3
	Quorum      Consistency = 0x4
	All         Consistency = 0x5
	LocalQuorum Consistency = 0x6
	EachQuorum  Consistency = 0x7
	Serial      Consistency = 0x8
	LocalSerial Consistency = 0x9
	LocalOne    Consistency = 0xA
)

var consistencyNames = [...]string{
	"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL",
	"LOCAL_QUORUM", "EACH_QUORUM", "SERIAL", "LOCAL_SERIAL", "LOCAL_ONE",
}

func (c Consistency) String() string {
	if int(c) < len(consistencyNames) {
		return consistencyNames[c]
	}
	return fmt.Sprintf("consistency 0x%X", uint16(c))
}
