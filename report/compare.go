package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
)

// A direction says which of two values is the better one.
type direction int

const (
	plainFact  direction = iota // neither
	lessIsBest                  // times
	moreIsBest                  // rates
)

// A measure is one line of a comparison: a column in a person's words.
type measure struct {
	name   string
	column string
	best   direction
	// lasting: the server says it of itself, whatever the trial was worth.
	lasting bool
}

// measures are the lines of a comparison. Client and server stand side by side
// with their means: an engine's histogram has no exact percentile.
var measures = []measure{
	{"start-up, s", "start_up_s", lessIsBest, true},
	{"duration, s", "duration_s", lessIsBest, false},
	{"output tokens/s", "throughput_tok_s", moreIsBest, false},
	{"engine's count, tok/s", "server_throughput_tok_s", plainFact, false},
	{"engine's report, tok/s", reported, plainFact, false},
	{"TTFT, ms", "mean_ttft_ms", lessIsBest, false},
	{"TTFT p95, ms", "p95_ttft_ms", lessIsBest, false},
	{"TTFT by engine, ms", "server_mean_ttft_ms", plainFact, false},
	{"TPOT, ms", "mean_tpot_ms", lessIsBest, false},
	{"TPOT p95, ms", "p95_tpot_ms", lessIsBest, false},
	{"TPOT by engine, ms", "server_mean_tpot_ms", plainFact, false},
	{"ITL by engine, ms", "server_mean_itl_ms", plainFact, false},
	{"E2E, ms", "mean_e2e_ms", lessIsBest, false},
	{"E2E by engine, ms", "server_mean_e2e_ms", plainFact, false},
	{"queue, ms", "server_mean_queue_ms", lessIsBest, false},
	{"prefill, ms", "server_mean_prefill_ms", lessIsBest, false},
	{"decode, ms", "server_mean_decode_ms", lessIsBest, false},
	{"KV cache, blocks", "kv_cache_blocks", plainFact, true},
	{"KV cache, tokens", "kv_cache_tokens", plainFact, true},
	{"request bytes", "server_request_bytes", plainFact, false},
	{"response bytes", "server_response_bytes", plainFact, false},
	{"uptime, s", "engine_uptime_s", plainFact, true},
	{"metric lines", "metric_lines", plainFact, true},
	{"unique metrics", "metric_names", plainFact, true},
}

// reported is what an engine claims of itself, which is held against what was
// delivered.
const reported = "server_reported_throughput_tok_s"

// rankings are the measures whose order is told in words, for every load that
// the engines share.
var rankings = []string{"throughput_tok_s", "mean_ttft_ms", "mean_tpot_ms", "mean_e2e_ms"}

// maxRanked is how many shared loads are ranked one by one.
const maxRanked = 12

// A contest is the points of several engines that differ in the engine alone,
// and in what belongs to it.
type contest struct {
	name   string // what they share
	points []*Point
}

// contests are the loads that several engines have had, most telling first:
// that with most valid engines, and of those the one that got most out of them.
func (s *summary) contests() []*contest {
	tied := s.tied()
	byName := map[string]*contest{}
	var all []*contest
	for _, p := range s.points {
		if p.Verdict == Pending {
			continue
		}
		var parts []string
		for _, set := range p.Cell.Settings {
			if set.Column != "engine" && !slices.Contains(tied, set.Column) {
				parts = append(parts, setting(set))
			}
		}
		name := strings.Join(parts, " ")
		c := byName[name]
		if c == nil {
			c = &contest{name: name}
			byName[name], all = c, append(all, c)
		}
		c.points = append(c.points, p)
	}
	all = slices.DeleteFunc(all, func(c *contest) bool { return len(c.measured()) < 2 })
	slices.SortStableFunc(all, func(a, b *contest) int {
		return cmp.Or(cmp.Compare(b.valid(), a.valid()), cmp.Compare(b.most(), a.most()))
	})
	return all
}

// tied are the server axes that belong to the engine: each engine has one value
// of them, and not all the same (a model that only one of them can read).
func (s *summary) tied() []string {
	type values map[any]bool
	all, byEngine := map[string]values{}, map[string]map[any]values{}
	var order []string
	for _, p := range s.points {
		engine := s.value(p, "engine")
		for _, set := range p.Cell.Settings {
			if !set.Server || set.Column == "engine" {
				continue
			}
			if all[set.Column] == nil {
				all[set.Column], byEngine[set.Column] = values{}, map[any]values{}
				order = append(order, set.Column)
			}
			if byEngine[set.Column][engine] == nil {
				byEngine[set.Column][engine] = values{}
			}
			all[set.Column][set.Value] = true
			byEngine[set.Column][engine][set.Value] = true
		}
	}
	return slices.DeleteFunc(order, func(column string) bool {
		for _, v := range byEngine[column] {
			if len(v) > 1 {
				return true
			}
		}
		return len(all[column]) < 2
	})
}

func (c *contest) valid() (n int) {
	for _, p := range c.points {
		if p.Valid > 0 {
			n++
		}
	}
	return n
}

func (c *contest) most() (most float64) {
	for _, p := range c.points {
		most = max(most, number(p.group, "throughput_tok_s_mean"))
	}
	return most
}

// measured are the points that have numbers, also such as must not be used.
func (c *contest) measured() []*Point {
	return slices.DeleteFunc(slices.Clone(c.points), func(p *Point) bool { return p.Verdict == NoStart || p.Verdict == FailedRun })
}

// table is a contest with a measure on each line and an engine in each column.
func (s *summary) table(c *contest) grid {
	g := grid{name: "Engines side by side", down: "engine"}
	if c.name != "" {
		g.name += ": " + c.name
	}
	shown := c.measured()
	for _, p := range shown {
		g.values = append(g.values, fmt.Sprint(s.value(p, "engine")))
	}
	line := func(name string, text func(*Point) string) {
		row := []field{{text: name}}
		for _, p := range shown {
			row = append(row, field{text: text(p)})
		}
		g.rows = append(g.rows, row)
	}
	outcome := []field{{text: "outcome"}}
	for _, p := range shown {
		outcome = append(outcome, field{text: p.Verdict.Mark() + " " + p.outcome(), verdict: p.Verdict})
	}
	g.rows = append(g.rows, outcome)
	line("version", func(p *Point) string { return cmp.Or(p.words("engine_version"), "-") })
	line("requests completed", func(p *Point) string { return s.completed(p) })
	for _, m := range measures {
		best := c.best(m)
		line(m.name, func(p *Point) string { return p.measured(m, best) })
		if m.column == reported {
			line("reported / actual", func(p *Point) string { return p.claim() })
		}
	}
	return g
}

// outcome is what became of a point, in a word or two.
func (p *Point) outcome() string {
	switch p.Verdict {
	case Invalid:
		return string(Invalid)
	case NoStart, FailedRun:
		return p.reason()
	}
	return string(p.Verdict)
}

// why is the outcome of a point without numbers to use, with its reason.
func (p *Point) why() string {
	if p.Verdict == Invalid {
		return "INVALID (" + p.reason() + ")"
	}
	return p.outcome()
}

// best is the best value of a measure among the valid points; nil where
// there are not two to choose from.
func (c *contest) best(m measure) (best *float64) {
	n := 0
	for _, p := range c.points {
		v, ok := p.valued(m)
		if !ok || m.best == plainFact {
			continue
		}
		if n++; best == nil || m.best == lessIsBest && v < *best || m.best == moreIsBest && v > *best {
			best = &v
		}
	}
	if n < 2 {
		return nil
	}
	return best
}

// valued is a point's value of a measure, where it may be compared.
func (p *Point) valued(m measure) (float64, bool) {
	if p.Valid == 0 {
		return 0, false
	}
	return p.average(m.column)
}

// ratio is how much worse than the best a value is, 1 for the best; 0 where
// the two have no ratio.
func ratio(m measure, v, best float64) float64 {
	if m.best == moreIsBest {
		v, best = best, v
	}
	switch {
	case best <= 0:
		return 0
	case v == best:
		return 1
	}
	return v / best
}

// measured is a line's field: the value, and how much worse it is than the
// best. What an INVALID trial measured has a mark and no rank.
func (p *Point) measured(m measure, best *float64) string {
	v, ok := p.average(m.column)
	switch {
	case !ok:
		return "-"
	case p.Valid == 0 && !m.lasting:
		return Invalid.Mark() + " " + Figure(v) + p.mark(m.column)
	}
	text := Figure(v) + p.mark(m.column)
	if _, ranked := p.valued(m); best != nil && ranked {
		if r := ratio(m, v, *best); r > 0 {
			text += "  " + times(r)
		}
	}
	return text
}

// claim is what the engine reports of its throughput over what was delivered.
func (p *Point) claim() string {
	claimed, told := p.average(reported)
	actual, measured := p.average("throughput_tok_s")
	if !told || !measured || actual <= 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", claimed/actual)
	if p.Valid == 0 {
		text = Invalid.Mark() + " " + text
	}
	return text
}

// average is the mean of a column over the trials that count: the valid ones,
// or where there are none, all that have it.
func (p *Point) average(column string) (mean float64, ok bool) {
	n := 0
	for _, row := range p.counting() {
		if row[column] != nil {
			mean += number(row, column)
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return mean / float64(n), true
}

// words are the different texts of a column over the trials that count.
func (p *Point) words(column string) string {
	var all []string
	for _, row := range p.counting() {
		if text, ok := row[column].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func (p *Point) counting() []result.Row {
	var rows []result.Row
	for _, t := range p.Trials {
		if t.Outcome != nil && (p.Valid == 0 || t.Outcome.Row["status"] == result.StatusOK) {
			rows = append(rows, t.Outcome.Row)
		}
	}
	return rows
}

// scraped are the replicas of roles whose metrics were read, by the files that
// keep what they exposed.
func (p *Point) scraped() []string {
	var roles []string
	for _, t := range p.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, f := range t.Outcome.Files {
			name, ok := strings.CutPrefix(f.Name, "scrapes/")
			if !ok {
				continue
			}
			if role, ok := strings.CutSuffix(name, ".prom.zst"); ok && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// ranked tells for every load that several engines had who is first, and how
// much slower the others are.
func (s *summary) ranked(contests []*contest) []item {
	var items []item
	if len(contests) == 0 {
		return nil
	}
	name := func(column string) measure {
		i := slices.IndexFunc(measures, func(m measure) bool { return m.column == column })
		return measures[i]
	}
	// A start is not of one load: the contest that is shown stands for all.
	if text := s.rank(contests[0], name("start_up_s")); text != "" {
		items = append(items, item{text: text})
	}
	for i, c := range contests {
		if i == maxRanked {
			items = append(items, item{text: fmt.Sprintf("and at %s more: cells.csv has them", plural(len(contests)-i, "load"))})
			break
		}
		it := item{text: cmp.Or(c.name, "at the plan's load")}
		for _, column := range rankings {
			if text := s.rank(c, name(column)); text != "" {
				it.below = append(it.below, text)
			}
		}
		for _, p := range c.points {
			if p.Valid == 0 {
				it.below = append(it.below, fmt.Sprintf("not ranked: %v, %s", s.value(p, "engine"), p.why()))
			}
		}
		if len(it.below) > 0 {
			items = append(items, it)
		}
	}
	return items
}

// rank is one ranking in words; "" where there are not two to rank.
func (s *summary) rank(c *contest, m measure) string {
	best := c.best(m)
	if best == nil {
		return ""
	}
	type place struct {
		text  string
		value float64
	}
	var places []place
	for _, p := range c.points {
		v, ok := p.valued(m)
		if !ok {
			continue
		}
		text := fmt.Sprintf("%v %s", s.value(p, "engine"), Figure(v))
		if r := ratio(m, v, *best); r > 0 {
			text += " (" + worse(r, "slower") + ")"
		}
		places = append(places, place{text, v})
	}
	slices.SortStableFunc(places, func(a, b place) int {
		if m.best == moreIsBest {
			a, b = b, a
		}
		return cmp.Compare(a.value, b.value)
	})
	texts := make([]string, len(places))
	for i, p := range places {
		texts[i] = p.text
	}
	return m.name + ": " + strings.Join(texts, ", ")
}

// caveats say what a comparison is not.
func (s *summary) caveats(c *contest) []string {
	var lines []string
	for _, column := range s.tied() {
		var each []string
		for _, p := range c.points {
			each = append(each, fmt.Sprintf("%v %v", s.value(p, "engine"), s.value(p, column)))
		}
		lines = append(lines, fmt.Sprintf("The engines differ in %s too (%s): this compares deployments, not engines alone.", column, strings.Join(each, ", ")))
	}
	var simulated []string
	for _, p := range c.points {
		if slices.ContainsFunc(p.counting(), func(row result.Row) bool { return row["simulated"] == true }) {
			simulated = append(simulated, fmt.Sprint(s.value(p, "engine")))
		}
	}
	if len(simulated) > 0 {
		lines = append(lines, "Simulated: "+strings.Join(simulated, ", ")+". They share one arithmetic of a GPU, and differ in what they say and in how they divide its memory.")
	}
	var read []string
	for _, p := range c.points {
		if roles := p.scraped(); len(roles) > 0 {
			read = append(read, fmt.Sprintf("%v %s", s.value(p, "engine"), strings.Join(roles, ", ")))
		}
	}
	if len(read) > 0 {
		lines = append(lines, "Metrics were read from: "+strings.Join(read, "; ")+".")
	}
	var without []string
	for _, p := range c.points {
		if p.Verdict == NoStart || p.Verdict == FailedRun {
			without = append(without, fmt.Sprintf("%v (%s)", s.value(p, "engine"), p.outcome()))
		}
	}
	if len(without) > 0 {
		lines = append(lines, "Without numbers: "+strings.Join(without, ", ")+".")
	}
	var notes []string
	if c.valid() > 1 {
		notes = append(notes, "Nx: N times slower than the best of the line.")
	}
	if slices.ContainsFunc(c.points, func(p *Point) bool { return p.Verdict == Invalid }) {
		notes = append(notes, "!: of an INVALID trial, and not ranked.")
	}
	if slices.ContainsFunc(c.points, func(p *Point) bool { return p.Valid > 1 }) {
		notes = append(notes, "Means over the valid trials.")
	}
	return append(lines, strings.Join(append(notes, "-: not measured."), " "))
}

// times is a ratio with as many digits as anybody reads.
func times(r float64) string {
	switch {
	case r >= 1000:
		return ">999x"
	case r >= 100:
		return fmt.Sprintf("%.0fx", r)
	}
	return fmt.Sprintf("%.2fx", r)
}

// worse is a ratio in words; what differs by less than is shown is the same.
func worse(r float64, how string) string {
	text := times(r)
	if text == "1.00x" {
		return text
	}
	return text + " " + how
}
