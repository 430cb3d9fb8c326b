package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"
)

// version returns what the build knows of itself: a tag, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

// versionInfo is what sweep version --json prints.
type versionInfo struct {
	Version string   `json:"version"`
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Modules []module `json:"modules"`
}

// A module is one that the program was built from, in the terms of go.sum.
type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Sum     string `json:"sum,omitempty"` // none: the code was not checked against go.sum
}

// modules lists the modules whose code is in the program, by path; a replaced one
// as what it was replaced by. It is empty, not null, if the build does not say.
func modules() []module {
	list := []module{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return list
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, module{m.Path, m.Version, m.Sum})
	}
	return list
}

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:         "version",
		Usage:        "prints the version",
		Description:  "With --json also the modules that it was built from, with their checksums.\n\n  $ sweep version --json" + exitHelp(exitOK, exitUsage),
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print as JSON"}},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Bool("json") {
				e := json.NewEncoder(a.out)
				e.SetIndent("", "  ")
				return e.Encode(versionInfo{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, modules()})
			}
			return a.printVersion()
		},
	}
}

// printVersion prints the version on a line.
func (a *app) printVersion() error {
	_, err := fmt.Fprintf(a.out, "sweep %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
