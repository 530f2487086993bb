package chaos

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest     = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	namedVariable = regexp.MustCompile("`(BELFRY_[A-Z_]+)`")
)

// TestMapOfPromises: every test and variable that docs/reliability.md names is
// there, and the Makefile sets no variable of scenarios that no test reads.
func TestMapOfPromises(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	doc, err2 := os.ReadFile("../docs/reliability.md")
	made, err3 := os.ReadFile("../Makefile")
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	code := tests.String()
	names := namedTest.FindAllStringSubmatch(string(doc), -1)
	for _, m := range names {
		if !strings.Contains(code, "func "+m[1]+"(t ") {
			t.Errorf("docs/reliability.md names %s, and there is none", m[1])
		}
	}
	if len(names) == 0 {
		t.Error("docs/reliability.md names no test")
	}
	for _, m := range namedVariable.FindAllStringSubmatch(string(doc), -1) {
		if !strings.Contains(code, `"`+m[1]+`"`) {
			t.Errorf("docs/reliability.md names %s, and no test reads it", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\b(BELFRY_(CHAOS|CRASH|FENCE|SIM|SOAK)_[A-Z_]+)=`).FindAllStringSubmatch(string(made), -1) {
		if !strings.Contains(code, `"`+m[1]+`"`) {
			t.Errorf("the Makefile sets %s, and no test reads it", m[1])
		}
	}
}
