package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

// version is set by the linker in release builds.
var version string

// build is what `belfry version` prints.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitzero"`
	Built    string `json:"built,omitzero"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			return output.One(a.stdout, a.format, buildView(), thisBuild())
		},
	}
}

func buildView() output.View[build] {
	return output.View[build]{
		Name: func(b build) string { return b.Version },
		Columns: []output.Column[build]{
			{Header: "VERSION", Cell: func(b build) string { return b.Version }},
			{Header: "COMMIT", Cell: func(b build) string { return b.Commit }},
			{Header: "GO", Cell: func(b build) string { return b.Go }},
			{Header: "PLATFORM", Cell: func(b build) string { return b.Platform }},
		},
	}
}

func buildVersion() string { return thisBuild().Version }

// thisBuild reads what the toolchain recorded.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Built = s.Value
			}
		}
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "development"
	}
	return b
}
