package cassandra

import "bytes"

// lastLines is the end of a text.
func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
