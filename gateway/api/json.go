package api

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// UnmarshalJSONFrom reads a target: the object, or a URL for short.
func (t *Target) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		t.HTTP = &HTTPTarget{}
		return json.UnmarshalDecode(dec, &t.HTTP.URL)
	}
	type plain Target
	return json.UnmarshalDecode(dec, (*plain)(t))
}

// UnmarshalJSON is UnmarshalJSONFrom for encoding/json.
func (t *Target) UnmarshalJSON(b []byte) error {
	type whole Target
	if len(b) > 0 && b[0] == '"' {
		t.HTTP = &HTTPTarget{}
		return json.Unmarshal(b, &t.HTTP.URL)
	}
	return json.Unmarshal(b, (*whole)(t))
}

// MarshalJSON writes the name alone when there is nothing else.
func (q QueueTarget) MarshalJSON() ([]byte, error) {
	if len(q.Payload) == 0 {
		return json.Marshal(q.Name)
	}
	type whole QueueTarget
	return json.Marshal(whole(q))
}

// UnmarshalJSONFrom reads a queue: the object, or its name for short.
func (q *QueueTarget) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		return json.UnmarshalDecode(dec, &q.Name)
	}
	type plain QueueTarget
	return json.UnmarshalDecode(dec, (*plain)(q))
}

// UnmarshalJSON is UnmarshalJSONFrom for encoding/json.
func (q *QueueTarget) UnmarshalJSON(b []byte) error {
	type whole QueueTarget
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &q.Name)
	}
	return json.Unmarshal(b, (*whole)(q))
}
