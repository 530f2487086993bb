// Package output writes data to stdout in the formats of -o, and tells
// terminals from pipes.
package output

import (
	"fmt"
	"slices"
	"strings"
)

// Format is how data is written.
type Format string

// The formats of -o.
const (
	Table Format = "table" // for people
	JSON  Format = "json"  // one document, indented
	JSONL Format = "jsonl" // one item a line, as it comes
	YAML  Format = "yaml"  // `jobs apply -f` reads it back
	Name  Format = "name"  // ids only, one a line
)

// Formats lists them all.
func Formats() []string {
	return []string{string(Table), string(JSON), string(JSONL), string(YAML), string(Name)}
}

// Set, String and Type make a Format a flag value, so that a wrong one is a
// usage error.
func (f *Format) Set(v string) error {
	if !slices.Contains(Formats(), v) {
		return fmt.Errorf("use one of %s", strings.Join(Formats(), ", "))
	}
	*f = Format(v)
	return nil
}

func (f *Format) String() string { return string(*f) }

// Type is shown in help.
func (f *Format) Type() string { return strings.Join(Formats(), "|") }
