package gateway

import (
	"bytes"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// chunk is consecutive lines on their way.
type chunk struct {
	text   []byte
	ends   []int // of each line in text
	first  int64 // number of the first line
	lines  []importLine
	parsed chan struct{}
	left   atomic.Int32 // commands that are not answered
	done   chan struct{}
}

// importLine is one line: a command to send, then its result.
type importLine struct {
	chunk  *chunk
	cmd    *belfryv1.Command
	size   int              // of cmd, in bytes
	open   *sync.WaitGroup  // of the lines that are sent and not answered
	result api.ImportResult // Line 0: nothing to say
}

func newChunk(first int64) *chunk {
	return &chunk{first: first, parsed: make(chan struct{}), done: make(chan struct{})}
}

func (ch *chunk) add(text []byte) {
	ch.text = append(ch.text, text...)
	ch.ends = append(ch.ends, len(ch.text))
	if len(ch.lines) < len(ch.ends) {
		ch.lines = append(ch.lines, importLine{chunk: ch})
	}
}

// refuse answers the next line to be added before it is parsed.
func (ch *chunk) refuse(number int64, p *problem) {
	ch.lines = append(ch.lines, importLine{chunk: ch, result: api.ImportResult{Line: number, Result: api.ImportFailed, Error: &p.Problem}})
}

func (im *importer) parseAll() error {
	for ch := range im.work {
		im.parse(ch)
	}
	return nil
}

// parse turns the lines of a chunk into commands.
func (im *importer) parse(ch *chunk) {
	defer close(ch.parsed)
	now, start, commands := im.g.cfg.Now(), 0, int32(0)
	for i := range ch.lines {
		l := &ch.lines[i]
		text := bytes.TrimSpace(ch.text[start:ch.ends[i]])
		start = ch.ends[i]
		if len(text) == 0 {
			continue
		}
		l.result.Line = ch.first + int64(i)
		if err := im.parseLine(l, text, now); err != nil {
			l.fail(err)
			continue
		}
		commands++
	}
	ch.text = nil
	ch.left.Store(commands)
	if commands == 0 {
		close(ch.done)
	}
}

func (l *importLine) fail(err error) {
	l.cmd = nil
	l.result.Result, l.result.Error = api.ImportFailed, &asProblem(err).Problem
}

func (im *importer) parseLine(l *importLine, text []byte, now time.Time) error {
	req := new(api.JobRequest)
	if err := decode(text, im.g.cfg.Limits.Depth, req); err != nil {
		return err
	}
	l.result.JobID = req.JobID
	if req.JobID == "" {
		return job.Refuse("job_id", "a line of an import needs one: it is created or replaced under this id, so that the import can be repeated")
	}
	if bad := job.CheckID(req.JobID); bad != nil {
		l.result.JobID = ""
		return bad
	}
	reg, err := im.g.check(req, im.g.priorOf(im.ctx, req.JobID), now)
	if err != nil {
		return err
	}
	l.cmd = &belfryv1.Command{
		Id: im.name + "-" + strconv.FormatInt(l.result.Line, 36), JobId: req.JobID,
		Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: reg.spec, Paused: reg.paused, RunPast: reg.runPast}},
	}
	l.size = proto.Size(l.cmd)
	return nil
}
