package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"
)

// version is what the build knows of itself: a tag, or the commit.
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

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:         "version",
		Usage:        "prints the version",
		Description:  "  $ sweep version --json" + exitHelp(exitOK, exitUsage),
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print as JSON"}},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Bool("json") {
				return json.NewEncoder(a.out).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(a.out, "sweep %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
