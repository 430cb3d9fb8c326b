package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
)

// helpOf returns what a command prints with --help on a terminal of a width, 0 for a pipe.
func helpOf(t *testing.T, width int, path ...string) string {
	t.Helper()
	var out bytes.Buffer
	a := newApp()
	a.out, a.outTTY, a.outWidth = &out, width > 0, func() int { return width }
	if err := a.root().Run(context.Background(), slices.Concat([]string{"sweep"}, path, []string{"--help"})); err != nil {
		t.Fatalf("sweep %q --help: %v", path, err)
	}
	return out.String()
}

// No line of a help text is wider than 80 columns in a pipe, or than the terminal.
func TestHelp_width(t *testing.T) {
	t.Parallel()
	walked := 0
	var walk func(c *cli.Command, path []string)
	walk = func(c *cli.Command, path []string) {
		walked++
		for _, width := range []int{0, 60, 80, 120} {
			text := helpOf(t, width, path...)
			if len(text) < 80 {
				t.Errorf("sweep %q --help: %q", path, text)
			}
			if c.SkipFlagParsing && width != 0 && width != 80 {
				continue // a program with help of its own
			}
			bound := width
			if width == 0 {
				bound = 80
			}
			for l := range strings.SplitSeq(text, "\n") {
				if n := utf8.RuneCountInString(l); n > bound {
					t.Errorf("sweep %s --help: a line of %d columns, bound %d: %s", strings.Join(path, " "), n, bound, l)
				}
			}
		}
		for _, sub := range c.Commands {
			walk(sub, slices.Concat(path, []string{sub.Name}))
		}
	}
	for _, c := range newApp().root().Commands {
		if !c.Hidden {
			walk(c, []string{c.Name})
		}
	}
	walk(&cli.Command{}, nil)
	if walked < 30 {
		t.Fatalf("%d commands, want all", walked)
	}
}

// An option is broken below its own text, its short name stands first, and the comment
// of an example that is too long stands above it.
func TestHelp_form(t *testing.T) {
	t.Parallel()
	const want = `
OPTIONS:
  -o, --output FILE  write to FILE, which is replaced if it
                     exists; the rest is as it was before
  --set PATH=VALUE   set a PATH=VALUE; may be repeated
`
	c := &cli.Command{
		Name: "sweep", Usage: "measures", ArgsUsage: "PLAN", HideHelp: true,
		Description: "One\ntwo.\n\n  $ sweep run plans/quickstart.yaml --long-flag  # a comment of some words\n  $ sweep run  # short",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, which is replaced if it exists; the rest is as it was before"},
			&cli.StringSliceFlag{Name: "set", Usage: "set a `PATH=VALUE`"},
		},
		Metadata: map[string]any{helpWidth: func() int { return 60 }},
	}
	var out bytes.Buffer
	printHelp(&out, "", c)
	text := out.String()
	if !strings.HasSuffix(text, want) {
		t.Errorf("got\n%s\nwant the end\n%s", text, want)
	}
	const middle = "\n  One two.\n\n    # a comment of some words\n    $ sweep run plans/quickstart.yaml --long-flag\n    $ sweep run  # short\n"
	if !strings.Contains(text, middle) {
		t.Errorf("got\n%s\nwant in it\n%s", text, middle)
	}
}

// The overview is one screen: each command on one line, and below each heading those of an
// example that is one of them.
func TestHelp_overview(t *testing.T) {
	t.Parallel()
	text := helpOf(t, 80)
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	heading := ""
	for _, c := range newApp().root().VisibleCommands() {
		if !strings.Contains(text, fmt.Sprintf("\n  %-10s  %s\n", c.Name, c.Usage)) {
			t.Errorf("%s is not on one line:\n%s", c.Name, text)
		}
		if c.Category == heading {
			continue
		}
		heading = c.Category
		example, _ := c.Metadata[helpExample].(string)
		if !strings.Contains(text, "\n"+heading+": $ "+example+"\n") {
			t.Errorf("%s has no example:\n%s", heading, text)
		}
	}
}

// Every command names its own exit codes, and no plan that there is not.
func TestHelp_exit(t *testing.T) {
	t.Parallel()
	var walk func(c *cli.Command, path []string)
	walk = func(c *cli.Command, path []string) {
		if text := strings.Join(strings.Fields(helpOf(t, 80, path...)), " "); !c.SkipFlagParsing && !strings.Contains(text, "Exit status: 0 ok, ") {
			t.Errorf("sweep %q names no exit codes:\n%s", path, text)
		}
		for _, plan := range regexp.MustCompile(`plans/[a-z-]+\.yaml`).FindAllString(c.Description, -1) {
			if _, err := os.Stat("../../" + plan); err != nil {
				t.Errorf("sweep %q: %v", path, err)
			}
		}
		if len(path) > 0 && path[0] == "completion" {
			return // the library's, one for each shell
		}
		for _, sub := range c.Commands {
			walk(sub, slices.Concat(path, []string{sub.Name}))
		}
	}
	for _, c := range newApp().root().VisibleCommands() {
		walk(c, []string{c.Name})
	}
}

// Each exit code stands with its whole text, broken below its own beginning.
func TestWrapExit(t *testing.T) {
	t.Parallel()
	for _, e := range exitDocs {
		lines := strings.Split(wrapExit(e.doc), "\n")
		for i, l := range lines {
			if i > 0 && (!strings.HasPrefix(l, "       ") || strings.HasPrefix(l, "        ")) {
				t.Errorf("exit %d: line %d is not indented by 7: %q", e.code, i+1, l)
			}
			if utf8.RuneCountInString(l) > 71 {
				t.Errorf("exit %d: %q has more than 71 columns", e.code, l)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); got != e.doc {
			t.Errorf("exit %d: %q, want the words of %q", e.code, got, e.doc)
		}
	}
	if got, want := wrapExit("x "+strings.Repeat("y", 68)+" z"), "x "+strings.Repeat("y", 68)+"\n       z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
