package execution

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func withSecrets(d *belfryv1.Delivery, h *belfryv1.HTTPTarget) {
	h.Url = "https://example.com/hook?id=7&api_key=quEry+Secret%2F1&token=tok&sig=a%2Bb%3Dc/d"
	h.Headers = map[string]string{
		"Authorization": "Bearer b3arer-s3cret", "X-Api-Key": "k/e y\"<1>", "Cookie": "a=cook1e-one; b=cook1e-two", "X-Hub-Signature": "s1gnature",
		"X-Basic-Auth": "Basic dXNlcjpodW50ZXIyIQ==", "Accept": "visible/accept",
	}
}

func TestEverySpellingOfASecretIsMasked(t *testing.T) {
	s := findSecrets(delivery("", withSecrets))
	for _, secret := range []string{
		"b3arer-s3cret", "Bearer b3arer-s3cret", "quEry Secret/1", "quEry+Secret%2F1", "quEry+Secret%2f1", "quEry%20Secret%2F1", "a+b=c/d", "a%2Bb%3Dc%2Fd", "a%2bb%3dc%2fd",
		`k/e y"<1>`, `k/e y\"\u003c1\u003e`, "k/e y&#34;&lt;1&gt;", "k%2Fe+y%22%3C1%3E", "k%2fe%20y%22%3c1%3e",
		"cook1e-one", "cook1e-two", "s1gnature", "dXNlcjpodW50ZXIyIQ==", "user:hunter2!", "hunter2!", "hunter2%21",
	} {
		if got := s.mask("before "+secret+" after", 1000); got != "before *** after" {
			t.Errorf("%s: %s", secret, got)
		}
	}
	for _, open := range []string{"visible/accept", "tok", "7"} {
		if got := s.mask(open, 100); got != open {
			t.Errorf("%s is masked: %s", open, got)
		}
	}
}

// Wherever the cut falls, no piece of a secret of four bytes or more is left.
func TestNoCutLeavesAPieceOfASecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Z]{8,20}`).Draw(t, "secret")
		s := findSecrets(delivery("", func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.Headers = map[string]string{"X-Token": secret} }))
		var text strings.Builder
		for range rapid.IntRange(1, 20).Draw(t, "pieces") {
			text.WriteString(rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "filler"))
			text.WriteString(secret)
		}
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		read := text.String()
		read = read[:min(len(read), limit+s.longest())] // as the body is read
		got := s.mask(read, limit)
		if len(got) > limit || strings.ContainsAny(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Fatalf("%q of %q at %d", got, read, limit)
		}
	})
}

func TestMaskedTextIsValidAndShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		limit := rapid.IntRange(0, 50).Draw(t, "limit")
		for _, s := range []secrets{nil, {"secret"}} {
			if got := s.mask(raw, limit); !utf8.ValidString(got) || len(got) > limit {
				t.Fatalf("%q, limit %d", got, limit)
			}
		}
	})
}

func FuzzSecretsNeverAppear(f *testing.F) {
	f.Add("s3cret-value", "echo: ")
	f.Add("ä\"<\x00>", "%2F")
	f.Fuzz(func(t *testing.T, secret, around string) {
		if len(secret) < shortestSecret || strings.Contains(around, secret) || strings.Contains(masked, secret) || strings.Contains(secret, masked) {
			return
		}
		d := delivery("https://example.com/?token=" + url.QueryEscape(secret))
		quoted, _ := json.Marshal(secret)
		for _, echo := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1])} {
			if got := findSecrets(d).mask("|"+echo+"|", 1<<20); got != "|***|" && utf8.ValidString(secret) {
				t.Fatalf("%q in %q", echo, got)
			}
		}
	})
}
