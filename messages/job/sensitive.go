package job

import (
	"slices"
	"strings"
)

// secretWords are parts of names whose values are taken for secrets, and
// secretNames are whole names.
var (
	secretWords = []string{"auth", "cookie", "token", "secret", "passw", "pwd", "apikey", "credential", "signature", "session", "jwt"}
	secretNames = []string{"key", "sig", "code", "pass", "access", "sas"}
)

// Sensitive tells whether the value of a header or query parameter of this name is
// taken for a secret: answers hide it, and so do stored errors and outputs.
func Sensitive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(name, w) }) ||
		slices.Contains(secretNames, name) || strings.HasSuffix(name, "-key") || strings.HasSuffix(name, "_key")
}
