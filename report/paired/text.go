package paired

import (
	"fmt"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/draw"
)

// noBaseline is why a deployment is not compared with its baseline.
const noBaseline = "its baseline has no answers to these prompts"

// Grid returns a table with a line for each deployment.
func (p *Paired) Grid() draw.Grid {
	g := draw.Grid{Name: "Quality: right answers to the plan's prompts", Down: "server", Values: []string{"score", "95 % interval", "prompts", "refused", "same twice"}}
	for i := range p.Servers {
		s := &p.Servers[i]
		score, interval, twice := "-", "-", "-"
		if v, ok := s.Score(); ok {
			score, interval = percent(v), percent(s.Low)+" to "+percent(s.High)
		}
		if s.Repeated > 0 {
			twice = percent(float64(s.Repeated-s.Varied) / float64(s.Repeated))
		}
		refused := "-"
		if s.Asked() {
			refused = fmt.Sprint(s.Refused)
		}
		g.Rows = append(g.Rows, draw.Fields(s.Label, score, interval, fmt.Sprint(s.Items), refused, twice))
	}
	return g
}

// Notes says what a table needs beside it.
func (p *Paired) Notes() []string {
	how := "Score: right answers of those with a known score, at temperature 0, outside of the measured time. The interval (Clopper-Pearson) is over prompts of this kind. Same twice: prompts that got the same text when they were asked again."
	if len(p.Servers) > 0 && !p.Servers[0].Asked() {
		how = "Score: right answers in the files of lm-evaluation-harness that the plan names; sweep did not ask for them. The interval (Clopper-Pearson) is over prompts of this kind."
	}
	notes := []string{how}
	for i := range p.Servers {
		s := &p.Servers[i]
		if s.Unknown > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s without an answer, for a reason that says nothing of its quality; they are left out.", s.Label, humanize.Plural(s.Unknown, "prompt")))
		}
		if p.uncompared(s) {
			notes = append(notes, s.Label+": not compared, as "+noBaseline+".")
		}
	}
	for _, text := range p.Unread {
		notes = append(notes, "Not read: "+text)
	}
	return notes
}

// Verdicts says of each side whether it answers worse than its baseline.
func (p *Paired) Verdicts() []draw.Item {
	var items []draw.Item
	for i := range p.Sides {
		s := &p.Sides[i]
		item := draw.Item{Text: fmt.Sprintf("%s against %s: %s", s.Server.Label, s.Baseline.Label, s.Words())}
		if s.Pairs > 0 {
			item.Below = append(item.Below, fmt.Sprintf("score %s: of %s %d became wrong and %d right, p = %.2g",
				s.change(), humanize.Plural(s.Pairs, "prompt"), s.Losses, s.Gains, s.P))
		}
		if text := s.alike(); text != "" {
			if s.Baseline.Repeated > 0 && s.Server.Repeated > 0 {
				text += fmt.Sprintf("; asked twice, the baseline differs from itself in %s and this one in %s", s.Baseline.varied(), s.Server.varied())
			}
			item.Below = append(item.Below, text)
		}
		items = append(items, item)
	}
	return items
}

// Short says the same in a line for each deployment: against its baseline, or of one
// without any its score.
func (p *Paired) Short() []string {
	var lines []string
	for i := range p.Sides {
		s := &p.Sides[i]
		text := fmt.Sprintf("%s against %s: %s", s.Server.Label, s.Baseline.Label, s.Words())
		if s.Pairs > 0 {
			text += "; score " + s.change()
		}
		lines = append(lines, text)
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		if slices.ContainsFunc(p.Sides, func(x Side) bool { return x.Server == s || x.Baseline == s }) {
			continue
		}
		text := s.Label + ": no score is known"
		if v, ok := s.Score(); ok {
			text = fmt.Sprintf("%s: %s right (95 %% interval %s to %s) of %s", s.Label, percent(v), percent(s.Low), percent(s.High), humanize.Plural(s.Scored, "prompt"))
		}
		lines = append(lines, text)
	}
	for _, text := range p.Unread {
		lines = append(lines, "not read: "+text)
	}
	return lines
}

// Words returns the verdict, with what the set could have shown if it shows nothing.
func (s *Side) Words() string {
	if s.Verdict != quality.CannotTell {
		return string(s.Verdict)
	}
	switch {
	case s.Pairs == 0:
		return "cannot tell: no prompt has a score on both sides"
	case s.Detectable == nil:
		return fmt.Sprintf("cannot tell: with %s no loss of any size would show", humanize.Plural(s.Pairs, "prompt"))
	}
	return fmt.Sprintf("cannot tell: with %s a loss of %.1f points or more would show (4 times in 5), and no smaller one", humanize.Plural(s.Pairs, "prompt"), 100**s.Detectable)
}

// alike says how many of the answers are the same text; "" if there are no texts.
func (s *Side) alike() string {
	rate, ok := s.SameRate()
	if !ok {
		return ""
	}
	text := percent(rate) + " of the answers are the same text"
	if s.First != nil {
		text += fmt.Sprintf("; the others differ first at character %.0f (median)", *s.First+1)
	}
	return text
}

// varied returns the share of the prompts that got two different answers.
func (s *Server) varied() string { return percent(float64(s.Varied) / float64(s.Repeated)) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
