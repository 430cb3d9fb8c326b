// Package paired says what a run found whose plan has quality: how each deployment
// answered the prompts, and whether it answered worse than the baseline. The statistics
// are package quality's.
package paired

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/quality"
	"sweep.dev/sweep/report/draw"
)

// confidence is that of the interval of one score.
const confidence = 0.95

// A Paired is the answers of a run's deployments.
type Paired struct {
	Servers []Server // baselines first, then by label
	Sides   []Side   // each deployment that has a baseline, against it
	// Unread are the files of answers that cannot be read, with the reason.
	Unread []string
}

// A Server is one deployment.
type Server struct {
	Label string
	quality.Summary
	answers *quality.Answers
}

// Asked says whether sweep asked for the answers: otherwise it is not known which prompts
// were refused.
func (s *Server) Asked() bool { return s.answers.Source == quality.FromSweep }

// A Side is one deployment against its baseline.
type Side struct {
	Server, Baseline *Server
	quality.Comparison
}

// Read reads the answers in a run directory; nil if there are none.
func Read(dir string) (*Paired, error) {
	root := os.DirFS(dir)
	names, err := fs.Glob(root, layout.AnyQuality)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	p := &Paired{}
	latest := map[string]*quality.Answers{}
	for _, name := range names { // launches in their order
		a, err := read(root, name)
		if err != nil {
			p.Unread = append(p.Unread, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		latest[a.Deployment] = a
	}
	for _, a := range latest {
		p.Servers = append(p.Servers, Server{a.Label, quality.Summarize(a.List, confidence), a})
	}
	slices.SortFunc(p.Servers, func(x, y Server) int {
		return cmp.Or(rank(x.answers)-rank(y.answers), strings.Compare(x.Label, y.Label), strings.Compare(x.answers.Deployment, y.answers.Deployment))
	})
	p.compare()
	return p, nil
}

func read(root fs.FS, name string) (*quality.Answers, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return quality.ReadAnswers(f)
}

// rank is 0 for a baseline.
func rank(a *quality.Answers) int {
	if len(a.Baseline) > 0 && isBase(a, a) {
		return 0
	}
	return 1
}

// isBase says whether the deployment b has the values that a is compared with, and a's
// own values of all other axes.
func isBase(a, b *quality.Answers) bool {
	if len(a.Server) != len(b.Server) || a.Digest != b.Digest {
		return false
	}
	for axis, own := range a.Server {
		want, ok := a.Baseline[axis]
		if !ok {
			want = own
		}
		if b.Server[axis] != want {
			return false
		}
	}
	return true
}

// compare holds each deployment against its baseline.
func (p *Paired) compare() {
	for i := range p.Servers {
		s := &p.Servers[i]
		if len(s.answers.Baseline) == 0 || isBase(s.answers, s.answers) {
			continue
		}
		if n := slices.IndexFunc(p.Servers, func(b Server) bool { return isBase(s.answers, b.answers) }); n >= 0 {
			p.Sides = append(p.Sides, Side{Server: s, Baseline: &p.Servers[n]})
		}
	}
	for i := range p.Sides {
		s := &p.Sides[i]
		s.Comparison = quality.Compare(s.Baseline.answers.List, s.Server.answers.List, len(p.Sides))
	}
}

// Grid is a table with a line for each deployment.
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
		if len(s.answers.Baseline) > 0 && !isBase(s.answers, s.answers) && !slices.ContainsFunc(p.Sides, func(x Side) bool { return x.Server == s }) {
			notes = append(notes, s.Label+": not compared, as its baseline has no answers to these prompts.")
		}
	}
	for _, text := range p.Unread {
		notes = append(notes, "Not read: "+text)
	}
	return notes
}

// Verdicts says of each side whether it answers worse than its baseline.
func (p *Paired) Verdicts() []draw.Item {
	level := 100 * (1 - quality.Alpha/float64(max(1, len(p.Sides))))
	var items []draw.Item
	for i := range p.Sides {
		s := &p.Sides[i]
		item := draw.Item{Text: fmt.Sprintf("%s against %s: %s", s.Server.Label, s.Baseline.Label, s.words())}
		if s.Pairs > 0 {
			item.Below = append(item.Below, fmt.Sprintf("score %+.1f points (%.4g %% interval %+.1f to %+.1f): of %s %d became wrong and %d right, p = %.2g",
				100*s.Difference, level, 100*s.Low, 100*s.High, humanize.Plural(s.Pairs, "prompt"), s.Losses, s.Gains, s.P))
		}
		if s.Texts > 0 {
			text := fmt.Sprintf("%s of the answers are the same text", percent(float64(s.Same)/float64(s.Texts)))
			if s.First != nil {
				text += fmt.Sprintf("; the others differ first at character %.0f (median)", *s.First+1)
			}
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
	level := 100 * (1 - quality.Alpha/float64(max(1, len(p.Sides))))
	var lines []string
	for i := range p.Sides {
		s := &p.Sides[i]
		text := fmt.Sprintf("%s against %s: %s", s.Server.Label, s.Baseline.Label, s.words())
		if s.Pairs > 0 {
			text += fmt.Sprintf("; score %+.1f points (%.4g %% interval %+.1f to %+.1f)", 100*s.Difference, level, 100*s.Low, 100*s.High)
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
	return lines
}

// words is the verdict, with what the set could have shown if it shows nothing.
func (s *Side) words() string {
	if s.Verdict != quality.CannotTell {
		return string(s.Verdict)
	}
	switch {
	case s.Pairs == 0:
		return "cannot tell: no prompt has a score on both sides"
	case s.Detectable == nil:
		return fmt.Sprintf("cannot tell: %s show no loss of any size", humanize.Plural(s.Pairs, "prompt"))
	}
	return fmt.Sprintf("cannot tell: %s show a loss of %.1f points or more (4 times in 5), and no smaller one", humanize.Plural(s.Pairs, "prompt"), 100**s.Detectable)
}

// varied is the share of the prompts that got two different answers.
func (s *Server) varied() string { return percent(float64(s.Varied) / float64(s.Repeated)) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
