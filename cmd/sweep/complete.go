package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// The scripts of the shells ask this program for the words that may stand at the
// cursor, with the hidden command [completeCommandName]. They need no other package.
var (
	//go:embed completion/sweep.bash
	bashCompletion string
	//go:embed completion/sweep.zsh
	zshCompletion string
	//go:embed completion/sweep.fish
	fishCompletion string
)

// completeCommandName is what the scripts call, with the words of the command line after
// sweep: the last of them is completed. It prints one candidate a line, with a tab
// before its description. A candidate that ends in / or = goes on.
const completeCommandName = "__complete"

func (a *app) completeCommand() *cli.Command {
	return &cli.Command{
		Name:            completeCommandName,
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(_ context.Context, c *cli.Command) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			for _, w := range a.complete(c.Root(), words) {
				line := w.text
				if w.doc != "" {
					line += "\t" + w.doc
				}
				if _, err := fmt.Fprintln(a.out, line); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) completionCommand() *cli.Command {
	command := func(shell, script string) *cli.Command {
		return &cli.Command{
			Name:         shell,
			Usage:        "prints the script for " + shell,
			OnUsageError: usageError,
			Action: func(context.Context, *cli.Command) error {
				_, err := io.WriteString(a.out, script)
				return err
			},
		}
	}
	return &cli.Command{
		Name:  "completion",
		Usage: "prints the completion script for bash, zsh or fish",
		Description: `Completes commands, flags, plan files, run directories, cells, engines,
backends, axes, keys and columns.

  $ source <(sweep completion bash)  # in ~/.bashrc
  $ source <(sweep completion zsh)   # in ~/.zshrc
  $ sweep completion fish >~/.config/fish/completions/sweep.fish` + exitHelp(exitOK, exitUsage),
		Commands: []*cli.Command{
			command("bash", bashCompletion), command("zsh", zshCompletion), command("fish", fishCompletion),
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			shell := c.Args().First()
			if shell == "" {
				return cli.ShowSubcommandHelp(c)
			}
			return &usage{fmt.Errorf("completion: there is no script for %q, want bash, zsh or fish", shell)}
		},
	}
}

// A candidate is a word that may stand at the cursor.
type candidate struct{ text, doc string }

// A cursor is where on a command line a word is completed.
type cursor struct {
	part string   // the word's beginning, as far as it is typed
	args []string // arguments of the command before it
}

// A source lists the words that may stand at a cursor, whether they begin as it does
// or not.
type source func(*app, cursor) []candidate

// complete lists what the last of the words may be, beginning as it does.
func (a *app) complete(root *cli.Command, words []string) []candidate {
	c, name, at := root, root.Name, cursor{part: words[len(words)-1]}
	var open cli.Flag // waits for its value
	rest := false     // after --
	for _, w := range words[:len(words)-1] {
		flag, _, hasValue := strings.Cut(strings.TrimLeft(w, "-"), "=")
		switch {
		case open != nil:
			open = nil
		case rest:
			at.args = append(at.args, w)
		case w == "--":
			rest = true
		case strings.HasPrefix(w, "-") && w != "-":
			if f := namedFlag(c, flag); f != nil && takesValue(f) && !hasValue {
				open = f
			}
		default:
			if sub := c.Command(w); sub != nil && len(at.args) == 0 {
				c, name = sub, name+" "+sub.Name
				continue
			}
			at.args = append(at.args, w)
		}
	}
	var all []candidate
	switch flag, value, hasValue := strings.Cut(at.part, "="); {
	case open != nil:
		all = a.values(c, open, at)
	case strings.HasPrefix(at.part, "--") && hasValue && !rest:
		f := namedFlag(c, strings.TrimLeft(flag, "-"))
		if f == nil {
			return nil
		}
		at.part = value
		all = a.values(c, f, at)
		for i := range all {
			all[i].text = flag + "=" + all[i].text
		}
		return all
	case strings.HasPrefix(at.part, "-") && !rest:
		all = flags(c)
	default:
		if len(at.args) == 0 {
			all = subcommands(c)
		}
		if list := arguments()[name]; list != nil {
			all = append(all, list(a, at)...)
		}
	}
	return beginning(all, at.part)
}

// beginning returns the candidates that begin as a part does.
func beginning(all []candidate, part string) []candidate {
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.text, part) })
}

// values returns those of a flag. Those of a list are completed one by one.
func (a *app) values(c *cli.Command, f cli.Flag, at cursor) []candidate {
	list := flagValues()[f.Names()[0]]
	if own := flagValues()[c.Name+" "+f.Names()[0]]; own != nil {
		list = own
	}
	if list == nil {
		return nil
	}
	return beginning(list(a, at), at.part)
}

func namedFlag(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// flags returns the long ones of a command.
func flags(c *cli.Command) []candidate {
	var all []candidate
	for _, f := range c.VisibleFlags() {
		doc := ""
		if d, ok := f.(cli.DocGenerationFlag); ok {
			doc = brief(d.GetUsage())
		}
		all = append(all, candidate{"--" + f.Names()[0], doc})
	}
	return all
}

func subcommands(c *cli.Command) []candidate {
	var all []candidate
	for _, sub := range c.Commands {
		if !sub.Hidden {
			all = append(all, candidate{sub.Name, brief(sub.Usage)})
		}
	}
	return all
}

// longestDoc is where the description of a candidate is cut, in characters.
const longestDoc = 60

// brief returns a text that fits beside a candidate.
func brief(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "`", ""), "\t", " ")
	if r := []rune(text); len(r) > longestDoc {
		return strings.TrimRight(string(r[:longestDoc-1]), " ") + "…"
	}
	return text
}
