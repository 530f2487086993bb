package frame

import "encoding/binary"

// Options asks a server for what it supports.
func Options() Frame { return Frame{Version: Version, Opcode: OpOptions} }

// Startup begins a conversation.
func Startup() Frame {
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = AppendString(b, "CQL_VERSION")
	return Frame{Version: Version, Opcode: OpStartup, Body: AppendString(b, "3.0.0")}
}

// Query sends a statement without values.
func Query(statement string, c Consistency) Frame {
	b := AppendLongString(nil, statement)
	b = binary.BigEndian.AppendUint16(b, uint16(c))
	return Frame{Version: Version, Opcode: OpQuery, Body: append(b, 0)}
}

// Prepare has a statement prepared; PreparedID reads the answer.
func Prepare(statement string) Frame {
	return Frame{Version: Version, Opcode: OpPrepare, Body: AppendLongString(nil, statement)}
}

// Execute runs a prepared statement without values.
func Execute(id string, c Consistency) Frame {
	b := AppendString(nil, id)
	b = binary.BigEndian.AppendUint16(b, uint16(c))
	return Frame{Version: Version, Opcode: OpExecute, Body: append(b, 0)}
}

// Statement is one statement of a request, by its text or its prepared id.
type Statement struct {
	Text string
	ID   string // of a prepared statement; then Text is empty
}

// Request is what a request says about its statements.
type Request struct {
	Statements  []Statement
	Consistency Consistency // none in a PREPARE
}

// ParseRequest reads a QUERY, PREPARE, EXECUTE or BATCH; of any other frame the
// answer is a request without statements.
func ParseRequest(f Frame) (Request, error) {
	r := &reader{b: f.Body}
	if f.Flags&FlagCustomPayload != 0 {
		r.customPayload()
	}
	var q Request
	switch f.Opcode {
	case OpQuery:
		q.Statements = []Statement{{Text: r.longString()}}
		q.Consistency = Consistency(r.short())
	case OpPrepare:
		q.Statements = []Statement{{Text: r.longString()}}
	case OpExecute:
		q.Statements = []Statement{{ID: r.shortBytes()}}
		q.Consistency = Consistency(r.short())
	case OpBatch:
		q.Statements = batch(r)
		q.Consistency = Consistency(r.short())
	}
	return q, r.err
}

// batch reads the statements of a BATCH: type, count, and for each its kind, its
// text or id, and its values.
func batch(r *reader) []Statement {
	r.byte()
	var all []Statement
	for range r.short() {
		var s Statement
		if r.byte() == 0 {
			s.Text = r.longString()
		} else {
			s.ID = r.shortBytes()
		}
		for range r.short() {
			r.value()
		}
		all = append(all, s)
	}
	return all
}
