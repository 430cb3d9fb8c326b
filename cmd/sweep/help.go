package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/draw"
)

// helpWidth is the entry of the root command's metadata that has the width of help
// texts, a func() int.
const helpWidth = "help width"

// helpExample is the entry of a command's metadata that has an example of its group.
const helpExample = "help example"

// textWidth returns the columns of a text that only people read: the terminal's, and 80 if
// there is none.
func (a *app) textWidth() int {
	if a.outTTY {
		return a.outWidth()
	}
	return 80
}

// printHelp writes the help of a command, as a cli.HelpPrinterFunc. No line is wider
// than the terminal; the templates of the library never break the line of an option.
func printHelp(w io.Writer, _ string, data any) {
	c, ok := data.(*cli.Command)
	if !ok {
		return
	}
	width := 80
	if at, ok := c.Root().Metadata[helpWidth].(func() int); ok {
		width = at()
	}
	if c == c.Root() && len(c.VisibleCommands()) > 0 {
		printOverview(w, c, width)
		return
	}
	fmt.Fprintf(w, "NAME:\n  %s\n", plaintext.Wrap(c.FullName()+" - "+c.Usage, width-2, "    "))
	fmt.Fprintf(w, "\nUSAGE:\n  %s\n", plaintext.Wrap(helpUsage(c), width-2, "    "))
	if c.Description != "" {
		fmt.Fprintf(w, "\nDESCRIPTION:\n%s\n", helpText(c.Description, width))
	}
	page := draw.New(w, draw.Style{Width: width})
	if commands := c.VisibleCommands(); len(commands) > 0 {
		fmt.Fprint(w, "\nCOMMANDS:\n")
		var rows [][]string
		for _, sub := range commands {
			rows = append(rows, []string{strings.Join(sub.Names(), ", "), sub.Usage})
		}
		page.Rows(rows...)
	}
	var rows [][]string
	for _, f := range c.VisibleFlags() {
		if f.Names()[0] != "help" { // each command has it
			rows = append(rows, helpOption(f))
		}
	}
	if len(rows) > 0 {
		fmt.Fprint(w, "\nOPTIONS:\n")
		page.Rows(rows...)
	}
}

// printOverview writes what the program is for and its commands by what one wants, each on
// one line of at least 80 columns.
func printOverview(w io.Writer, root *cli.Command, width int) {
	fmt.Fprintln(w, plaintext.Wrap(root.Name+" "+root.Usage+".", width, ""))
	page := draw.New(w, draw.Style{Width: width})
	heading := ""
	var rows [][]string
	for _, c := range root.VisibleCommands() { // in the order of their headings
		if c.Category != heading {
			page.Rows(rows...)
			heading, rows = c.Category, nil
			example, _ := c.Metadata[helpExample].(string)
			fmt.Fprintf(w, "\n%s\n", plaintext.Wrap(heading+": $ "+example, width, "    "))
		}
		rows = append(rows, []string{fmt.Sprintf("%-10s", c.Name), c.Usage})
	}
	page.Rows(rows...)
	fmt.Fprintf(w, "\n%s\n", plaintext.Wrap("sweep COMMAND --help explains a command, and sweep help has more topics.", width, ""))
}

func helpUsage(c *cli.Command) string {
	parts := []string{c.FullName()}
	if len(c.VisibleFlags()) > 0 {
		parts = append(parts, "[options]")
	}
	if len(c.VisibleCommands()) > 0 {
		parts = append(parts, "[command [command options]]")
	}
	return strings.TrimSpace(strings.Join(append(parts, c.ArgsUsage), " "))
}

// helpText sets a description at a width: a paragraph anew, and a line that begins with
// a space as it is. Of an example that is too long, the comment stands above it.
func helpText(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, "  "+plaintext.Wrap(strings.Join(paragraph, " "), width-2, "  "))
			paragraph = nil
		}
	}
	for l := range strings.SplitSeq(text, "\n") {
		if l != "" && l[0] != ' ' {
			paragraph = append(paragraph, l)
			continue
		}
		end()
		lead := l[:len(l)-len(strings.TrimLeft(l, " "))]
		command, comment, found := strings.Cut(l, "  # ")
		switch {
		case l == "":
			out = append(out, "")
		case utf8.RuneCountInString(l)+2 <= width:
			out = append(out, "  "+l)
		case found && strings.HasPrefix(l, lead+"$"):
			out = append(out, "  "+lead+"# "+comment, helpText(strings.TrimRight(command, " "), width))
		case strings.HasPrefix(l, lead+"$"): // it can still be pasted
			broken := plaintext.Wrap(l, width-len(lead)-4, lead+"      ")
			out = append(out, "  "+lead+strings.ReplaceAll(broken, "\n", " \\\n"))
		default:
			lead += "  "
			out = append(out, lead+plaintext.Wrap(l, width-len(lead), lead+"    "))
		}
	}
	end()
	return strings.Join(out, "\n")
}

// helpOption returns the row of a flag: its names, the short one first, and its usage.
func helpOption(f cli.Flag) []string {
	head, usage, _ := strings.Cut(f.String(), "\t")
	head, _, repeated := strings.Cut(head, " [ ")
	if repeated && !strings.Contains(usage, "repeated") {
		usage += "; may be repeated"
	}
	names := strings.Split(head, ", ")
	value := ""
	for i, n := range names {
		names[i], value, _ = strings.Cut(n, " ")
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(a) - len(b) })
	return []string{strings.TrimSpace(strings.Join(names, ", ") + " " + value), strings.TrimSpace(usage)}
}
