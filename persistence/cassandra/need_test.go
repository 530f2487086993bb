package cassandra

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script puts a program into a folder. It finds nothing in PATH by itself.
func script(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\nPATH=/bin:/usr/bin\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// machine is an environment with nothing but the programs that are named.
func machine(t *testing.T, programs map[string]string) (bin, cache string) {
	t.Helper()
	bin, cache = t.TempDir(), t.TempDir()
	for name, body := range programs {
		script(t, bin, name, body)
	}
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("BELFRY_CACHE", cache)
	t.Setenv(HostsVariable, "")
	return bin, filepath.Join(cache, "cassandra-5.0.6")
}

const (
	java17 = `echo 'openjdk version "17.0.15" 2025-04-15' >&2`
	java21 = `echo 'openjdk version "21.0.1" 2023-10-17' >&2`
	java8  = `echo 'java version "1.8.0_392"' >&2`
)

func TestNeed(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string]string
		missing  string
	}{
		"nothing there": {nil, "java 17 (install OpenJDK 17, the test database runs on it; found no java)"},
		"java 21":       {map[string]string{"java": java21, "mvn": "true"}, "found BIN/java of version 21"},
		"java 8":        {map[string]string{"java": java8, "mvn": "true"}, "found BIN/java of version 1"},
		"broken java":   {map[string]string{"java": "exit 1", "mvn": "true"}, "BIN/java, which does not tell its version"},
		"silent java":   {map[string]string{"java": "true", "mvn": "true"}, "BIN/java, which does not tell its version"},
		"no mvn":        {map[string]string{"java": java17}, "mvn (install Apache Maven 3"},
		"all there":     {map[string]string{"java": java17, "mvn": "true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bin, _ := machine(t, c.programs)
			err := Need()
			if c.missing == "" {
				if err != nil {
					t.Errorf("need: %v", err)
				}
				return
			}
			want := strings.ReplaceAll(c.missing, "BIN", bin)
			if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("need: %v, want %s", err, want)
			}
		})
	}
}

// JAVA_HOME comes first, and PATH is looked at when it is no help.
func TestJavaHome(t *testing.T) {
	bin, _ := machine(t, map[string]string{"java": java17, "mvn": "true"})
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_HOME", home)
	for body, want := range map[string]string{
		java17: filepath.Join(home, "bin", "java"),
		java21: filepath.Join(bin, "java"),
	} {
		script(t, filepath.Join(home, "bin"), "java", body)
		if got, err := findJava(t.Context()); got != want || err != nil {
			t.Errorf("found %s, %v; want %s", got, err, want)
		}
	}
}

// A running server needs nothing of this machine.
func TestNeedExternal(t *testing.T) {
	machine(t, nil)
	t.Setenv(HostsVariable, "10.0.0.1:9042")
	if err := Need(); err != nil {
		t.Errorf("need: %v", err)
	}
}
