package nightly

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/gate"
)

// mostLines is how many series of one kind are listed.
const mostLines = 12

// kinds are the states in the order in which they are said, in words.
var kinds = []struct {
	state gate.State
	word  string
	each  bool // every series of it is listed
}{
	{gate.Regression, "REGRESSION", true},
	{gate.Missing, "missing", true},
	{gate.Suspect, "suspect", true},
	{gate.Withdrawn, "withdrawn", true},
	{gate.TooNoisy, "too noisy", true},
	{gate.Improved, "improved", true},
	{gate.Better, "better", true},
	{gate.Accepted, "accepted", true},
	{gate.Learning, "learning", false},
	{gate.OK, "ok", false},
}

// Write prints what the last night comes to. Holes are those of its run.
func (b *Board) Write(w io.Writer, holes []string) error {
	night := b.Nights[len(b.Nights)-1]
	count := b.Count()
	var parts []string
	for _, k := range kinds {
		if n := count[k.state]; n > 0 {
			word := strings.ToLower(k.word)
			if k.state == gate.Regression && n > 1 {
				word += "s"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if len(holes) > 0 {
		parts = append(parts, humanize.Plural(len(holes), "cell")+" without a valid trial")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "gate %s %s: %s\n", plaintext.Line(night.Plan), night, cmp.Or(strings.Join(parts, ", "), "nothing to judge"))
	for _, k := range kinds {
		if !k.each {
			continue
		}
		list := b.In(k.state)
		for i, s := range list {
			if i == mostLines {
				fmt.Fprintf(&out, "  and %d more %s (--json has all)\n", len(list)-i, strings.ToLower(k.word))
				break
			}
			fmt.Fprintf(&out, "  %-10s  %s, %s\n", k.word, plaintext.Line(s.Label), s.Metric.Column)
			for _, line := range b.reasons(s) {
				fmt.Fprintf(&out, "              %s\n", plaintext.Line(line))
			}
		}
	}
	for i, hole := range holes {
		if i == mostLines {
			fmt.Fprintf(&out, "  and %d more without a valid trial\n", len(holes)-i)
			break
		}
		fmt.Fprintf(&out, "  %-10s  %s\n", "missing", plaintext.Line(hole))
	}
	if n := count[gate.Learning]; n > 0 {
		fmt.Fprintf(&out, "  learning    a band needs %d nights; %s\n", gate.MinNights, b.learned())
		for _, why := range b.begun() {
			fmt.Fprintf(&out, "              %s\n", plaintext.Line(why))
		}
	}
	if band := b.band(); band != "" {
		fmt.Fprintf(&out, "  band        %s\n", plaintext.Line(band))
	}
	for _, change := range b.news() {
		fmt.Fprintf(&out, "  changed     %s\n", plaintext.Line(change))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// band returns from what change on a figure is told from noise; "" if no series has a band.
func (b *Board) band() string {
	least, n := math.Inf(1), 0
	var widest *Series
	for i := range b.Series {
		s := &b.Series[i]
		at := s.Last().Least
		if math.IsNaN(at) {
			continue
		}
		n++
		least = min(least, at)
		if widest == nil || at > widest.Last().Least {
			widest = s
		}
	}
	switch {
	case n == 0:
		return ""
	case n == 1 || widest.Last().Least-least < 0.0005:
		return fmt.Sprintf("a change counts from %.1f %% on", 100*least)
	}
	return fmt.Sprintf("a change counts from %.1f %% on, at %s, %s from %.1f %% on", 100*least, widest.Label, widest.Metric.Column, 100*widest.Last().Least)
}

// reasons says in lines what a verdict rests on.
func (b *Board) reasons(s Series) []string {
	v := s.Last()
	moved := fmt.Sprintf("%s -> %s; band %s to %s of %s", humanize.Figure(v.Center), moved(v, unit(s)), humanize.Figure(v.Low), humanize.Figure(v.High), humanize.Plural(v.Nights, "night"))
	last := len(b.Nights) - 1
	second := ""
	if x := s.Again[last]; !math.IsNaN(x) {
		second = "measured again the same night: " + value(x) + unit(s)
	}
	switch v.State {
	case gate.Missing:
		return []string{"measured before, and not in this run"}
	case gate.TooNoisy:
		return []string{fmt.Sprintf("the least change that counts is %.1f %% (sd between nights %.1f %%)", 100*v.Least, 100*v.SD)}
	case gate.Regression, gate.Accepted, gate.Improved:
		change := cmp.Or(s.Changed(v.First), "nothing of the software that is recorded")
		if second != "" && v.First == last {
			moved += "; " + second
		}
		return []string{moved, "since " + b.when(v.First), "changed then: " + change}
	case gate.Withdrawn:
		return []string{moved, second + ": the suspicion is withdrawn"}
	case gate.Suspect:
		if second != "" {
			return []string{moved, second + ": worse too, by less than is certain; the next night decides"}
		}
	}
	return []string{moved}
}

// moved returns a night's value in words, with its change.
func moved(v gate.Verdict, unit string) string {
	if math.IsInf(v.Value, 0) {
		return "infinite"
	}
	text := humanize.Figure(v.Value) + unit
	if !math.IsInf(v.Change, 0) && !math.IsNaN(v.Change) {
		text += fmt.Sprintf(", %+.1f %%", 100*v.Change)
	}
	return text
}

func (b *Board) when(night int) string {
	return fmt.Sprintf("%s (run %s)", b.Nights[night], b.Nights[night].Run)
}

// unit returns " ms", or what else the metric's name says.
func unit(s Series) string {
	switch {
	case strings.HasSuffix(s.Metric.Column, "_ms"):
		return " ms"
	case strings.HasSuffix(s.Metric.Column, "_tok_s"):
		return " tok/s"
	}
	return ""
}

// learned says how many nights the series that learn have.
func (b *Board) learned() string {
	least, most := math.MaxInt, 0
	for _, s := range b.In(gate.Learning) {
		n := s.Last().Nights + 1
		least, most = min(least, n), max(most, n)
	}
	if least == most {
		return fmt.Sprintf("this is night %d", least)
	}
	return fmt.Sprintf("this is night %d to %d of them", least, most)
}

// begun returns the different reasons why series begin anew.
func (b *Board) begun() []string {
	var list []string
	for _, s := range b.Series {
		if s.New != "" && s.Last().State == gate.Learning && !slices.Contains(list, "a new series: "+s.New) {
			list = append(list, "a new series: "+s.New)
		}
	}
	return list
}

// news returns what of the software changed with the last night, each change once.
func (b *Board) news() []string {
	var list []string
	for _, s := range b.Series {
		if change := s.Changed(len(b.Nights) - 1); change != "" && !slices.Contains(list, change) {
			list = append(list, change)
		}
	}
	return list
}
