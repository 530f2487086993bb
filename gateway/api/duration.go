package api

import (
	"fmt"
	"regexp"
	"time"
)

// Duration is a time.Duration that reads and writes as text: "1m30s".
type Duration time.Duration

// String is the duration as time.Duration prints it, without trailing zero
// units: "10m", not "10m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
	}
	if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
		s = s[:n-2]
	}
	return s
}

// MarshalText makes the duration a string in JSON and YAML.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// tooManyDecimals: Go drops what is below a nanosecond without a word.
var tooManyDecimals = regexp.MustCompile(`\.\d{7}`)

// UnmarshalText reads a Go duration: digits with a unit, such as "30s" or "1h30m".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf(`%.40q is not a duration: write digits with a unit, such as "30s", "10m" or "1h30m" (units: ms, s, m, h)`, text)
	}
	if tooManyDecimals.MatchString(string(text)) {
		return fmt.Errorf("%.40q has more than six decimals, and is not rounded: write whole milliseconds", text)
	}
	*d = Duration(v)
	return nil
}
