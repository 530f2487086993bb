package main

import (
	"fmt"
	"strconv"
)

// limitFlag is how many entries of a list are shown at most; 0 shows all.
type limitFlag int

func (f *limitFlag) Set(v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return fmt.Errorf("write a number, or 0 for all")
	}
	*f = limitFlag(n)
	return nil
}

func (f *limitFlag) String() string { return strconv.Itoa(int(*f)) }

func (f *limitFlag) Type() string { return "int" }
