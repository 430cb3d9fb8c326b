package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly"
	"sweep.dev/sweep/nightly/gate"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/metric"
	"sweep.dev/sweep/result/noise"
)

// gateName is the command whose output is a board, also if it measures.
const gateName = "gate"

func (a *app) gateCommand() *cli.Command {
	return &cli.Command{
		Name:      gateName,
		Usage:     "says whether a run is worse than the nights before it",
		ArgsUsage: "[DIR]",
		Description: fmt.Sprintf(`Adds the cells of the run directory DIR to the history and holds each figure against
the band of its last %d nights: what differs between nights, at least %.0f %%. Without
DIR it is the latest run under runs/.

A regression (exit 98) is worse than the band for two nights running, or by %d standard
deviations in one. The band does not move meanwhile; sweep night accept makes the new
level normal. With fewer than %d nights there is no band and the gate learns, unless
--noise says how far nights are apart. A new release of the engine is named, and is no
new series.

--rerun measures the cells again that are worse for the first night, on fresh launches:
what is worse again is a regression tonight, and what is not is withdrawn. It shows what
it costs and asks, as any run.

  $ sweep night gate --history chat.jsonl
  $ sweep night gate --history chat.jsonl --max-regression 5%% --strict runs/tonight
  $ sweep night gate --history chat.jsonl --metric p50_ttft_ms --metric throughput_tok_s
  $ sweep night gate --history chat.jsonl --rerun --yes --max-cost 2 runs/tonight
  $ sweep night gate --history chat.jsonl --json runs/tonight`, gate.Window, 100*gate.MinChange, gate.AtOnce, gate.MinNights) + exitHelp(),
		Flags: append([]cli.Flag{
			historyFlag(),
			&cli.StringFlag{Name: "max-regression", Usage: "a `SHARE` (5% or 0.05) by which a figure may be worse; one that cannot be told from noise is too noisy", DefaultText: "what the band allows"},
			noiseFlag(),
			metricFlag("judge the column `METRIC`; may be repeated", gatedNames()),
			allowMissing(),
			&cli.BoolFlag{Name: "strict", Usage: "learning and too noisy are exit 3 and not 0"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
			&cli.BoolFlag{Name: "rerun", Usage: "measure the cells again that are worse for the first night, in DIR" + rerunSuffix + "; the flags below are for this run"},
		}, flagsWithout(runFlags(), "json", "strict", "keep-pod", "verbose", "events")...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			dir, err := a.runDir(c)
			if err != nil {
				return err
			}
			return a.gate(ctx, c, dir)
		},
	}
}

func historyFlag() cli.Flag {
	return &cli.StringFlag{Name: "history", Usage: "the history of nights is `FILE`; what adds to it makes it if there is none", Required: true}
}

func metricFlag(usage string, standard []string) cli.Flag {
	return &cli.StringSliceFlag{Name: "metric", Usage: usage, DefaultText: strings.Join(standard, ", ")}
}

// metricNames returns the columns of which a history keeps figures.
func metricNames() (names []string) {
	for _, m := range metric.Kept() {
		names = append(names, m.Column)
	}
	return names
}

func gatedNames() (names []string) {
	for _, m := range metric.Kept() {
		if m.Gated {
			names = append(names, m.Column)
		}
	}
	return names
}

// metricsAsked returns those of --metric, or those that are gated.
func metricsAsked(c *cli.Command) ([]metric.Metric, error) {
	names := c.StringSlice("metric")
	if len(names) == 0 {
		names = gatedNames()
	}
	var list []metric.Metric
	for _, name := range names {
		m, ok := metric.Of(name)
		if !ok || !m.Kept {
			return nil, &usage{fmt.Errorf("--metric %s: a history keeps %s", plaintext.Word(name), strings.Join(metricNames(), ", "))}
		}
		list = append(list, m)
	}
	return list, nil
}

// gate adds a run to the history and judges it.
func (a *app) gate(ctx context.Context, c *cli.Command, dir string) error {
	q, err := a.gateQuestion(c)
	if err != nil {
		return err
	}
	run, err := a.addNight(ctx, c, dir)
	if err != nil {
		return err
	}
	if len(history.Nights(run)) == 0 { // which addNight has said
		return exitWith(exitIncomplete)
	}
	board, holes, err := a.judge(c, run, q)
	if err != nil {
		return err
	}
	var short error // why there is no second measurement
	if fresh := board.Fresh(); c.Bool("rerun") && len(fresh) > 0 {
		again, more, err := a.rerun(ctx, c, run, q, fresh)
		if short = err; err == nil {
			board, holes = again, more
		}
	}
	if c.Bool("json") {
		err = a.json().Encode(board.Document(holes))
	} else {
		err = board.Write(a.out, holes)
	}
	if err = a.beside(err); err != nil {
		return errors.Join(short, err)
	}
	code := gateCode(board, holes, c.Bool("strict"), c.Bool("allow-missing"))
	if code == exitRegression {
		a.next(fmt.Sprintf("sweep night accept --history %s %s, if this is the new normal", plaintext.Word(c.String("history")), plaintext.Word(dir)))
	}
	if short != nil {
		if text := printable(short); text != nil {
			a.complain(text)
		}
		code = worstJudged(exitCode(short), code)
	}
	return exitWith(code)
}

// gateQuestion returns what the command line asks, of no run yet.
func (a *app) gateQuestion(c *cli.Command) (q nightly.Question, err error) {
	if q.Metrics, err = metricsAsked(c); err != nil {
		return q, err
	}
	if c.IsSet("max-regression") {
		if q.Rule.Threshold, err = shareOf(c.String("max-regression")); err != nil {
			return q, &usage{fmt.Errorf("--max-regression %w", err)}
		}
	}
	known, err := openNoise(c.String("noise"))
	if known != nil {
		q.Noise = func(cell, column string, trials int) *gate.Noise { return nightNoise(known, cell, column, trials) }
	}
	return q, err
}

// nightNoise returns how far nights with so many trials are apart, as a noise file says; nil
// if it does not.
func nightNoise(f *noise.File, cell, column string, trials int) *gate.Noise {
	s, ok := f.Find(cell, column)
	if !ok {
		return nil
	}
	square := s.Between * s.Between
	if s.Within != nil {
		square += *s.Within * *s.Within / float64(max(1, trials))
	}
	return &gate.Noise{SD: math.Sqrt(square), DF: s.BetweenDF}
}

// judge holds a run that is in the history against the nights before it.
func (a *app) judge(c *cli.Command, run *report.Run, q nightly.Question) (*nightly.Board, []string, error) {
	f, err := readHistory(c.String("history"))
	if err != nil {
		return nil, nil, err
	}
	q.Run = run.State.Manifest.RunID
	board, err := nightly.Ask(f, q)
	if err != nil {
		return nil, nil, &usage{err}
	}
	return board, nightly.Holes(run, history.Nights(run)), nil
}

// gateCode returns the exit code of a board. With missing, cells that nothing is known of do not
// count.
func gateCode(b *nightly.Board, holes []string, strict, missing bool) int {
	count := b.Count()
	var codes []int
	if (len(holes) > 0 || count[gate.Missing] > 0) && !missing || len(b.Series) == 0 || strict && count[gate.Learning]+count[gate.TooNoisy] > 0 {
		codes = append(codes, exitIncomplete)
	}
	if count[gate.Regression] > 0 {
		codes = append(codes, exitRegression)
	}
	return worstJudged(codes...)
}

func (a *app) acceptCommand() *cli.Command {
	return &cli.Command{
		Name:      "accept",
		Usage:     "says that what a run came to is the new normal",
		ArgsUsage: "[DIR]",
		Description: `After a regression the band of sweep night gate stays where it was until figures are back
in it, or until somebody accepts the new level. This accepts that of the run directory
DIR, or of the latest run under runs/: its nights outside the band, since the first of
them, become the band's.

  $ sweep night accept --history chat.jsonl runs/tonight
  $ sweep night accept --history chat.jsonl --cell 3fa9c1d20b7e --note 'prefix cache off' runs/tonight` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: []cli.Flag{
			historyFlag(),
			&cli.StringFlag{Name: "cell", Usage: "accept it of the cell `ID` alone", DefaultText: "all cells of the run"},
			&cli.StringFlag{Name: "note", Usage: "keep a `TEXT` with it"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			dir, err := a.runDir(c)
			if err != nil {
				return err
			}
			return a.acceptNight(ctx, c, dir)
		},
	}
}

// addNight adds a run to the history.
func (a *app) addNight(ctx context.Context, c *cli.Command, dir string) (*report.Run, error) {
	run, holder, err := openRun(dir)
	if err != nil {
		return nil, err
	}
	if holder != nil {
		return nil, &usage{fmt.Errorf("%s is still being measured: a night is added once its run has ended", plaintext.Word(dir))}
	}
	path := c.String("history")
	nights := history.Nights(run)
	fx, err := a.effects()
	if err != nil {
		return nil, err
	}
	added, err := history.Add(ctx, fx, path, nights, history.SettingsOf(run))
	if err != nil {
		return nil, unusableHistory(err)
	}
	if added.Torn > 0 {
		a.say("sweep: %s: a line that was not written whole was cut off its end (%s)", plaintext.Word(path), humanize.Plural(added.Torn, "byte"))
	}
	switch {
	case len(nights) == 0:
		a.say("%s: nothing was measured in this run", plaintext.Word(dir))
	case added.New+added.Replaced == 0:
		a.say("%s has this run already", plaintext.Word(path))
	default:
		text := fmt.Sprintf("%s: %s added", plaintext.Word(path), humanize.Plural(added.New, "cell"))
		if added.Replaced > 0 {
			text += fmt.Sprintf(", %d brought up to date", added.Replaced)
		}
		a.say("%s", text)
	}
	return run, nil
}

func (a *app) acceptNight(ctx context.Context, c *cli.Command, dir string) error {
	run, _, err := openRun(dir)
	if err != nil {
		return err
	}
	path, id, cell := c.String("history"), run.State.Manifest.RunID, c.String("cell")
	f, err := readHistory(path)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(f.Nights, func(n history.Night) bool { return n.Run == id && (cell == "" || n.Cell == cell) }) {
		what := "this run"
		if cell != "" {
			what = "the cell " + plaintext.Word(cell) + " of this run"
		}
		return &usage{&hinted{fmt.Errorf("%s has nothing of %s", plaintext.Word(path), what), "sweep night gate adds a run, and sweep cells lists its cells"}}
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	err = history.AcceptLevel(ctx, fx, path, history.Accept{Date: time.Now().UTC().Truncate(time.Second), Run: id, Cell: cell, Note: c.String("note")})
	if err != nil {
		return unusableHistory(err)
	}
	a.say("%s: the level of run %s is normal from now on", plaintext.Word(path), id)
	return nil
}

func readHistory(path string) (*history.File, error) {
	f, err := history.Read(path)
	if err != nil {
		return nil, unusableHistory(err)
	}
	return f, nil
}

// unusableHistory says of an error of a history what to do.
func unusableHistory(err error) error {
	foreign, order := (*history.ForeignError)(nil), (*history.OrderError)(nil)
	switch {
	case errors.As(err, &order):
		return &usage{&hinted{err, "set the clock right; if the newer night is the wrong one, take its lines out of the file; older runs make a history of their own, the oldest first"}}
	case errors.As(err, &foreign) && foreign.Line == 1:
		return &usage{&hinted{err, "--history names a file that sweep has made, or one that does not exist"}}
	case errors.As(err, &foreign):
		return &usage{&hinted{err, "sweep changes no line; take that one out, or go on from a copy of the file"}}
	case errors.Is(err, fs.ErrNotExist):
		return &usage{&hinted{fmt.Errorf("--history: %w", err), "sweep night run and sweep night gate make the file"}}
	case errors.Is(err, fs.ErrPermission):
		return &usage{fmt.Errorf("--history: %w", err)}
	}
	return err
}
