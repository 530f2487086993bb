package gateway

import "testing"

// The examples of RFC 7396, appendix A, and what they leave open.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, patch, want string }{
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
	} {
		if got := mergePatch([]byte(c.target), []byte(c.patch)); string(got) != c.want {
			t.Errorf("%s patched with %s is %s, want %s", c.target, c.patch, got, c.want)
		}
	}
}
