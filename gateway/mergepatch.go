package gateway

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// mergePatch applies a merge patch: RFC 7396, section 2. What the patch does not
// name stays as it is written, in its order; an array of the patch is taken whole,
// with the nulls in its objects. Both are valid JSON; no target is the same as null.
func mergePatch(target, patch jsontext.Value) jsontext.Value {
	if patch.Kind() != '{' {
		return patch
	}
	fields := members(target)
	at := make(map[string]int, len(fields))
	for i, f := range fields {
		at[f.name] = i
	}
	for _, change := range members(patch) {
		i, known := at[change.name]
		if !known {
			i = len(fields)
			fields = append(fields, member{name: change.name})
		}
		if change.value.Kind() == 'n' {
			fields[i].value = nil
		} else {
			fields[i].value = mergePatch(fields[i].value, change.value)
		}
	}
	return object(fields)
}

// member is one of an object; without a value it is left out.
type member struct {
	name  string
	value jsontext.Value
}

// members are those of an object, in order; of another value there are none.
func members(v jsontext.Value) (out []member) {
	if v.Kind() != '{' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	_, _ = dec.ReadToken() // the brace
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken() // no error: it is valid
		m := member{name: name.String()}
		value, _ := dec.ReadValue()
		m.value = value.Clone()
		out = append(out, m)
	}
	return out
}

// object writes what members reads.
func object(fields []member) jsontext.Value {
	out := []byte{'{'}
	for _, f := range fields {
		if f.value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, f.name) // no error: it is UTF-8
		out = append(append(out, ':'), f.value...)
	}
	return append(out, '}')
}
