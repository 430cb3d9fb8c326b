package compare

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/ratio"
)

// Write says a comparison for people: what differs, the cells that are faster or slower,
// how many others there are, and what the intervals cover. verbose is every cell with every
// figure.
func (c *Comparison) Write(w io.Writer, verbose bool) error {
	var b strings.Builder
	for _, line := range wrap(c.Identity(), 80) {
		fmt.Fprintln(&b, plaintext.Line(line))
	}
	if c.Simulated {
		fmt.Fprintln(&b, "SIMULATED")
	}
	c.body(&b, verbose)
	for _, line := range wrap(c.Covered(), 80) {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, c.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// Table says only which cells are faster or slower, and what is not compared.
func (c *Comparison) Table(w io.Writer, verbose bool) error {
	var b strings.Builder
	c.body(&b, verbose)
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Comparison) body(b *strings.Builder, verbose bool) {
	if len(c.Cells) > 0 {
		c.table(b, verbose)
	}
	for _, line := range c.LeftOut(verbose) {
		fmt.Fprintln(b, "  "+line)
	}
	if c.Quality != nil && len(c.Cells) > 0 {
		for _, line := range c.Quality.lines(verbose) {
			fmt.Fprintln(b, line)
		}
	}
}

// Summary returns the comparison in a line.
func (c *Comparison) Summary() string {
	if len(c.Cells) == 0 {
		return c.Nothing()
	}
	cells, noisy, few := 0, 0, 0
	for _, cell := range c.Cells {
		for _, f := range cell.Figures {
			if f.Regression {
				cells++
				break
			}
		}
		switch {
		case cell.lacks() != nil:
			few++
		case cell.Verdict == TooNoisy:
			noisy++
		}
	}
	holes := ""
	if few > 0 {
		holes = "; too few trials to tell in " + humanize.Plural(few, "cell")
	}
	if n := c.Holes(); n > 0 {
		holes += fmt.Sprintf("; %s of both plans could not be compared", humanize.Plural(n, "cell"))
	}
	if c.MaxRegression == 0 {
		return humanize.Plural(len(c.Cells), "cell") + " compared" + holes
	}
	text := fmt.Sprintf("%d of %s certainly worse by more than --max-regression %s", cells, humanize.Plural(len(c.Cells), "cell"), strings.ReplaceAll(percent(c.MaxRegression), " ", ""))
	if c.Regressions > 0 {
		text += fmt.Sprintf(", %.2g expected by chance", c.Expected)
	}
	if noisy > 0 {
		text += fmt.Sprintf("; %d too_noisy to tell", noisy)
	}
	return text + holes + c.Quality.summary()
}

// Nothing says why no cell is compared: that of the first cell that both sides have, or
// that they have none.
func (c *Comparison) Nothing() string {
	if len(c.Differs) > 0 && c.Differs[0].What == col.Method {
		return fmt.Sprintf("nothing can be compared: figures of methods %s and %s mean different things; measure both with one version of sweep", c.Differs[0].Base, c.Differs[0].Head)
	}
	both := slices.DeleteFunc(slices.Clone(c.Left), func(l Left) bool { return l.Why == onlyBase || l.Why == onlyHead })
	if len(both) > 0 {
		text := fmt.Sprintf("nothing can be compared: %s: %s", plaintext.Line(both[0].Label), plaintext.Line(both[0].Why))
		if n := len(both) - 1; n > 0 {
			text += "; and " + humanize.Plural(n, "more cell")
		}
		return text
	}
	return "nothing can be compared: the two sides have no cell in common"
}

// Identity returns what differs, and what does not.
func (c *Comparison) Identity() string {
	var parts []string
	for _, d := range c.Differs {
		parts = append(parts, fmt.Sprintf("%s %s -> %s", d.What, brief(d.Base), brief(d.Head)))
	}
	text := "differs: " + strings.Join(parts, "; ")
	if len(parts) == 0 {
		text = "differs: nothing that is known"
	}
	if len(c.Same) > 0 {
		text += "; same " + strings.Join(c.Same, ", ")
	}
	return text
}

// brief returns a value that fits a line.
func brief(v string) string {
	const most = 24
	switch runes := []rune(v); {
	case v == "":
		return "(none)"
	case len(runes) > most:
		return string(runes[:most-3]) + "..."
	}
	return v
}

// hasLine reports whether a cell has a line of its own.
func (c *Cell) hasLine() bool { return c.Verdict == Faster || c.Verdict == Slower || c.lacks() != nil }

// lacks returns the first judged figure whose difference is far beyond its noise and is not
// told; nil for none.
func (c *Cell) lacks() *Figure {
	for i := range c.Figures {
		if f := &c.Figures[i]; f.of.Judged && f.tooFew != "" {
			return f
		}
	}
	return nil
}

func (c *Comparison) table(b *strings.Builder, verbose bool) {
	var shown []Metric
	for _, m := range Metrics() {
		if m.Shown {
			shown = append(shown, m)
		}
	}
	rows := [][]string{{"cell"}}
	for _, m := range shown {
		rows[0] = append(rows[0], m.Title)
	}
	rows[0] = append(rows[0], "verdict")
	rest := map[string]map[Verdict]int{}
	more := 0
	for i := range c.Cells {
		cell := &c.Cells[i]
		if !verbose && !cell.hasLine() {
			more++
			for _, f := range cell.Figures {
				if rest[f.Metric] == nil {
					rest[f.Metric] = map[Verdict]int{}
				}
				rest[f.Metric][f.Verdict]++
			}
			continue
		}
		row := []string{plaintext.Line(cell.short)}
		for _, f := range cell.Figures {
			if f.of.Shown {
				row = append(row, f.text())
			}
		}
		rows = append(rows, append(row, cell.said()))
		if verbose {
			rows = append(rows, cell.rest()...)
		}
	}
	if len(rows) > 1 {
		align(b, rows)
	}
	if more == 0 {
		return
	}
	var counts []string
	for _, m := range shown {
		var kinds []string
		for _, v := range []Verdict{Same, CannotTell, TooNoisy} {
			if n := rest[m.Column][v]; n > 0 {
				text := string(v)
				if v == Same {
					text = fmt.Sprintf("the same within %s", percent(Alike))
				}
				kinds = append(kinds, fmt.Sprintf("%d %s", n, text))
			}
		}
		if len(kinds) > 0 {
			counts = append(counts, m.Title+": "+strings.Join(kinds, ", "))
		}
	}
	name := humanize.Plural(more, "cell")
	if more < len(c.Cells) {
		name = fmt.Sprintf("%d more", more)
	}
	fmt.Fprintf(b, "  %s   %s\n", name, strings.Join(counts, "; "))
	if n, some := c.repeats(); some > 0 {
		fmt.Fprintf(b, "  about %d trials of each would tell %d of those that cannot be told\n", n, some)
	}
}

// repeats returns how many trials would tell half of the shown figures that cannot be told
// and of which it is known, and how many that is.
func (c *Comparison) repeats() (n, some int) {
	var counts []int
	for _, cell := range c.Cells {
		for _, f := range cell.Figures {
			if f.of.Shown && f.Verdict == CannotTell && f.Repeats != nil {
				counts = append(counts, *f.Repeats)
			}
		}
	}
	if len(counts) == 0 {
		return 0, 0
	}
	slices.Sort(counts)
	n = counts[len(counts)/2]
	for _, x := range counts {
		if x <= n {
			some++
		}
	}
	return n, some
}

// said returns a cell's verdict with the figure that it is by, if that has no column.
func (c *Cell) said() string {
	by := ""
	for _, f := range c.Figures {
		if f.of.Judged && f.Verdict == c.Verdict && (c.Verdict == Slower || c.Verdict == Faster) {
			if f.of.Shown {
				return f.of.word(c.Verdict)
			}
			if by == "" {
				by = fmt.Sprintf("%s (%s %s)", f.of.word(c.Verdict), f.of.Title, f.Apart())
			}
		}
	}
	if by != "" {
		return by
	}
	if f := c.lacks(); f != nil && !f.of.Shown {
		return fmt.Sprintf("%s (%s %s)", c.Verdict, f.of.Title, f.tooFew)
	}
	return string(c.Verdict)
}

// rest returns the lines of a cell's other figures, and its notes.
func (c *Cell) rest() [][]string {
	var rows [][]string
	for _, f := range c.Figures {
		if !f.Said() {
			continue
		}
		rows = append(rows, []string{"  " + f.of.Title, f.values(), f.Apart(), f.Words()})
	}
	for _, n := range c.Notes {
		rows = append(rows, []string{"  " + plaintext.Line(n)})
	}
	return rows
}

// Word returns the verdict on a figure in the words of its metric, or how much there is too
// little of to tell a difference that is far beyond its noise.
func (f *Figure) Word() string { return cmp.Or(f.tooFew, f.of.word(f.Verdict)) }

// Share reports whether the figure is a share, of which Ratio is a difference.
func (f *Figure) Share() bool { return f.of.Share }

// Words returns the verdict on a figure in the words of its metric, with what would tell and
// why there is no more to say.
func (f *Figure) Words() string {
	text := f.Word()
	if f.Repeats != nil && f.tooFew == "" {
		text += fmt.Sprintf(", %d trials would tell", *f.Repeats)
	}
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}

// text returns a figure in a table.
func (f *Figure) text() string {
	values := f.values()
	if values == "" {
		return "-"
	}
	if f.Verdict == CannotTell || f.Verdict == TooNoisy {
		return values + "  " + cmp.Or(f.tooFew, "~")
	}
	return values + "  " + f.Apart()
}

// values returns those of both sides.
func (f *Figure) values() string {
	if f.Base == nil && f.Head == nil {
		return ""
	}
	base, head := f.Sides()
	return base + " -> " + head
}

// Sides returns the values of base and head for people; "-" if one is not known.
func (f *Figure) Sides() (base, head string) {
	show := func(v *float64) string {
		switch {
		case v == nil:
			return "-"
		case f.of.Share:
			return percent(*v)
		}
		return f.of.Show(*v)
	}
	return show(f.Base), show(f.Head)
}

// Apart returns by how much head differs from base: "+4.9 ±1.1 %".
func (f *Figure) Apart() string {
	if f.Ratio == nil {
		return ""
	}
	v, unit := 100*(*f.Ratio-1), "%"
	if f.of.Share {
		v, unit = 100**f.Ratio, "points"
	}
	if f.Low == nil || f.High == nil {
		return fmt.Sprintf("%+.1f %s", v, unit)
	}
	half := 50 * (*f.High - *f.Low)
	if half >= 9.95 {
		return fmt.Sprintf("%+.0f ±%.0f %s", v, half, unit)
	}
	return fmt.Sprintf("%+.1f ±%.1f %s", v, half, unit)
}

// mostLeft is how many cells that are not compared are named without verbose.
const mostLeft = 3

// LeftOut lists what is not compared, by why; verbose names every cell.
func (c *Comparison) LeftOut(verbose bool) []string {
	var order, lines []string
	by := map[string][]string{}
	for _, l := range c.Left {
		if by[l.Why] == nil {
			order = append(order, l.Why)
		}
		by[l.Why] = append(by[l.Why], l.Label)
	}
	for _, why := range order {
		cells := by[why]
		if !verbose && len(cells) > mostLeft {
			cells = append(append([]string{}, cells[:mostLeft]...), "...")
		}
		lines = append(lines, fmt.Sprintf("not compared: %s: %s", plaintext.Line(why), plaintext.Line(strings.Join(cells, "; "))))
	}
	return lines
}

// Covered says what the intervals cover; "" if there are none.
func (c *Comparison) Covered() string {
	if len(c.Cells) == 0 {
		return ""
	}
	scopes := map[string]bool{}
	known, all := 0, 0
	for _, cell := range c.Cells {
		for _, f := range cell.Figures {
			if !f.judged || !f.of.Judged || f.of.Share {
				continue
			}
			if all++; f.known.Scope == ratio.Runs {
				known++
			} else {
				scopes[f.Scope] = true
			}
		}
	}
	text := "the noise between runs is not known"
	switch {
	case all == 0:
		return ""
	case known == all:
		return "intervals cover what differs between runs, as the noise file knows it"
	case known > 0:
		text = fmt.Sprintf("the noise file does not know %d of %d figures", all-known, all)
	}
	const measure = " (sweep compare noise measures that)"
	switch {
	case scopes[string(ratio.OneTrial)]:
		return text + ", and intervals are within one trial of each side: another launch may differ by as much" + measure
	case scopes[string(ratio.OneLaunch)]:
		return text + ", and intervals are within one launch of each side: another launch may differ by as much" + measure
	}
	return text + ": intervals cover what differs between the launches of each run, and not between days or machines" + measure
}

// percent returns a share for people.
func percent(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*v), ".0") + " %"
}

// align writes rows as columns.
func align(b *strings.Builder, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if len(widths) <= i {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))))
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// wrap breaks a text into lines of a width.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = " "
		}
		if line == "" {
			line = word
		} else {
			line += " " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
