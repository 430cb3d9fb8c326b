package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/result/meant"
)

// unknownCommand says which command was probably meant.
func unknownCommand(root *cli.Command, name string) error {
	var names []string
	for _, c := range root.Commands {
		names = append(names, c.Name)
	}
	near, hint := meant.Command(name, names)
	if hint == "" {
		near = cmp.Or(near, syntax.Nearest(name, names))
	}
	err := fmt.Errorf("no command %q (see: sweep --help)", name)
	if near != "" {
		err = fmt.Errorf("no command %q; did you mean %q?", name, near)
	}
	return explained(err, hint)
}

// usageError turns what the flag parser says into exit 2, without the help text.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
	if !unknown {
		return &usage{fmt.Errorf("%w (see: %s --help)", err, c.FullName())}
	}
	return unknownFlag(c, strings.TrimLeft(name, "-"))
}

// unknownFlag says which flag was probably meant, and how a key of the plan is
// set that many write as a flag.
func unknownFlag(c *cli.Command, name string) error {
	var names []string
	for _, f := range c.VisibleFlags() {
		names = append(names, f.Names()[0])
	}
	near, hint := meant.Flag(name, names)
	if near == "" && hint == "" {
		near = syntax.Nearest(name, names)
		path := planfile.KeyPath(name)
		if path != "" && slices.Contains(names, "set") && (near == "" || syntax.Distance(name, near) > 1) {
			near, hint = "", fmt.Sprintf("%s is a key of the plan: --set %[1]s=VALUE", path)
		}
	}
	flag := "--" + name
	if len(name) == 1 {
		flag = "-" + name
	}
	err := fmt.Errorf("%s has no flag %s (see: %[1]s --help)", c.FullName(), flag)
	if near != "" {
		err = fmt.Errorf("%s has no flag %s; did you mean --%s?", c.FullName(), flag, near)
	}
	return explained(err, hint)
}

func explained(err error, hint string) error {
	if hint != "" {
		err = &hinted{err, hint}
	}
	return &usage{err}
}
