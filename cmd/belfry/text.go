package main

import "errors"

// textFlag is a text that is not empty, as a flag. An empty one is refused, as in
// the API: it comes from a variable that is not set, and hardly means that which
// holds without the flag.
type textFlag struct{ text *string }

func (f textFlag) Set(v string) error {
	if v == "" {
		return errors.New("it is empty: give it a value, or leave the flag out")
	}
	*f.text = v
	return nil
}

func (f textFlag) String() string {
	if f.text == nil {
		return ""
	}
	return *f.text
}

// Type is shown in help.
func (f textFlag) Type() string { return "string" }
