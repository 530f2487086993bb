package main

import (
	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/config"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

func newConfig(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Show the settings of a server",
	}, newConfigView(a))
}

func newConfigView(a *app) *cobra.Command {
	var (
		file   string
		origin bool
	)
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show the settings that `belfry server` would run with",
		Long: `Show the settings that "belfry server" would run with, given the same flags,
environment and file. The strongest layer wins: flag, BELFRY_* variable, file, default.`,
		Example: `  belfry config view --config belfry.yaml --show-origin
  belfry config view -o yaml > belfry.yaml`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, values, err := config.Load(a.sources(cmd, file))
			if err != nil {
				return &coded{exitUsage, err}
			}
			return a.printSettings(values, origin)
		},
	}
	a.addConfigFlag(cmd, &file)
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&origin, "show-origin", false, "show which layer each value came from")
	return cmd
}

func (a *app) addConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", a.env("BELFRY_CONFIG", ""), "YAML file with settings under the names of the flags (BELFRY_CONFIG)")
}

func (a *app) sources(cmd *cobra.Command, file string) config.Sources {
	return config.Sources{File: file, Environ: a.environ, Flags: cmd.Flags()}
}

// printSettings prints a list with origins, or without them the file that
// would say the same.
func (a *app) printSettings(values []config.Value, origin bool) error {
	if !origin && (a.format == output.YAML || a.format == output.JSON || a.format == output.JSONL) {
		return output.One(a.stdout, a.format, output.View[map[string]string]{}, asFile(values))
	}
	view := output.View[config.Value]{
		Name: func(v config.Value) string { return v.Key },
		Columns: []output.Column[config.Value]{
			{Header: "KEY", Cell: func(v config.Value) string { return v.Key }},
			{Header: "VALUE", Cell: func(v config.Value) string { return v.Value }},
		},
	}
	if origin {
		view.Columns = append(view.Columns, output.Column[config.Value]{Header: "ORIGIN", Cell: func(v config.Value) string { return v.Origin }})
	}
	return printAll(a, view, values)
}

func asFile(values []config.Value) map[string]string {
	file := make(map[string]string, len(values))
	for _, v := range values {
		file[v.Key] = v.Value
	}
	return file
}

// printAll prints a list that is already there.
func printAll[T any](a *app, view output.View[T], items []T) error {
	w := output.NewWriter(a.stdout, a.format, view)
	for _, item := range items {
		if err := w.Add(item); err != nil {
			return err
		}
	}
	return w.Close()
}
