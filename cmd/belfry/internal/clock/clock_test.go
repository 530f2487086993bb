package clock

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOnlyTestsMoveTheClock: what moves it is in no other build, and works in
// that one.
func TestOnlyTestsMoveTheClock(t *testing.T) {
	files := func(args ...string) string {
		out, err := exec.Command("go", append(append([]string{"list"}, args...), "-f", "{{.GoFiles}} {{.Imports}}", ".")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := files(); got != "[clock.go doc.go] [time]" {
		t.Errorf("the build is made of %s", got)
	}
	if got := files("-tags", "belfry_test_clock"); !strings.HasPrefix(got, "[doc.go moved.go]") {
		t.Errorf("the build of tests is made of %s", got)
	}
	cmd := exec.Command("go", "test", "-count=1", "-tags", "belfry_test_clock", "-run", "^TestMoved$", ".")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, out)
	}
}
