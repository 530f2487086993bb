package cassandra

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// mvnCounts writes one jar where it is told to, and a line for each run.
const mvnCounts = `
for a in "$@"; do case $a in -DoutputDirectory=*) into=${a#*=};; esac; done
test -f pom.xml || exit 9
echo run >> "$BELFRY_CACHE/runs"
echo jar > "$into/cassandra-all.jar"`

// Many that want the jars at once resolve them once, and later ones not at all.
func TestResolvedOnce(t *testing.T) {
	_, cache := machine(t, map[string]string{"java": java17, "mvn": mvnCounts})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := resolveJars(t.Context())
			if err != nil || dir != filepath.Join(cache, "jars") {
				t.Errorf("%s, %v", dir, err)
			}
		})
	}
	all.Wait()
	runs, err := os.ReadFile(filepath.Join(filepath.Dir(cache), "runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("Maven ran: %q, %v", runs, err)
	}
	if _, err := os.Stat(filepath.Join(cache, "jars", "cassandra-all.jar")); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir()) // Maven is not needed any more
	if _, err := resolveJars(t.Context()); err != nil {
		t.Errorf("from the cache: %v", err)
	}
}

// A resolution that failed half way is told in Maven's words, leaves nothing
// that is used, and does not stand in the way of the next.
func TestResolvedHalf(t *testing.T) {
	bin, cache := machine(t, map[string]string{"java": java17, "mvn": mvnCounts + "\necho no such artifact; exit 1"})
	if _, err := resolveJars(t.Context()); err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("resolve: %v", err)
	}
	if complete(cache) {
		t.Error("half of it is taken for all")
	}
	if err := os.MkdirAll(filepath.Join(cache, "resolving", "jars"), 0o755); err != nil { // a run that was killed
		t.Fatal(err)
	}
	script(t, bin, "mvn", mvnCounts)
	if _, err := resolveJars(t.Context()); err != nil {
		t.Errorf("resolve again: %v", err)
	}
}

// Jars of another pom are resolved anew.
func TestResolvedFromAnotherPom(t *testing.T) {
	_, cache := machine(t, map[string]string{"java": java17, "mvn": mvnCounts})
	if err := os.MkdirAll(jarDir(cache), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(jarDir(cache), markerName), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := resolveJars(t.Context()); err != nil || !complete(cache) {
		t.Errorf("resolve: %v, complete %v", err, complete(cache))
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("BELFRY_CACHE", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if dir, err := cacheDir(); err == nil || !strings.Contains(err.Error(), "BELFRY_CACHE") {
		t.Errorf("without a home: %s, %v", dir, err)
	}
	t.Setenv("XDG_CACHE_HOME", "/var/cache/of-mine")
	if dir, err := cacheDir(); err != nil || dir != "/var/cache/of-mine/belfry/cassandra-5.0.6" {
		t.Errorf("%s, %v", dir, err)
	}
}
