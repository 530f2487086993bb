package cassandra

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed files/pom.xml
var pom []byte

// mavenTimeout bounds one resolution of the jars.
const mavenTimeout = 10 * time.Minute

// cacheDir is where the jars of this version lie between runs.
func cacheDir() (string, error) {
	root := os.Getenv("BELFRY_CACHE")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place for the jars of the test database, set BELFRY_CACHE: %w", err)
		}
		root = filepath.Join(user, "belfry")
	}
	return filepath.Join(root, "cassandra-5.0.6"), nil
}

// jarDir is the folder of jars in a cache. It appears there with all its jars, by
// a rename; the marker in it names the pom that they were resolved from.
func jarDir(cache string) string { return filepath.Join(cache, "jars") }

const markerName = "complete"

func complete(cache string) bool {
	marker, err := os.ReadFile(filepath.Join(jarDir(cache), markerName))
	return err == nil && bytes.Equal(marker, marking())
}

func marking() []byte {
	sum := sha256.Sum256(pom)
	return []byte("resolved from the pom with SHA-256 " + hex.EncodeToString(sum[:]) + "\n")
}

// resolveJars answers with the folder of jars, and fills it first when this is
// the first process that wants it.
func resolveJars(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	if complete(cache) {
		return jarDir(cache), nil
	}
	mvn, err := findMaven()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("cache of the test database: %w", err)
	}
	unlock, err := lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return "", fmt.Errorf("cache of the test database: %w", err)
	}
	defer unlock()
	if !complete(cache) { // nobody else did it while we waited
		err = fill(ctx, mvn, cache)
	}
	return jarDir(cache), err
}

// fill runs Maven into a folder beside and puts that in place. The caller holds
// the lock.
func fill(ctx context.Context, mvn, cache string) error {
	work := filepath.Join(cache, "resolving")
	into := filepath.Join(work, "jars")
	if err := os.RemoveAll(work); err != nil { // what a killed run left
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	if err := runMaven(ctx, mvn, work, into); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(into, markerName), marking(), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(jarDir(cache)); err != nil {
		return err
	}
	return os.Rename(into, jarDir(cache))
}

func runMaven(ctx context.Context, mvn, dir, into string) error {
	ctx, cancel := context.WithTimeout(ctx, mavenTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+into)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("resolve the jars of the test database with Maven: %w\n%s", err, lastLines(out, 20))
	}
	return nil
}
