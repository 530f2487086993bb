// Command belfry is a distributed job scheduler: a server that fires jobs when
// they are due, and the commands that talk to one.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is main with its exit code as a value.
func run(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ}
	ctx, stop := interruptible(context.Background(), a.hurried)
	defer stop()
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err)
	report(a.stderr, code, err)
	return code
}

// hurried does what the second signal asks for; false: nothing is left to do.
func (a *app) hurried() bool {
	hurry := a.hurry.Swap(nil)
	if hurry == nil {
		return false
	}
	(*hurry)()
	return true
}
