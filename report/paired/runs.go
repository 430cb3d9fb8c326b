package paired

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/report/draw"
)

// A Link is one deployment in two runs.
type Link struct {
	Base, Head string // its ids in either
	Label      string // for people, if it has no answers
}

// Runs is how the deployments of one run answered against the same ones of another.
type Runs struct {
	Sides []Side // the baseline is of base
	Left  []Left
	// Unread are the files of answers that cannot be read, with the reason.
	Unread []string

	links []Link // of Sides
}

// A Left is a deployment that is not compared.
type Left struct {
	Label string `json:"label"`
	Why   string `json:"why"`
}

// Why deployments of two runs are not compared.
const (
	otherPrompts   = "the runs asked other prompts, or in another way"
	unknownPrompts = "it is not known whether both runs asked the same prompts"
	noAnswers      = "%s no readable answers to quality prompts"
)

// Between compares deployments of two runs; nil if neither run has answers. A run without
// any is nil.
func Between(base, head *Paired, links []Link) *Runs {
	if base == nil && head == nil {
		return nil
	}
	r := &Runs{}
	for _, run := range []struct {
		name string
		*Paired
	}{{"base", base}, {"head", head}} {
		if run.Paired == nil {
			continue
		}
		for _, text := range run.Unread {
			r.Unread = append(r.Unread, run.name+": "+text)
		}
	}
	for _, l := range links {
		b, h := base.server(l.Base), head.server(l.Head)
		why := ""
		switch {
		case b == nil && h == nil:
			why = fmt.Sprintf(noAnswers, "both runs have")
		case b == nil:
			why = fmt.Sprintf(noAnswers, "base has")
		case h == nil:
			why = fmt.Sprintf(noAnswers, "head has")
		case b.answers.Asked() == "" || h.answers.Asked() == "":
			why = unknownPrompts
		case b.answers.Asked() != h.answers.Asked():
			why = otherPrompts
		}
		if why != "" {
			r.Left = append(r.Left, Left{l.Label, why})
			continue
		}
		r.Sides, r.links = append(r.Sides, Side{Server: h, Baseline: b}), append(r.links, l)
	}
	compare(r.Sides)
	return r
}

// server returns a deployment; nil if it has no answers. p may be nil.
func (p *Paired) server(deployment string) *Server {
	if p == nil {
		return nil
	}
	for i := range p.Servers {
		if p.Servers[i].answers.Deployment == deployment {
			return &p.Servers[i]
		}
	}
	return nil
}

// Link returns that of the side at i.
func (r *Runs) Link(i int) Link { return r.links[i] }

// Items says of each side whether head answers worse than base.
func (r *Runs) Items() []draw.Item {
	items := make([]draw.Item, len(r.Sides))
	for i := range r.Sides {
		s := &r.Sides[i]
		items[i].Text = fmt.Sprintf("%s: %s", s.Server.Label, s.Words())
		if base, score, ok := s.Scores(); ok {
			items[i].Below = append(items[i].Below, fmt.Sprintf("score %s -> %s: %s; %d became wrong and %d right, p = %.2g",
				percent(base), percent(score), s.change(), s.Losses, s.Gains, s.P))
		}
		if text := s.alike(); text != "" {
			items[i].Below = append(items[i].Below, text)
		}
	}
	return items
}

// change returns the difference with its interval.
func (s *Side) change() string {
	return fmt.Sprintf("%+.1f points (%.4g %% interval %+.1f to %+.1f)", 100*s.Difference, 100*s.Confidence, 100*s.Low, 100*s.High)
}

// Grid returns a table with a line for each side. Its verdict comes first: a narrow page hides what
// is last.
func (r *Runs) Grid() draw.Grid {
	g := draw.Grid{
		Name: "Quality: right answers to the plan's prompts", Down: "server",
		Values: []string{"verdict", "prompts", "base score", "head score", "difference", "smallest loss that shows", "same text", "first different character"},
	}
	for i := range r.Sides {
		s := &r.Sides[i]
		base, score, difference, least, same, first := "-", "-", "-", "-", "-", "-"
		if b, h, ok := s.Scores(); ok {
			base, score, difference = percent(b), percent(h), s.change()
		}
		if s.Detectable != nil {
			least = fmt.Sprintf("%.1f points", 100**s.Detectable)
		}
		if rate, ok := s.SameRate(); ok {
			same = percent(rate)
		}
		if s.First != nil {
			first = fmt.Sprintf("%.0f", *s.First+1)
		}
		g.Rows = append(g.Rows, draw.Fields(s.Server.Label, string(s.Verdict), fmt.Sprint(s.Pairs), base, score, difference, least, same, first))
	}
	return g
}

// mostLeft is how many deployments that are not compared are named.
const mostLeft = 3

// LeftOut returns a sentence for each reason for which deployments are not compared. all names
// each of them.
func (r *Runs) LeftOut(all bool) []string {
	var order, lines []string
	by := map[string][]string{}
	for _, l := range r.Left {
		if by[l.Why] == nil {
			order = append(order, l.Why)
		}
		by[l.Why] = append(by[l.Why], l.Label)
	}
	for _, why := range order {
		text := "quality not compared: " + why
		if names := by[why]; all || len(r.Sides) > 0 || len(order) > 1 {
			if !all && len(names) > mostLeft {
				names = append(names[:mostLeft:mostLeft], "...")
			}
			text += ": " + strings.Join(names, "; ")
		}
		lines = append(lines, text)
	}
	for _, text := range r.Unread {
		lines = append(lines, "quality not read: "+text)
	}
	return lines
}
