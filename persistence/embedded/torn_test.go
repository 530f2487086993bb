package embedded

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTornLastWrite cuts the log at places in its last record, with nothing,
// zeros or rubbish where the rest should be. The commit before must be there;
// the last one is there as a whole or not at all.
func TestTornLastWrite(t *testing.T) {
	sc := newScript(t)
	disk := vfs.NewMem()
	s := openMem(t, disk)
	const steps = 12
	var from, to int
	for n := int64(1); n <= steps; n++ {
		from = len(readLog(t, disk))
		if err := sc.play(t.Context(), s, 0, n); err != nil {
			t.Fatal(err)
		}
		to = len(readLog(t, disk))
	}
	whole := readLog(t, disk)[:to]
	rng := rand.New(rand.NewPCG(sc.seed, 2))
	cuts := 0
	for cut := from; cut < to; cut += 1 + rng.IntN(200) {
		for name, tail := range tails(rng, to-cut) {
			cuts++
			if _, err := openTorn(t, sc, disk, slices.Concat(whole[:cut], tail), steps); err != nil {
				t.Fatalf("cut after %d of %d bytes of the last record, then %s: %v", cut-from, to-from, name, err)
			}
		}
	}
	if n, err := openTorn(t, sc, disk, whole, steps); err != nil || n != steps {
		t.Fatalf("the whole log: %d steps, %v", n, err)
	}
	t.Logf("%d torn logs", cuts)
}

func tails(rng *rand.Rand, n int) map[string][]byte {
	rubbish := make([]byte, n)
	for i := range rubbish {
		rubbish[i] = byte(rng.Uint32())
	}
	return map[string][]byte{"nothing": nil, "zeros": make([]byte, n), "rubbish": rubbish}
}

func logName(fs vfs.FS) (name string, err error) {
	names, err := fs.List("data")
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			name = fs.PathJoin("data", n)
		}
	}
	if name == "" {
		err = errors.Join(err, fmt.Errorf("no log among %v", names))
	}
	return name, err
}

func readLog(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	name, err := logName(fs)
	if err != nil {
		t.Fatal(err)
	}
	return readFile(t, fs, name)
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openTorn opens a copy of the directory with another log, and tells how many
// steps it holds.
func openTorn(t *testing.T, sc script, disk vfs.FS, log []byte, steps int64) (int64, error) {
	t.Helper()
	copied := vfs.NewMem()
	if _, err := vfs.Clone(disk, copied, "data", "data"); err != nil {
		return 0, err
	}
	name, err := logName(copied)
	if err != nil {
		return 0, err
	}
	writeFile(t, copied, name, slices.Clone(log))
	s, err := Open(small(copied))
	if err != nil {
		return 0, err
	}
	defer mustClose(t, s)
	return sc.verify(t.Context(), s, 0, steps-1, steps)
}
