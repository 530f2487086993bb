package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// hidden stands for a stored secret in answers. Sent back, it keeps what is
// stored.
const hidden = "***"

// schemes may stand before a reference to a secret and tell nothing of it.
var schemes = []string{"", "bearer ", "basic ", "token "}

// refersToSecret tells whether a value says only where a secret is.
func refersToSecret(value string) bool {
	before, _, found := job.FindSecretRef(value)
	return found && slices.Contains(schemes, strings.ToLower(before))
}

// maskHeaders hides the values of headers that carry secrets.
func maskHeaders(headers map[string]string) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(headers))
	for name, v := range headers {
		if job.Sensitive(name) && !refersToSecret(v) {
			v = hidden
		}
		out[name] = v
	}
	return out
}

// maskURL hides the values of query parameters that carry secrets, and leaves
// every other byte as it is.
func maskURL(raw string) string {
	return mapQuery(raw, func(string, int, string) string { return hidden })
}

// mapQuery replaces the value of each sensitive query parameter. nth counts the
// parameters of one name.
func mapQuery(raw string, value func(name string, nth int, old string) string) string {
	base, query, found := strings.Cut(raw, "?")
	if !found {
		return raw
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	pairs := strings.Split(query, "&")
	seen := map[string]int{}
	for i, pair := range pairs {
		name, old, _ := strings.Cut(pair, "=")
		if !sensitiveParam(name) {
			continue
		}
		pairs[i] = name + "=" + value(name, seen[name], old)
		seen[name]++
	}
	out := base + "?" + strings.Join(pairs, "&")
	if hasFragment {
		out += "#" + fragment
	}
	return out
}

// sensitiveParam judges the name of a query parameter as that of a header.
func sensitiveParam(name string) bool {
	plain, err := url.QueryUnescape(name)
	if err != nil {
		plain = name
	}
	return job.Sensitive(plain)
}

// keepSecrets puts stored secrets in the place of ***.
func keepSecrets(spec *job.Spec, old prior, problems *[]job.Problem) error {
	h := spec.Target.HTTP
	if h == nil || !mentionsHidden(h) {
		return nil
	}
	before, err := old()
	if err != nil {
		return err
	}
	var stored *belfryv1.HTTPTarget
	if before != nil {
		stored = before.spec.GetTarget().GetHttp()
	}
	if moved := movedTo(stored.GetUrl(), h.URL); moved != "" {
		*problems = append(*problems, job.Refuse("target.http.url", `the target moves to %s, and a secret that is stored for another place is not sent there: send the values themselves in the place of "***"`, clip(moved)).Problems...)
		return nil
	}
	for name, v := range h.Headers {
		if v != hidden || !job.Sensitive(name) {
			continue
		}
		secret, ok := headerOf(stored.GetHeaders(), name)
		if !ok {
			*problems = append(*problems, job.Refuse("target.http.headers."+name, `"***" stands for a stored secret, and none is stored under this name: send the value itself`).Problems...)
			continue
		}
		h.Headers[name] = secret
	}
	h.URL = keepParams(h.URL, stored.GetUrl(), problems)
	return nil
}

// movedTo is the scheme, host and port of a URL when they are not those of the
// stored one; "": they are, or nothing is stored.
func movedTo(stored, raw string) string {
	was, err := url.Parse(stored)
	now, bad := url.Parse(raw)
	if stored == "" || err != nil || bad != nil || strings.EqualFold(was.Scheme, now.Scheme) && strings.EqualFold(was.Host, now.Host) {
		return ""
	}
	return now.Scheme + "://" + now.Host
}

func mentionsHidden(h *job.HTTPTarget) bool {
	for name, v := range h.Headers {
		if v == hidden && job.Sensitive(name) {
			return true
		}
	}
	return strings.Contains(h.URL, hidden)
}

func headerOf(headers map[string]string, name string) (string, bool) {
	for n, v := range headers {
		if http.CanonicalHeaderKey(n) == http.CanonicalHeaderKey(name) {
			return v, true
		}
	}
	return "", false
}

func keepParams(raw, stored string, problems *[]job.Problem) string {
	secrets := map[string][]string{}
	mapQuery(stored, func(name string, _ int, old string) string {
		secrets[name] = append(secrets[name], old)
		return old
	})
	return mapQuery(raw, func(name string, nth int, value string) string {
		switch {
		case value != hidden:
			return value
		case nth < len(secrets[name]):
			return secrets[name][nth]
		}
		*problems = append(*problems, job.Refuse("target.http.url", `"***" stands for a stored secret, and none is stored for the parameter %s: send the value itself`, clip(name)).Problems...)
		return value
	})
}
