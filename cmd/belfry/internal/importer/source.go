package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/foreign"
)

// Line is one job of a source, or one that cannot be sent and why.
type Line struct {
	Number  int64  // in the file, from 1
	Offset  int64  // bytes of the file up to the end of the line; 0 when it is not known
	Body    []byte // a JobRequest on one line
	Text    string // what stands in the file, for the report of a problem
	Problem string

	There *There // when it fired where it comes from; nil: that is not known
}

// There is a job's schedule at the scheduler that it comes from.
type There struct {
	Fires   foreign.Fires // nil: an interval, or Problem says why not
	Zone    *time.Location
	Problem string
}

// Source yields lines in the order of the file. It ends with the first error,
// its own or that of yield.
type Source func(yield func(Line) error) error

// maxLine is what a server reads of one job.
const maxLine = 256 << 10

// JSONL is the source of a file with one JobRequest a line. Blank lines are
// passed over.
func JSONL(r io.Reader) Source {
	return func(yield func(Line) error) error {
		in := bufio.NewReaderSize(r, maxLine)
		for l := (Line{}); ; {
			text, err := in.ReadSlice('\n')
			l.Number, l.Offset = l.Number+1, l.Offset+int64(len(text))
			l.Body, l.Text, l.Problem = bytes.TrimSpace(bytes.Clone(text)), "", ""
			if errors.Is(err, bufio.ErrBufferFull) {
				l.Text, l.Problem = string(text[:80])+"…", fmt.Sprintf("the line is longer than %d bytes", maxLine)
				var rest int64
				rest, err = skipLine(in)
				l.Offset += rest
			}
			if len(l.Body) > 0 {
				if yieldErr := yield(l); yieldErr != nil {
					return yieldErr
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read line %d: %w", l.Number, err)
			}
		}
	}
}

// skipLine reads to the end of a line and says how much that was.
func skipLine(in *bufio.Reader) (int64, error) {
	for n := int64(0); ; {
		text, err := in.ReadSlice('\n')
		n += int64(len(text))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}
