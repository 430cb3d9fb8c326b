package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/bench"
	"sweep.dev/sweep/report/draw"
)

// Bounds of a load whose flags give none: it ends at the first of them.
const (
	benchDuration = 2 * time.Minute
	benchRequests = 2000
	// benchRounds is how many requests each worker has at least.
	benchRounds = 20
)

// benchPoint is that of the file of --write-plan: it has no fault points of its own.
const benchPoint effect.Point = "bench.plan"

func (a *app) benchCommand() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "measures a running server at a few loads, without a plan",
		ArgsUsage: "URL",
		Description: `Asks URL for its model and engine, sends it each load in turn, and prints a
row for each: output tokens/s, latencies with the interval of the p95, and
which load is the sweet spot. The server is not changed, and what is sent is
announced first.

It writes a plan and runs it, so the run directory is like that of sweep
run, and sweep resume, runs, cells and report work with it. The key is read
from the environment variable that --key-env names, or from the file that
--key-file names.

  $ sweep bench http://127.0.0.1:8000
  $ sweep bench http://127.0.0.1:8000 -c 1,8,32 --input 512 --output 128 --slo 'p95_ttft_ms < 300'
  $ sweep bench http://127.0.0.1:8000 --rate 1,4 --duration 30s
  $ sweep bench https://llm.example.com --key-env LLM_KEY --model m -c 1 --requests 20` + exitHelp(),
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "concurrency", Aliases: []string{"c"}, Usage: "closed loop: `LIST` of requests in flight at once", DefaultText: "1,4,16"},
			&cli.StringFlag{Name: "rate", Usage: "open loop instead: `LIST` of requests sent per second, whether or not earlier ones have ended"},
			&cli.StringFlag{Name: "input", Usage: "`TOKENS` of each prompt", Value: "512"},
			&cli.StringFlag{Name: "output", Usage: "output `TOKENS` of each request", Value: "128"},
			&cli.IntFlag{Name: "requests", Usage: "end each load after `N` requests", Validator: positive[int], DefaultText: fmt.Sprintf("%d, or sooner when its p95 TTFT is known", benchRequests)},
			&cli.DurationFlag{Name: "duration", Usage: "end each load after `TIME`", Validator: positive[time.Duration], DefaultText: fmt.Sprintf("%v, or sooner when its p95 TTFT is known", benchDuration)},
			&cli.StringSliceFlag{Name: "slo", Usage: "an objective that a load has to meet: `EXPR` over the columns of the cells table"},
			&cli.StringFlag{Name: "model", Usage: "ask for this `MODEL`; needed if the server has several"},
			&cli.FloatFlag{Name: "usd-per-hour", Usage: "the whole server costs `USD` for an hour: prints the price of a million output tokens", Validator: positive[float64]},
			&cli.DurationFlag{Name: "think-time", Usage: "a person takes `TIME` from an answer to the next message: prints how many people each load is", Validator: positive[time.Duration]},
			&cli.StringFlag{Name: "write-plan", Usage: "write the plan to `FILE` too"},
			&cli.StringFlag{Name: "run-dir", Aliases: []string{"o"}, Usage: "the run `DIRECTORY`; it must be new or empty", DefaultText: "a new one under runs/"},
			&cli.BoolFlag{Name: "allow-link-local", Usage: "permit an address that is link-local or a cloud's metadata service"},
		}, keyFlags()...), measureFlags()...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			target, err := oneArg(c, "URL")
			if err != nil {
				return err
			}
			return a.bench(ctx, c, target)
		},
	}
}

func (a *app) bench(ctx context.Context, c *cli.Command, target string) error {
	b, err := benchOf(c, target)
	if err != nil {
		return err
	}
	server, options, err := a.serverOf(ctx, c, b)
	if err != nil {
		return err
	}
	b.Engine, b.Model = server.engine, server.model
	text := b.plan()
	p, made, err := a.parse(benchName, text, options)
	if err != nil {
		return err
	}
	made.sends = nil // its user has named the key and the host
	if path := c.String("write-plan"); path != "" {
		if err := a.writeNew(benchPoint, path, text); err != nil {
			return err
		}
		a.say("the plan is written to %s", path)
	}
	out := a.out
	if c.Bool("json") || c.String("events") == "-" { // stdout is for machines
		out = a.err
	}
	fmt.Fprintln(out, b.headline(server, p, made))
	a.say("%s", b.announcement(p))
	return a.start(ctx, c, toRun{
		plan: p, plugins: made, path: planfile.Stdin, options: options, dir: c.String("run-dir"),
		show: func(run *report.Run, style draw.Style) error {
			return bench.Write(a.out, run, style, c.Duration("think-time"))
		},
	})
}

// serverOf looks at the server, with the key that the flags name. The options read the
// benchmark's plan.
func (a *app) serverOf(ctx context.Context, c *cli.Command, b *benchmark) (*found, planfile.Options, error) {
	options := planfile.Options{Vocabulary: vocabulary.All(), Config: a.configFile()}
	key, err := a.keyOf(c)
	if err != nil {
		return nil, options, &usage{err}
	}
	if b.Key = c.String("key-env"); c.String("key-file") != "" {
		b.Key, b.KeyFile = benchKey, c.String("key-file")
	}
	options.LookupEnv = func(name string) (string, bool) {
		if name == b.Key && key != "" {
			return key, true
		}
		return a.env(name)
	}
	if b.Key != "" {
		// Who gave the key and the URL has said where it goes.
		options.AllowEnv = []string{b.Key}
		options.SendEnv = []string{b.permit().Permit()}
	}
	a.warnOfPlainKey(b.URL, key)
	server, err := a.look(ctx, b, key, options)
	return server, options, err
}

// A benchmark is what the flags ask for, and what was found of the server.
type benchmark struct {
	Command       string // as it was given
	URL           string
	LinkLocal     bool
	Key           string // the variable that holds the key; "" is none
	KeyFile       string
	Concurrency   []int
	Rates         []float64
	Input, Output string
	Requests      int
	Duration      time.Duration
	Bounded       bool // by flags
	SLOs          []string
	USDPerHour    float64 // of the server; 0 is unknown

	Model, Engine string
}

// benchOf reads the flags. What the plan language checks is left to it.
func benchOf(c *cli.Command, target string) (*benchmark, error) {
	u, err := serverURL(c, target)
	if err != nil {
		return nil, err
	}
	b := &benchmark{
		Command: "sweep " + commandLine(c.Root().Args().Slice()), URL: u, LinkLocal: c.Bool("allow-link-local"),
		Input: c.String("input"), Output: c.String("output"), SLOs: c.StringSlice("slo"),
		Requests: c.Int("requests"), Duration: c.Duration("duration"), Model: c.String("model"), USDPerHour: c.Float("usd-per-hour"),
	}
	switch {
	case c.IsSet("rate") && c.IsSet("concurrency"):
		return nil, &usage{errors.New("-c and --rate: a closed and an open loop need two runs: give one of them")}
	case c.IsSet("rate"):
		b.Rates, err = list(c.String("rate"), func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		if err != nil {
			return nil, &usage{fmt.Errorf("--rate: %w: want requests per second above 0, as in 0.5,2,8", err)}
		}
	default:
		b.Concurrency, err = list(cmp.Or(c.String("concurrency"), "1,4,16"), strconv.Atoi)
		if err != nil {
			return nil, &usage{fmt.Errorf("-c: %w: want numbers of at least 1, as in 1,8,32", err)}
		}
	}
	most := 1
	for _, n := range b.Concurrency {
		most = max(most, n)
	}
	b.Bounded = b.Requests > 0 || b.Duration > 0
	switch {
	case !b.Bounded:
		b.Requests, b.Duration = max(benchRequests, benchRounds*most), benchDuration
	case b.Requests > 0 && b.Requests < most:
		return nil, &usage{fmt.Errorf("--requests %d: fewer than the %d in flight at once: want at least %d, or a smaller -c", b.Requests, most, most)}
	}
	return b, nil
}

// list reads values between commas, each above 0 and none twice.
func list[T int | float64](text string, read func(string) (T, error)) (values []T, err error) {
	seen := map[T]bool{}
	for word := range strings.SplitSeq(text, ",") {
		v, err := read(strings.TrimSpace(word))
		switch {
		case err != nil || !(v > 0) || math.IsInf(float64(v), 1): // NaN is not above 0
			return nil, fmt.Errorf("got %q", word)
		case seen[v]:
			return nil, fmt.Errorf("%v is there twice", v)
		}
		seen[v] = true
		values = append(values, v)
	}
	return values, nil
}

// hostPort matches an address as many write it: without a scheme, and without what may be a
// password.
var hostPort = regexp.MustCompile(`^[0-9A-Za-z.-]+(:[0-9]+)?(/[0-9A-Za-z./_-]*)?$`)

// serverURL returns the address of a server without the /v1 that many clients want in it.
func serverURL(c *cli.Command, target string) (string, error) {
	u, err := url.Parse(target)
	switch {
	case !strings.Contains(target, "://") && hostPort.MatchString(target):
		return "", &usage{&hinted{fmt.Errorf("%s wants an http or https URL, got %q", c.Name, target), "did you mean http://" + target + "?"}}
	case err != nil: // the parser's error shows the URL, and what may be a password in it
		return "", &usage{fmt.Errorf("%s: not a URL: want http://host:port or https://host", c.Name)}
	case u.User != nil:
		return "", &usage{fmt.Errorf("%s: a URL must not have credentials: name the key's place with --key-env or --key-file", c.Name)}
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", &usage{fmt.Errorf("%s wants an http or https URL, got %q", c.Name, target)}
	case u.RawQuery != "" || u.Fragment != "":
		return "", &usage{fmt.Errorf("%s: the URL must end after its path", c.Name)}
	}
	guard := netguard.Guard{AllowLinkLocal: c.Bool("allow-link-local"), Hint: "--allow-link-local permits it"}
	if err := guard.Check(u.Hostname()); err != nil {
		return "", &usage{fmt.Errorf("%s: %w", c.Name, err)}
	}
	return strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/v1"), nil
}

// warnOfPlainKey warns of a key that everybody on the way can read.
func (a *app) warnOfPlainKey(target, key string) {
	u, err := url.Parse(target)
	if key == "" || err != nil || u.Scheme != "http" || loopback(u.Hostname()) {
		return
	}
	a.say("sweep: warning: the key goes to %s over plain http, which others on the network can read: use https", u.Host)
}

const (
	benchName = "bench"
	// benchKey is the variable that stands for the key of --key-file in a plan.
	benchKey = "SWEEP_API_KEY"
	// benchGPU names all GPUs of a server whose price is given.
	benchGPU = "server"
)

// permit is for the key and the server's host.
func (b *benchmark) permit() outbound.Flow {
	u, err := url.Parse(b.URL)
	if err != nil {
		return outbound.Flow{} // serverURL has parsed it
	}
	return outbound.Flow{Name: b.Key, Host: outbound.HostOf(u)}
}

// sendEnv returns the flag that a run of the plan needs for its key; "" on this machine.
func (b *benchmark) sendEnv() string {
	if f := b.permit(); !f.Host.Loopback() {
		return " --send-env " + f.Permit()
	}
	return ""
}

// plan returns the benchmark in the plan language.
func (b *benchmark) plan() string {
	var t strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&t, format+"\n", args...) }
	line("# %s", comment(b.Command))
	line("#")
	line("# An ordinary plan: sweep run measures the same cells with it.")
	switch {
	case b.KeyFile != "":
		line("# The key: %s=$(cat %s) sweep run%s PLAN", b.Key, comment(commandLine([]string{b.KeyFile})), b.sendEnv())
	case b.Key != "":
		line("# The key: sweep run --allow-env %s%s PLAN", b.Key, b.sendEnv())
	}
	line("version: 1")
	line("name: %s", benchName)
	line("model: %s", yamlText(b.Model))
	if b.USDPerHour > 0 {
		line("\nprices: {%s: {usd_per_hour: %s}} # of the whole server", benchGPU, joined([]float64{b.USDPerHour}))
	}
	line("\nmatrix:\n  engine: %s", b.Engine)
	if b.USDPerHour > 0 {
		line("  gpu: %s", benchGPU)
	}
	if len(b.Rates) > 0 {
		line("  request_rate: [%s]", joined(b.Rates))
	} else {
		line("  concurrency: [%s]", joined(b.Concurrency))
	}
	line("\nbackend:\n  kind: endpoint\n  url: %s", yamlText(b.URL))
	if b.Key != "" {
		line("  key: ${%s}", b.Key)
	}
	if b.LinkLocal {
		line("  allow_link_local: true")
	}
	line("\nload:")
	if b.Requests > 0 {
		line("  requests: %d", b.Requests)
	}
	if b.Duration > 0 {
		line("  duration: %v", b.Duration)
	}
	if !b.Bounded {
		objectives := ""
		if len(b.SLOs) > 0 {
			objectives = ", objectives: true"
		}
		line("  until: {metric: p95_ttft_ms, within: 10%%%s}", objectives)
	}
	line("  max_tokens: %s\n  prompts: {kind: synthetic, input_tokens: %s}", amount(b.Output), amount(b.Input))
	if len(b.SLOs) > 0 {
		line("\nslo:")
		for i, expr := range b.SLOs {
			name := "objective"
			if i > 0 {
				name += strconv.Itoa(i + 1)
			}
			line("  %s: %s", name, yamlText(expr))
		}
	}
	// A given server is there already, or it is not.
	line("\ntimeouts: {ready: 2m}")
	return t.String()
}

// yamlText returns a text in YAML, whatever it looks like.
func yamlText(text string) string { return strconv.Quote(strings.ReplaceAll(text, "${", "$${")) }

var isAmount = regexp.MustCompile(`^[0-9A-Za-z.-]+$`)

// amount returns what was given for a number, which the plan language reads: 512 or 4k.
func amount(text string) string {
	if isAmount.MatchString(text) {
		return text
	}
	return yamlText(text)
}

// comment returns a text on one line.
func comment(text string) string { return strings.Map(oneLine, text) }

func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
		return ' '
	}
	return r
}

func joined[T int | float64](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.FormatFloat(float64(v), 'f', -1, 64)
	}
	return strings.Join(texts, ", ")
}

// headline returns what is measured, how long that takes, and what is sent beside it.
func (b *benchmark) headline(s *found, p *plan.Plan, made *plugins) string {
	var took time.Duration
	requests := 0
	for _, cell := range p.Cells() {
		took += cellEstimate(p, cell, made.traits().scale)
	}
	var open []string
	for _, d := range p.Deployments() {
		for _, x := range executor.Extras(p, d, made.backend, made.servers("")) {
			if x.Requests == nil {
				open = append(open, strings.ReplaceAll(x.What, "_", "-"))
				continue
			}
			requests += *x.Requests
		}
	}
	about := "at most " + humanize.Duration(took)
	if b.Bounded {
		// The server's speed is not known yet.
		ms := float64(tokenEstimate(p.Deployments()[0].Server)) / float64(time.Millisecond)
		about = fmt.Sprintf("about %s if a token takes %.3g ms", humanize.Duration(took), ms)
	}
	text := fmt.Sprintf("%s, %s\n%s, %s;\nup to %s beyond the load", s.title(), s.model,
		humanize.Plural(len(p.Cells()), "load"), about, humanize.Plural(requests, "request"))
	if len(open) > 0 {
		text += ", and those for " + strings.Join(open, " and ")
	}
	return text
}

// announcement says how much is sent, which a public API bills.
func (b *benchmark) announcement(p *plan.Plan) string {
	cells := p.Cells()
	each := fmt.Sprintf("of %d input and at most %d output tokens", cells[0].Load.Prompts.InputTokens, cells[0].Load.MaxTokens)
	requests := 0
	for _, cell := range cells {
		l := cell.Load
		n := l.Total()
		if l.RequestRate > 0 && l.Duration > 0 {
			if timed := int(math.Ceil(l.RequestRate * l.Duration.Seconds())); n == 0 || timed < n {
				n = timed
			}
		}
		if n == 0 {
			return fmt.Sprintf("sends requests %s, as many as the server answers in %s; --requests bounds them",
				each, humanize.Duration(time.Duration(len(cells))*b.Duration))
		}
		requests += n + l.WarmupRequests()
	}
	in, out := requests*cells[0].Load.Prompts.InputTokens, requests*cells[0].Load.MaxTokens
	text := fmt.Sprintf("sends at most %s %s: %s input and %s output tokens", humanize.Plural(requests, "request"), each, thousands(in), thousands(out))
	if !b.Bounded {
		text += "; --requests or --duration sends fewer"
	}
	return text
}

// thousands returns a large number in two or three digits.
func thousands(n int) string {
	switch {
	case n >= 9_950_000:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	case n >= 999_500:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 9_950:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strconv.Itoa(n)
}

// writeNew writes a file that is not there yet.
func (a *app) writeNew(point effect.Point, path, text string) error {
	fx, err := a.effects()
	if err != nil {
		return err
	}
	f, err := fx.CreateNew(point, path)
	if errors.Is(err, os.ErrExist) {
		return &usage{&hinted{fmt.Errorf("%s is there already: nothing was written", path), "name a new file, or remove it first"}}
	}
	if err != nil {
		return &usage{err}
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}
