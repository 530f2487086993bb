package execution

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// maxSecret bounds a secret, in bytes.
const maxSecret = 8 << 10

// Vault reads the secrets that jobs refer to, each time one is needed: a file or
// a variable that is replaced holds for the next request.
type Vault struct {
	// Dir is the directory below which jobs may name files; "": none may. A link
	// that leads out of it is not followed.
	Dir string
	// Getenv reads a variable of this node. nil: os.LookupEnv.
	Getenv func(name string) (string, bool)
}

// read returns a secret without the line break at its end.
func (v *Vault) read(text string) (string, error) {
	ref, err := job.ParseSecretRef(text)
	if err != nil {
		return "", err
	}
	secret, err := v.fetch(ref)
	if err != nil {
		return "", fmt.Errorf("the secret %s: %w", text, err)
	}
	if secret = strings.TrimRight(secret, "\r\n"); secret == "" {
		return "", fmt.Errorf("the secret %s is empty on this node", text)
	}
	return secret, nil
}

func (v *Vault) fetch(ref job.SecretRef) (string, error) {
	if ref.Path != "" {
		return v.file(ref.Path)
	}
	get := v.Getenv
	if get == nil {
		get = os.LookupEnv
	}
	secret, ok := get(ref.Env)
	if !ok {
		return "", errors.New("this node has no such variable")
	}
	return secret, nil
}

func (v *Vault) file(name string) (string, error) {
	inside, err := filepath.Rel(v.Dir, name)
	if v.Dir == "" || err != nil || !filepath.IsLocal(inside) {
		return "", errors.New("jobs may name files below the directory of --secrets-dir only")
	}
	root, err := os.OpenRoot(v.Dir)
	if err != nil {
		return "", bare(err)
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(inside)
	if err != nil {
		return "", bare(err)
	}
	defer func() { _ = f.Close() }()
	secret, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", bare(err)
	case len(secret) > maxSecret:
		return "", fmt.Errorf("it has more than %d bytes", maxSecret)
	}
	return string(secret), nil
}

// bare is the error of a file without its path, which the message has already.
func bare(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// reveal puts secrets in the place of the references in headers. It returns the
// headers themselves when there are none, and what it put in.
func (v *Vault) reveal(headers map[string]string) (out map[string]string, put []string, err error) {
	out = headers
	for name, value := range headers {
		before, ref, found := job.FindSecretRef(value)
		if !found {
			continue
		}
		secret, err := v.read(ref)
		if err != nil {
			return nil, nil, err
		}
		if put == nil {
			out = maps.Clone(headers)
		}
		out[name] = before + secret
		put = append(put, out[name])
	}
	return out, put, nil
}
