package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// decode reads strict JSON: one value of the expected shape, in UTF-8, no
// unknown and no duplicate names, nothing after it, not too deep. The error
// names the place and says what to write.
func decode(body []byte, depth int, v any) error {
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		return malformed("", "it begins with a byte order mark: save it as UTF-8 without BOM")
	}
	if at := tooDeep(body, depth); at >= 0 {
		return malformed("", "it is nested more than %d deep at byte %d: flatten it, or send it as text in target.http.body", depth, at)
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true), noNulls); err != nil {
		return decodeError(body, err)
	}
	return nil
}

// noNulls refuses null for one of several labels or headers, which would become
// an empty text. For all of them, as for any field, it is the same as absence.
var noNulls = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, m *map[string]string) error {
	at, values := dec.StackPointer(), map[string]*string(nil)
	if err := json.UnmarshalDecode(dec, &values); err != nil || values == nil {
		*m = nil
		return err
	}
	*m = make(map[string]string, len(values))
	for name, v := range values {
		if v == nil {
			return &json.SemanticError{JSONPointer: at.AppendToken(name), JSONKind: 'n', GoType: reflect.TypeFor[string]()}
		}
		(*m)[name] = *v
	}
	return nil
}))

// lenient reads what it can of JSON that has been checked before.
func lenient(body []byte, v any) error { return json.Unmarshal(body, v) }

// tooDeep is where brackets are nested deeper than max; -1 nowhere.
func tooDeep(b []byte, max int) int {
	if bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) <= max {
		return -1
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > max {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

func malformed(path, format string, args ...any) *problem {
	p := refuse(api.CodeMalformed, "")
	message := fmt.Sprintf(format, args...)
	location := join("body", path)
	p.Detail = location + ": " + message
	p.Errors = []api.FieldProblem{{Location: location, Message: message}}
	return p
}

func decodeError(body []byte, err error) error {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return malformed(place(body, syntax.JSONPointer), "the name is given twice in one object: leave one of the two out")
	case errors.As(err, &semantic):
		return semanticError(body, semantic)
	case errors.As(err, &syntax):
		return syntaxError(body, syntax)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		if len(bytes.TrimSpace(body)) == 0 {
			return malformed("", "it is empty: send a JSON object")
		}
		return malformed("", "it ends in the middle, after %d bytes: send it whole", len(body))
	}
	return malformed("", "it cannot be read as JSON")
}

func syntaxError(body []byte, e *jsontext.SyntacticError) error {
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		return malformed(place(body, e.JSONPointer), "the JSON ends in the middle, after %d bytes: send it whole", len(body))
	}
	what := e.Err.Error()
	if strings.Contains(what, "after top-level value") {
		return malformed("", "there is more after the JSON value, at byte %d: send one object and nothing else", e.ByteOffset)
	}
	if strings.Contains(what, "UTF-8") || strings.Contains(what, "surrogate") {
		return malformed(place(body, e.JSONPointer), "the text at byte %d is not valid Unicode: send UTF-8, and surrogates only in pairs", e.ByteOffset)
	}
	return malformed(place(body, e.JSONPointer), "not JSON at byte %d: %s", e.ByteOffset, printable(what))
}

// shown are names of an answer that a request cannot set.
var shown = map[string]bool{
	"status": true, "status_reason": true, "status_since": true, "not_running": true, "generation": true,
	"revision": true, "created_at": true, "updated_at": true, "schedule_description": true, "next_run": true, "runs_given": true, "last_slot": true,
	"next_runs": true, "next_runs_local": true, "warnings": true, "last_execution": true, "in_flight": true, "counts": true, "backfills": true,
}

func semanticError(body []byte, e *json.SemanticError) error {
	path := place(body, e.JSONPointer)
	if errors.Is(e.Err, json.ErrUnknownName) {
		return unknownName(path)
	}
	location := join("body", path)
	var timeErr *time.ParseError
	switch {
	case errors.As(e.Err, &timeErr), e.GoType == reflect.TypeFor[time.Time]():
		return invalid(location, `write an RFC 3339 instant with T, seconds and an offset, such as "2026-01-31T06:00:00Z"`)
	case e.GoType == reflect.TypeFor[api.Duration]() && e.JSONKind == '"' && e.Err != nil:
		return invalid(location, "%s", printable(e.Err.Error()))
	case e.JSONKind == '0' && e.Err != nil && isNumber(e.GoType):
		return invalid(location, "%s is not %s in range", clip(string(e.JSONValue)), wanted(e.GoType))
	}
	return invalid(location, "it is %s, and %s is expected", kindName(e.JSONKind), wanted(e.GoType))
}

func unknownName(path string) error {
	location := join("body", path)
	if shown[path] {
		return invalid(location, "it is shown in answers and cannot be set: leave it out")
	}
	return invalid(location, "there is no such field%s: it was not stored, because a misspelt field would silently keep its default", suggestion(path))
}

// suggestion is the known name that a misspelt one is close to.
func suggestion(path string) string {
	at := strings.LastIndexByte(path, '.') + 1
	parent, name := strings.TrimSuffix(path[:at], "."), path[at:]
	if len(name) > 40 {
		return ""
	}
	for _, known := range fieldsOf(parent) {
		if distance(strings.ToLower(name), known) <= 1+len(known)/6 {
			return "; did you mean " + known + "?"
		}
	}
	return ""
}

// fieldsOf are the names of a request's object.
func fieldsOf(parent string) []string {
	types := map[string]reflect.Type{
		"": reflect.TypeFor[api.JobRequest](), "dst": reflect.TypeFor[api.DST](), "target": reflect.TypeFor[api.Target](),
		"target.http": reflect.TypeFor[api.HTTPTarget](), "target.actor": reflect.TypeFor[api.ActorTarget](), "target.queue": reflect.TypeFor[api.QueueTarget](), "target.nats": reflect.TypeFor[api.NATSTarget](), "target.kafka": reflect.TypeFor[api.KafkaTarget](), "retry": reflect.TypeFor[api.Retry](), "catch_up": reflect.TypeFor[api.CatchUp](),
	}
	t, ok := types[parent]
	if !ok {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// distance is the number of single-byte edits between two short names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// place is a JSON pointer into a body as the API writes places:
// retry.max_attempts, exclude[1]. What the pointer leads to need not be JSON.
func place(body []byte, p jsontext.Pointer) string {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	path := ""
	for token := range p.Tokens() {
		if open, _ := dec.ReadToken(); open.Kind() == '[' {
			path += "[" + token + "]"
			skipElements(dec, token)
		} else {
			path = join(path, clip(token))
			skipToMember(dec, token)
		}
	}
	return path
}

// skipElements goes on to the element of an array with an index.
func skipElements(dec *jsontext.Decoder, index string) {
	n, _ := strconv.Atoi(index)
	for range n {
		if dec.SkipValue() != nil {
			return
		}
	}
}

// skipToMember goes on to the value of the member of an object with a name.
func skipToMember(dec *jsontext.Decoder, name string) {
	for {
		at, err := dec.ReadToken()
		if err != nil || at.Kind() != '"' || at.String() == name || dec.SkipValue() != nil {
			return
		}
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

func isNumber(t reflect.Type) bool {
	if t == nil {
		return false
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != reflect.TypeFor[api.Duration]() && t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}

func wanted(t reflect.Type) string {
	if t == nil {
		return "another kind of value"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[api.Duration]():
		return `a duration in quotes, such as "30s",`
	case t == reflect.TypeFor[time.Time]():
		return "an RFC 3339 instant in quotes"
	case t == reflect.TypeFor[api.Target]():
		return "an object or a URL in quotes"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case isNumber(t):
		return "a whole number"
	case t.Kind() == reflect.Slice:
		return "an array"
	}
	return "an object"
}

// printable keeps a library's message on one line.
func printable(s string) string {
	s = strings.TrimPrefix(s, "jsontext: ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
