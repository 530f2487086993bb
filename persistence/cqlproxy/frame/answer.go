package frame

// resultPrepared is the kind of a RESULT that answers a PREPARE.
const resultPrepared = 4

// answerBody is an answer's body behind what its flags put in front.
func answerBody(f Frame) *reader {
	r := &reader{b: f.Body}
	if f.Flags&FlagTracing != 0 {
		r.take(16)
	}
	if f.Flags&FlagWarning != 0 {
		for range r.short() {
			r.string()
		}
	}
	if f.Flags&FlagCustomPayload != 0 {
		r.customPayload()
	}
	return r
}

// PreparedID is the id that an answer gives to a prepared statement; false
// when the answer is none to a PREPARE.
func PreparedID(f Frame) (string, bool) {
	if f.Opcode != OpResult || f.Flags&FlagCompressed != 0 {
		return "", false
	}
	r := answerBody(f)
	if r.int() != resultPrepared {
		return "", false
	}
	id := r.shortBytes()
	return id, r.err == nil
}
