package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	allbackends "sweep.dev/sweep/backends/all"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report/draw"
)

// An app is the program with all of the operating system that it uses.
type app struct {
	out, err io.Writer
	errTTY   bool // people are watching stderr
	outTTY   bool
	outWidth func() int // of the terminal on stdout
	env      func(string) (string, bool)
	exe      string // this program
	in       io.Reader
	inTTY    bool // somebody is there to be asked

	// backends is every backend there is, for commands that have no plan.
	backends func(*effect.Effects) []backends.Factory
}

func newApp() *app {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return &app{
		out: &output{w: os.Stdout}, err: os.Stderr,
		outTTY: isatty.IsTerminal(os.Stdout.Fd()), errTTY: isatty.IsTerminal(os.Stderr.Fd()),
		outWidth: func() int { columns, _ := sizeOf(os.Stdout); return columns },
		env:      os.LookupEnv, exe: exe,
		in: os.Stdin, inTTY: isatty.IsTerminal(os.Stdin.Fd()),
		backends: allbackends.Factories,
	}
}

// main runs the program and returns its exit code.
func (a *app) main(args []string) (code int) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(a.err, "sweep: panic: %v\n%s", v, debug.Stack())
			code = exitInternal
		}
	}()
	// A closed stdout must never kill a run (sweep run | head). A handler, not
	// Ignore: an ignored signal would be inherited by every engine we start.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	code = a.do(context.Background(), args)
	return worst(code, a.unwritten())
}

// do runs one command line and returns its exit code, which is not about what it could not
// write to stdout.
func (a *app) do(ctx context.Context, args []string) int {
	err := a.beside(a.root().Run(ctx, args))
	if err == nil {
		return exitOK
	}
	if text := printable(err); text != nil {
		a.complain(text)
	}
	return exitCode(err)
}

// complain prints an error for a person: a wrong plan with its snippets,
// anything else on one line.
func (a *app) complain(err error) {
	if diags, ok := errors.AsType[*plan.Diagnostics](err); ok {
		a.say("%s", diags.Pretty())
		fmt.Fprintf(a.err, "sweep: %s\n", humanize.Plural(len(diags.List)+diags.Omitted, "fault"))
		return
	}
	a.say("sweep: %v", err)
	if h, ok := errors.AsType[*hinted](err); ok {
		a.say("sweep: hint: %s", h.hint)
	}
}

// say prints a message on lines of its own, broken at the width of the terminal.
// Text that came from servers is made fit to be shown.
func (a *app) say(format string, args ...any) {
	text := plaintext.Lines(fmt.Sprintf(format, args...))
	if a.errTTY {
		width, _ := terminalSize()
		text = fold(text, width)
	}
	fmt.Fprintln(a.err, text)
}

// page returns a document on stdout.
func (a *app) page() *draw.Document { return draw.New(a.out, a.style()) }

// json encodes results to stdout.
func (a *app) json() *json.Encoder {
	enc := json.NewEncoder(plaintext.JSON(a.out))
	enc.SetIndent("", "  ")
	return enc
}

func (a *app) color() bool {
	no, _ := a.env("NO_COLOR")
	term, _ := a.env("TERM")
	return no == "" && term != "dumb"
}

func (a *app) root() *cli.Command {
	root := &cli.Command{
		Name:   "sweep",
		Usage:  "measures how much load an LLM inference server can carry, on which GPU, at what price",
		Writer: a.out, ErrWriter: a.err,
		Metadata:        map[string]any{helpWidth: a.textWidth},
		Suggest:         true,
		HideHelpCommand: true, // ours knows topics too
		// The default handler prints and exits by itself; only main exits.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError:   usageError,
		Flags:          []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version", Local: true}},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Bool("version") {
				return a.printVersion()
			}
			name := c.Args().First()
			if name == "" {
				return cli.ShowRootCommandHelp(c)
			}
			return unknownCommand(c, name)
		},
		Commands: slices.Concat(
			of("start", "sweep bench http://127.0.0.1:8000", a.benchCommand(), a.initCommand(), a.validateCommand(), a.planCommand()),
			of("measure", "sweep run plans/quickstart.yaml", a.runCommand(), a.resumeCommand()),
			of("results", "sweep cells --status invalid,failed", a.runsCommand(), a.cellsCommand(), a.reportCommand(), a.compareCommand(), a.exportCommand(), a.judgeCommand(), a.logsCommand()),
			of("nights", "sweep night run --keep 30 plans/chat-capacity.yaml", a.nightCommand()),
			of("machines", "sweep pods", a.podsCommand(), a.gcCommand(), a.doctorCommand(), a.probeCommand(), a.listCommand(), a.simCommand()),
			of("about sweep", "sweep help exit", a.helpCommand(), a.versionCommand(), a.completionCommand()),
			of("", "", a.workerCommand(), a.completeCommand(), a.filesCommand()),
		),
	}
	whole(root.Commands)
	return root
}

// of puts commands under a heading of the help, beside which an example stands.
func of(heading, example string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category, c.Metadata = heading, map[string]any{helpExample: example}
	}
	return commands
}

// whole takes a comma as a part of a flag's value, in all commands:
// --set matrix.concurrency=[1,2].
func whole(commands []*cli.Command) {
	for _, c := range commands {
		c.DisableSliceFlagSeparator = true
		whole(c.Commands)
	}
}

// oneArg returns the command's only argument.
func oneArg(c *cli.Command, what string) (string, error) {
	if c.Args().Len() != 1 {
		return "", &usage{fmt.Errorf("%s takes exactly one %s, got %d arguments (see: %s --help)", c.Name, what, c.Args().Len(), c.FullName())}
	}
	return c.Args().First(), nil
}
