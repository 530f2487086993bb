package gateway

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// patches are the examples of RFC 7396, appendix A, and what they leave open.
var patches = []struct{ target, patch, want string }{
	{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
	{`{"a":"b"}`, `{"a":null}`, `{}`},
	{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
	{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
	{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
	{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
	{`["a","b"]`, `["c","d"]`, `["c","d"]`},
	{`{"a":"b"}`, `["c"]`, `["c"]`},
	{`{"a":"foo"}`, `null`, `null`},
	{`{"a":"foo"}`, `"bar"`, `"bar"`},
	{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
	{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
	{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	{`{}`, `{"a":[{"b":null},[{"c":null}]]}`, `{"a":[{"b":null},[{"c":null}]]}`},
	{`{"z":1.50,"<\u00e9>":"\u003c","a":{"y":1,"b":2}}`, `{"a":{"b":3},"\u007a":-0.0}`, `{"z":-0.0,"<é>":"\u003c","a":{"y":1,"b":3}}`},
	{` { "a" : 1 } `, ` { "b" : { } } `, `{"a":1,"b":{}}`},
}

func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range patches {
		if got := mergePatch([]byte(c.target), []byte(c.patch)); string(got) != c.want {
			t.Errorf("%s patched with %s is %s, want %s", c.target, c.patch, got, c.want)
		}
	}
}

// FuzzMergePatch: the result is valid JSON, applying the patch once more changes
// nothing, and a patch of nothing changes no object.
func FuzzMergePatch(f *testing.F) {
	for _, c := range patches {
		f.Add([]byte(c.target), []byte(c.patch))
	}
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		before := jsontext.Value(target).Clone()
		if tooDeep(target, DefaultDepth) >= 0 || tooDeep(patch, DefaultDepth) >= 0 || before.Format() != nil || !jsontext.Value(patch).IsValid() {
			return
		}
		after := mergePatch(before, patch)
		if !after.IsValid() {
			t.Fatalf("%s patched with %s is %s", target, patch, after)
		}
		if again := mergePatch(after, patch); !same(again, after) {
			t.Fatalf("%s patched with %s is %s, and then %s", target, patch, after, again)
		}
		if none := mergePatch(before, jsontext.Value(`{}`)); before.Kind() == '{' && !same(none, before) {
			t.Fatalf("%s patched with nothing is %s", before, none)
		}
	})
}

// same tells whether two values are one, written in two ways.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Format() == nil && b.Format() == nil && string(a) == string(b)
}
