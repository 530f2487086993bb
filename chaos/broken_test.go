package chaos

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBrokenBuildsAreCaught: a build without one of its guards fails the tests
// that the whole build passes, within 20 lives, histories or power cuts.
func TestBrokenBuildsAreCaught(t *testing.T) {
	t.Parallel()
	for _, b := range []struct {
		tag, pkg, run string
		cycles        string // a variable of that test
		says          string
	}{
		{"belfry_no_fence", "./persistence/cql", "^TestFightsUnderFaultsAreLinearizable$/^unfenced=false$", "", "Illegal"},
		{"belfry_no_wait", "./actors/partition", "^TestSimulation$", "BELFRY_SIM_SEEDS=20", "BELFRY_SIM_SEED="},
		{"belfry_no_wait", "./actors/partition", "^TestFleet$", "BELFRY_SIM_SEEDS=20", "BELFRY_SIM_SEED="},
		{"belfry_no_clock", "./actors/partition", "^TestFleet$", "BELFRY_SIM_SEEDS=20", " before "},
		{"belfry_no_sync", "./persistence/embedded", "^TestPowerCut$", "BELFRY_CRASH_POINTS=20", "acknowledged"},
	} {
		cmd := exec.Command("go", "test", "-count=1", "-timeout", "5m", "-tags", b.tag, "-run", b.run, b.pkg)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), b.cycles)
		out, err := cmd.CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, "--- FAIL") || !strings.Contains(text, b.says) {
			t.Errorf("%s with %s of %s: %v\n%s", b.tag, b.run, b.pkg, err, lastLines(text, 30))
		}
	}
}
