package importer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
)

func checkpoint(t *testing.T, file, server string) *importer.Checkpoint {
	t.Helper()
	c, err := importer.OpenCheckpoint(file, server, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckpointIsAboutOneFileAndOneServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := importer.Progress{Line: 7, Offset: 70, Created: 5, Updated: 1, Failed: 1}
	c := checkpoint(t, file, "http://a")
	if err := c.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := checkpoint(t, file, "http://a").Load(); err != nil || got != want {
		t.Errorf("Load = %+v, %v", got, err)
	}
	if got, err := checkpoint(t, file, "http://b").Load(); err != nil || got.Line != 0 {
		t.Errorf("another server: %+v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := checkpoint(t, file, "http://a").Load(); err != nil || got.Line != 0 {
		t.Errorf("a changed file: %+v, %v", got, err)
	}
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	if err := c.Done(); err != nil {
		t.Errorf("done twice: %v", err)
	}
	if got, err := c.Load(); err != nil || got.Line != 0 {
		t.Errorf("after Done: %+v, %v", got, err)
	}
}

func TestABrokenCheckpointIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	for name, text := range map[string]string{file: "{}\n", file + ".progress": "{"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := checkpoint(t, file, "http://a").Load(); err == nil {
		t.Error("it was read")
	}
}
