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
