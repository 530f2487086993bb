package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"

	"github.com/go-json-experiment/json"
)

const (
	macBytes = 16
	maxToken = 1024
)

// openToken reads the page_token of a request into position. A token that this
// API did not make for exactly this list is refused.
func (g *Gateway) openToken(c *call, list string, position any) error {
	if !c.query.Has("page_token") {
		return nil
	}
	bad := invalid("query.page_token", "it is not a token of this list with this filter: take it from the Link header of the page before, unchanged, with the same filter; or leave it out to begin anew")
	token := c.query.Get("page_token")
	if len(token) > maxToken {
		return bad
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < macBytes {
		return bad
	}
	mac, body := raw[:macBytes], raw[macBytes:]
	if !hmac.Equal(mac, g.tokenMAC(list, body)) || json.Unmarshal(body, position) != nil {
		return bad
	}
	return nil
}

// linkNext sets the Link header to the page after this one.
func (g *Gateway) linkNext(c *call, list string, position any) {
	body, err := encode(position)
	if err != nil {
		return
	}
	token := base64.RawURLEncoding.EncodeToString(append(g.tokenMAC(list, body), body...))
	next := url.Values{}
	for name, values := range c.query {
		next[name] = values
	}
	next.Set("page_token", token)
	c.w.Header().Set("Link", "<"+routePath(c.r)+"?"+next.Encode()+`>; rel="next"`)
}

// tokenMAC binds a position to the list and filter that it is a place in.
func (g *Gateway) tokenMAC(list string, body []byte) []byte {
	h := hmac.New(sha256.New, g.cfg.TokenKey)
	h.Write([]byte(list))
	h.Write([]byte{0})
	h.Write(body)
	return h.Sum(nil)[:macBytes]
}
