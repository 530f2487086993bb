package job

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// SecretEnvPrefix begins the names of the environment variables of a node that
// jobs may refer to: a job that could name any would read the node's own secrets
// and send them to its target.
const SecretEnvPrefix = "BELFRY_SECRET_"

// MaxSecretRef bounds the length of a reference, in bytes.
const MaxSecretRef = 512

const (
	envScheme  = "env://"
	fileScheme = "file://"
)

// A SecretRef says where a secret is, which is read right before it is used and
// stored nowhere: env://BELFRY_SECRET_NAME, a variable of the node that sends, or
// file:///path, a file below that node's directory of secrets.
type SecretRef struct {
	Env  string // name of the variable; "": it is a file
	Path string // clean and absolute
}

// ParseSecretRef reads a reference. The error says what is allowed, and does not
// repeat the text, which may be a secret by mistake.
func ParseSecretRef(text string) (SecretRef, error) {
	name, isEnv := strings.CutPrefix(text, envScheme)
	file, isFile := strings.CutPrefix(text, fileScheme)
	switch {
	case len(text) > MaxSecretRef:
		return SecretRef{}, fmt.Errorf("it has %d bytes, and a reference to a secret at most %d", len(text), MaxSecretRef)
	case isEnv && secretVariable(name):
		return SecretRef{Env: name}, nil
	case isEnv:
		return SecretRef{}, fmt.Errorf("a variable that jobs may refer to is named %s… with A-Z 0-9 _ only, so that no job can read others of the server", SecretEnvPrefix)
	case isFile && plainText(file) && strings.HasPrefix(file, "/") && path.Clean(file) == file && file != "/":
		return SecretRef{Path: file}, nil
	case isFile:
		return SecretRef{}, errors.New(`a file is written file:///directory/name: absolute, and without ".", ".." or doubled slashes`)
	}
	return SecretRef{}, fmt.Errorf("a secret is referred to as env://%sNAME or file:///path: its value is never part of a job", SecretEnvPrefix)
}

// FindSecretRef finds the reference in the value of a header: all of it, or what
// follows the last blank, as in "Bearer env://BELFRY_SECRET_TOKEN".
func FindSecretRef(value string) (before, ref string, found bool) {
	at := strings.LastIndexByte(value, ' ') + 1
	if last := value[at:]; strings.HasPrefix(last, envScheme) || strings.HasPrefix(last, fileScheme) {
		return value[:at], last, true
	}
	return "", "", false
}

// checkReference finds what is wrong with the references to secrets in the value
// of a header, if it holds any.
func checkReference(value string) error {
	before, ref, found := FindSecretRef(value)
	if !found {
		before = value
	}
	if mentionsSecret(before) {
		return errors.New("a reference is all of the value, or what follows its last blank: elsewhere it would be sent as it is written")
	}
	if !found {
		return nil
	}
	_, err := ParseSecretRef(ref)
	return err
}

// mentionsSecret reports whether a text holds what is meant as a reference.
func mentionsSecret(text string) bool {
	return strings.Contains(strings.ToUpper(text), strings.ToUpper(envScheme)+SecretEnvPrefix)
}

func secretVariable(name string) bool {
	rest, ok := strings.CutPrefix(name, SecretEnvPrefix)
	return ok && rest != "" && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}
