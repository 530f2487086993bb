// Package recorded reads conversations that were recorded on the wire.
package recorded

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// Line is one frame.
type Line struct {
	Number int
	Answer bool // from the server
	Bytes  []byte
}

// Read reads a file of lines "> hex" and "< hex"; those with # are comments.
func Read(t testing.TB, path string) []Line {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []Line
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		way, digits, ok := strings.Cut(in.Text(), " ")
		if !ok || way == "#" {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil || way != ">" && way != "<" {
			t.Fatalf("%s:%d: not a frame: %v", path, n, err)
		}
		lines = append(lines, Line{Number: n, Answer: way == "<", Bytes: b})
	}
	if in.Err() != nil || len(lines) == 0 {
		t.Fatalf("%s: %d frames, %v", path, len(lines), in.Err())
	}
	return lines
}
