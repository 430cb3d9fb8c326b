package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/plaintext"
)

// metricsTimeout bounds what a server may take for its metrics, all paths
// together.
const metricsTimeout = 10 * time.Second

func (a *app) metricsCommand() *cli.Command {
	return &cli.Command{
		Name:      "metrics",
		Usage:     "shows what sweep reads from an engine's metrics, or a GPU's",
		ArgsUsage: "FILE|URL",
		Description: `Reads metrics in Prometheus' format, from a file or a running server, and
shows which engine they are of, the quantities that sweep takes from them,
what further series mean, and what it does not know. It also reads what a
run takes from GPUs: the pages of dcgm-exporter, nvidia_gpu_exporter and
AMD's exporter, nvidia-smi's CSV (--query-gpu) and XML (-q -x), and
amd-smi's JSON; and the iteration statistics of trtllm-serve. - is the
standard input.

A URL without a path is asked at the paths of the engines' profiles. Do not
use it on a server that is being measured: some engines report averages
since they were last read.

  $ sweep probe metrics http://127.0.0.1:8000
  $ sweep probe metrics metrics-vllm.log --engine vllm
  $ sweep probe metrics nvidia-smi.xml` + exitHelp(exitOK, exitInternal, exitUsage, exitIncomplete),
		Flags: append(
			keyFlags(),
			&cli.StringFlag{Name: "engine", Usage: "the `ENGINE` whose metrics these are; default: by the names of the series"},
			&cli.StringSliceFlag{Name: "engine-file", Usage: "a `FILE` with a profile of an engine"},
			&cli.BoolFlag{Name: "all", Usage: "also show other names of the same series, and metrics of the server's language runtime"},
			&cli.BoolFlag{Name: "allow-link-local", Usage: "permit an address that is link-local or a cloud's metadata service"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			from, err := oneArg(c, "FILE or URL")
			if err != nil {
				return err
			}
			profiles, err := metricsProfiles(c)
			if err != nil {
				return &usage{err}
			}
			explained, where, err := a.readMetrics(ctx, c, from, profiles)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return a.json().Encode(struct {
					From string `json:"from"`
					prom.Explained
				}{where, explained})
			}
			return printMetrics(a.out, where, &explained, c.Bool("all"))
		},
	}
}

// metricsProfiles returns the profiles that a body is held against.
func metricsProfiles(c *cli.Command) ([]*engine.Profile, error) {
	var set engine.Set
	for _, file := range c.StringSlice("engine-file") {
		if _, err := addProfile(&set, file); err != nil {
			return nil, err
		}
	}
	names := set.Names()
	if name := c.String("engine"); name != "" {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--engine: there is no engine %q: want one of %s", name, strings.Join(names, ", "))
		}
		names = []string{name}
	}
	var list []*engine.Profile
	for _, name := range names {
		p, _ := set.Lookup(name)
		list = append(list, p)
	}
	return list, nil
}

// readMetrics reads a file or asks a server, and says where the metrics were.
func (a *app) readMetrics(ctx context.Context, c *cli.Command, from string, profiles []*engine.Profile) (prom.Explained, string, error) {
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		asker, err := a.metricsAsker(c, from)
		if err != nil {
			return prom.Explained{}, "", &usage{err}
		}
		ctx, cancel := context.WithTimeoutCause(ctx, metricsTimeout, fmt.Errorf("no complete answer within %v", metricsTimeout))
		defer cancel()
		return asker.ask(ctx, profiles)
	}
	body, err := a.readFile(from)
	if err != nil {
		return prom.Explained{}, "", &usage{err}
	}
	// A file ends where it ends: its last line needs no newline.
	x, err := prom.Read(profiles, body, true)
	if err != nil {
		return x, "", &usage{&hinted{fmt.Errorf("%s: %w", from, err), metricsInputs()}}
	}
	return x, from, nil
}

func metricsInputs() string {
	return "it reads Prometheus' text format, " + strings.Join(gpustate.Commands(), ", ") + ", and trtllm-serve's iteration statistics"
}

// readFile reads a file of at most 32 MiB, or the standard input.
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return readMost(name, a.in)
	}
	return input.ReadNamed(name, exposition.MaxBody)
}

func readMost(what string, r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, exposition.MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case len(body) > exposition.MaxBody:
		return nil, fmt.Errorf("%s is larger than %d MiB", what, exposition.MaxBody>>20)
	}
	return body, nil
}

// A metricsAsker asks one server.
type metricsAsker struct {
	url    *url.URL
	key    string
	client *http.Client
}

func (a *app) metricsAsker(c *cli.Command, from string) (*metricsAsker, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("metrics needs an http or https URL, got %q", from)
	}
	if u.User != nil {
		return nil, errors.New("metrics: a URL must not have credentials: name the key's place with --key-env or --key-file")
	}
	guard := netguard.Guard{AllowLinkLocal: c.Bool("allow-link-local"), Hint: "--allow-link-local permits it"}
	if err := guard.Check(u.Hostname()); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &metricsAsker{url: u, client: netguard.Client(guard.Dial, 0)}
	m.key, err = a.keyOf(c)
	a.warnOfPlainKey(from, m.key)
	return m, err
}

// ask tries the URL's own path, or those of the profiles until one has metrics.
// Iteration statistics, which stand at /metrics too, are the last choice.
func (m *metricsAsker) ask(ctx context.Context, profiles []*engine.Profile) (prom.Explained, string, error) {
	paths := []string{m.url.Path}
	if strings.Trim(m.url.Path, "/") == "" {
		paths = metricsPaths(profiles)
	}
	var errs []error
	var iterations prom.Explained
	var iterated string
	for _, path := range paths {
		at := *m.url
		at.Path = path
		x, err := m.get(ctx, &at, profiles)
		if err == nil && x.Tool == prom.IterationStatistics {
			iterations, iterated = x, at.String()
			continue
		}
		if err == nil {
			return x, at.String(), nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return x, "", fmt.Errorf("%s: %w", at.String(), cause)
		}
		errs = append(errs, fmt.Errorf("%s: %w", at.String(), err))
		if _, answered := errors.AsType[*noMetrics](err); !answered {
			return x, "", &statusError{exitIncomplete, errors.Join(errs...)} // the other paths would not be answered either
		}
	}
	if iterated != "" {
		return iterations, iterated, nil
	}
	return iterations, "", &usage{&hinted{
		errors.Join(errs...),
		"some engines expose metrics only when asked to: sglang with --enable-metrics, llama-server with --metrics, trtllm-serve with return_perf_metrics",
	}}
}

// metricsPaths returns the paths at which the profiles have metrics, each once.
func metricsPaths(profiles []*engine.Profile) []string {
	var first, fallback []string
	for _, p := range profiles {
		list := []*engine.Metrics{&p.Metrics}
		for _, r := range p.Roles {
			if r.Metrics != nil {
				list = append(list, r.Metrics)
			}
		}
		for _, m := range list {
			if m.Path != "" {
				first = append(first, m.Path)
			}
			fallback = append(fallback, m.Fallback...)
		}
	}
	if len(first) == 0 {
		first = []string{"/metrics"}
	}
	slices.SortStableFunc(first, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // /metrics before the rarer ones
	var out []string
	for _, path := range append(first, fallback...) {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// A noMetrics is an answer that holds none.
type noMetrics struct{ err error }

func (e *noMetrics) Error() string { return e.err.Error() }
func (e *noMetrics) Unwrap() error { return e.err }

// get asks one URL. It follows a server from /metrics to /metrics/ but to no
// other host: the request may carry a key.
func (m *metricsAsker) get(ctx context.Context, at *url.URL, profiles []*engine.Profile) (x prom.Explained, err error) {
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return x, err
		}
		req.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.8, */*;q=0.1")
		if m.key != "" {
			req.Header.Set("Authorization", "Bearer "+m.key)
		}
		resp, err := m.client.Do(req)
		if err != nil {
			if ue, ok := errors.AsType[*url.Error](err); ok {
				err = ue.Err // the address stands before it already
			}
			return x, err
		}
		body, err := readMost("the answer", resp.Body)
		resp.Body.Close()
		next, _ := resp.Location()
		switch {
		case err != nil:
			return x, err
		case resp.StatusCode >= 300 && resp.StatusCode < 400 && next != nil && next.Host == at.Host && next.Scheme == at.Scheme:
			at = next
			continue
		case resp.StatusCode != http.StatusOK:
			return x, &noMetrics{fmt.Errorf("answered %s", resp.Status)}
		}
		if x, err = prom.Read(profiles, body, exposition.Whole(resp)); err != nil {
			return x, &noMetrics{err}
		}
		return x, nil
	}
	return x, &noMetrics{errors.New("too many redirects")}
}

// printMetrics prints what a body means, for people.
func printMetrics(out io.Writer, from string, x *prom.Explained, all bool) error {
	engines := strings.Join(x.Engines, ", ")
	if engines == "" {
		engines = "none that sweep knows"
	}
	fmt.Fprintf(out, "from     %s\n", plaintext.Line(from))
	if x.Tool != "" {
		fmt.Fprintf(out, "of       %s", x.Tool)
		if x.Looks > 1 {
			fmt.Fprintf(out, "; the last of %d looks", x.Looks)
		}
		fmt.Fprintln(out)
	}
	if len(x.Families) > 0 {
		fmt.Fprintf(out, "engine   %s\n", engines)
		fmt.Fprintf(out, "samples  %d under %d names; %d lines could not be read, %d series stood twice\n", x.Lines, x.Names, x.Dropped, x.Duplicates)
		fmt.Fprintf(out, "names    %d taken, %d explained, %d other names, %d of the server's language, %d unknown\n",
			x.Count(prom.IsQuantity), x.Count(prom.IsMeaning), x.Count(prom.IsOther), x.Count(prom.IsRuntime), x.Count(prom.IsUnknown))
	}

	section := func(title string, rows [][]string) error {
		if len(rows) == 0 {
			return nil
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(out, "\n%s\n", title)
		for _, row := range rows {
			for i := range row {
				row[i] = plaintext.Line(row[i])
			}
			fmt.Fprintln(w, "  "+strings.TrimRight(strings.Join(row, "\t"), "\t"))
		}
		return w.Flush()
	}
	var taken [][]string
	for _, q := range engine.Quantities() {
		for _, f := range x.Families {
			for _, r := range f.Readings {
				if r.Quantity == q.Name {
					taken = append(taken, []string{r.Quantity, readingText(r), f.Name, q.Doc})
				}
			}
		}
	}
	kind := func(is string) (rows [][]string) {
		for _, f := range x.Families {
			if f.Is == is {
				rows = append(rows, []string{f.Name, familyValue(f), f.Meaning})
			}
		}
		return rows
	}
	var errs []error
	errs = append(errs, section("Not read", unreadRows(x.Unread)))
	for _, g := range x.GPUs {
		errs = append(errs, section(gpuTitle(g), gpuRows(g)))
	}
	errs = append(errs,
		section("Taken", taken),
		section("Explained", kind(prom.IsMeaning)),
	)
	if all {
		errs = append(errs, section("Other names", kind(prom.IsOther)), section("The server's language", kind(prom.IsRuntime)))
	}
	return errors.Join(append(errs, section("Unknown", kind(prom.IsUnknown)))...)
}

func gpuTitle(g prom.GPU) string {
	parts := slices.DeleteFunc([]string{strings.TrimSpace("GPU " + g.Index), g.Name, g.UUID}, func(s string) bool { return s == "" })
	return plaintext.Line(strings.Join(parts, ", "))
}

func unreadRows(list []prom.Unread) (rows [][]string) {
	for _, u := range list {
		place, who := "", ""
		if u.Line > 0 {
			place = fmt.Sprintf("line %d", u.Line)
		}
		if u.GPU != "" {
			who = u.GPU
			if !strings.HasPrefix(who, "GPU") {
				who = "GPU " + who
			}
		}
		if u.Lost {
			who = strings.TrimSpace(cmp.Or(who, "a GPU") + " is lost")
		}
		rows = append(rows, []string{place, who, u.Text})
	}
	return rows
}

func gpuRows(g prom.GPU) (rows [][]string) {
	for _, r := range g.Readings {
		rows = append(rows, []string{r.Quantity, readingText(r)})
	}
	if len(g.Reasons) > 0 {
		rows = append(rows, []string{"clocks held down by", strings.Join(g.Reasons, ", ")})
	}
	return rows
}

func readingText(r prom.Reading) string {
	switch {
	case r.Count != nil && r.Value == nil:
		return "nothing yet"
	case r.Count != nil:
		parts := []string{fmt.Sprintf("mean %s of %s", quantity(*r.Value, r.Unit), number(*r.Count))}
		for _, p := range r.Percentiles {
			value := p.Bounds
			if p.Value != nil {
				value = number(*p.Value)
			}
			parts = append(parts, p.Name+" "+value)
		}
		return strings.Join(parts, ", ")
	case r.Value == nil:
		return "-"
	}
	return quantity(*r.Value, r.Unit)
}

func familyValue(f prom.Family) string {
	switch {
	case f.Value == nil && f.Series > 1:
		return fmt.Sprintf("%d series", f.Series)
	case f.Value == nil:
		return "-"
	case f.Type == "histogram" || f.Type == "summary":
		return "mean " + quantity(*f.Value, f.Unit)
	}
	return quantity(*f.Value, f.Unit)
}

func quantity(v float64, unit string) string {
	return strings.TrimSpace(number(v) + " " + unit)
}

// number is without an exponent, and of what is not whole six digits.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64); err == nil {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
