package cassandra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// javaVersion is the one that Cassandra 5.0 and our flags are made for.
const javaVersion = "17"

// ErrMissing is what an error wraps when a program that the database needs is
// not installed. Its message is one line that names the program.
var ErrMissing = errors.New("missing")

// Need says in one line what is missing to start the database; nil when nothing
// is. With BELFRY_TEST_CQL_HOSTS set nothing is needed, and with the jars in the
// cache Maven is not.
func Need() error {
	if external() != nil {
		return nil
	}
	if _, err := findJava(context.Background()); err != nil {
		return err
	}
	cache, err := cacheDir()
	if err != nil || complete(cache) {
		return err
	}
	_, err = findMaven()
	return err
}

func findMaven() (string, error) {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: mvn (install Apache Maven 3; it resolves the jars of the test database)", ErrMissing)
	}
	return mvn, nil
}

// findJava looks in JAVA_HOME, then in PATH, for the version that is needed.
func findJava(ctx context.Context) (string, error) {
	found := "no java"
	for _, java := range javas() {
		version, err := versionOf(ctx, java)
		if err != nil {
			found = java + ", which does not tell its version"
			continue
		}
		if version == javaVersion {
			return java, nil
		}
		found = java + " of version " + version
	}
	return "", fmt.Errorf("%w: java %s (install OpenJDK %[2]s, the test database runs on it; found %s)", ErrMissing, javaVersion, found)
}

func javas() []string {
	var all []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if java, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			all = append(all, java)
		}
	}
	if java, err := exec.LookPath("java"); err == nil {
		all = append(all, java)
	}
	return all
}

var versionLine = regexp.MustCompile(`version "(\d+)`)

// versionOf is a java's major version; 1 for version 8 and older.
func versionOf(ctx context.Context, java string) (string, error) {
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", err
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return "", errors.New("no version in what java -version prints")
	}
	return string(m[1]), nil
}
