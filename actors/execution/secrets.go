package execution

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	// shortestSecret is the shortest value that is masked: shorter ones stand
	// in every other word of an answer.
	shortestSecret = 4
	masked         = "***"
)

// secrets are the spellings of what must not appear in errors and stored
// answers, longest first. Targets echo what they are sent.
type secrets []string

// findSecrets collects the values of sensitive headers and of sensitive
// parameters of the URL.
func findSecrets(d *belfryv1.Delivery) secrets {
	h := d.GetTarget().GetHttp()
	var s secrets
	for name, value := range h.GetHeaders() {
		if _, _, reference := job.FindSecretRef(value); job.Sensitive(name) && !reference {
			s.addHeader(value)
		}
	}
	if strings.ContainsAny(h.GetUrl(), "?@") {
		s.addURL(h.GetUrl())
	}
	return s.ordered()
}

// with adds values that hold secrets as those of headers do.
func (s secrets) with(values []string) secrets {
	if len(values) == 0 {
		return s
	}
	for _, v := range values {
		s.addHeader(v)
	}
	return s.ordered()
}

func (s secrets) ordered() secrets {
	slices.SortFunc(s, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(s)
}

// addHeader adds a header's value and the secrets in it: what follows a scheme
// such as Bearer, what Basic encodes, the values of cookies.
func (s *secrets) addHeader(value string) {
	s.add(value)
	scheme, rest, ok := strings.Cut(value, " ")
	if ok {
		s.add(strings.TrimSpace(rest))
	}
	if strings.EqualFold(scheme, "basic") {
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			s.add(string(plain))
			s.add(password)
		}
	}
	for part := range strings.SplitSeq(value, ";") {
		if _, v, ok := strings.Cut(part, "="); ok {
			s.add(strings.TrimSpace(v))
		}
	}
}

func (s *secrets) addURL(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		return
	}
	password, _ := u.User.Password()
	s.add(password)
	for name, values := range u.Query() {
		if job.Sensitive(name) {
			for _, v := range values {
				s.add(v)
			}
		}
	}
}

// add adds a secret in the spellings in which an answer may repeat it.
func (s *secrets) add(secret string) {
	if len(secret) < shortestSecret {
		return
	}
	quoted, _ := json.Marshal(secret) // never fails for a string
	inJSON := string(quoted[1 : len(quoted)-1])
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	*s = append(*s, secret, inJSON, html.EscapeString(secret), query, path, lowerHex(query), lowerHex(path))
}

// lowerHex is a percent-encoded text with %3D written %3d.
func lowerHex(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1], b[i+2] = lower(b[i+1]), lower(b[i+2])
			i += 2
		}
	}
	return string(b)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'F' {
		return c + 'a' - 'A'
	}
	return c
}

// longest is how far beyond a cut a text must be read so that a secret across
// the cut is recognised.
func (s secrets) longest() int {
	if len(s) == 0 {
		return 0
	}
	return len(s[0])
}

// mask returns the first limit bytes of a text, at most, as valid UTF-8 and
// without secrets, also without the beginning of one that the limit cuts.
func (s secrets) mask(text string, limit int) string {
	if len(s) == 0 {
		return clip(text, limit)
	}
	var out strings.Builder
	for i := 0; i < len(text) && i < limit; {
		if n := s.at(text[i:]); n > 0 {
			out.WriteString(masked)
			i += n
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return clip(out.String(), limit)
}

// at is the length of the longest secret that a text begins with.
func (s secrets) at(text string) int {
	for _, secret := range s {
		if strings.HasPrefix(text, secret) {
			return len(secret)
		}
	}
	return 0
}

// clip is a text as valid UTF-8 of at most limit bytes.
func clip(text string, limit int) string {
	if len(text) > limit+utf8.UTFMax {
		text = text[:limit+utf8.UTFMax]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
