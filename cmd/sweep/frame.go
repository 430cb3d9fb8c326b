package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/report/conclude"
)

// A lane is the cells of one deployment, in the plan's order, each with the mark of
// what its trials came to so far.
type lane struct {
	cells []string
	marks map[string]string
}

// mostMarks bounds the cells that have a mark each on a line.
const mostMarks = 24

func (l *lane) String() string {
	if l == nil {
		return ""
	}
	done, marks := 0, strings.Builder{}
	for _, cell := range l.cells {
		mark := l.marks[cell]
		if mark == "" {
			mark = conclude.Pending.Mark()
		} else {
			done++
		}
		marks.WriteString(mark)
	}
	if len(l.cells) > mostMarks {
		return fmt.Sprintf("[%d of %d cells]", done, len(l.cells))
	}
	return "[" + marks.String() + "]"
}

// frame returns what a terminal shows of a run at one moment: a line for each deployment at
// work, and one for money and time. It is a pure function of the view, but for the
// countdown, which remembers what it has said.
func (v *view) frame(now time.Time, width int) []string {
	head := fmt.Sprintf("%s  %d/%d", plaintext.Line(v.plan), v.run.done, v.run.total)
	if most := width / 3; most > 8 && utf8.RuneCountInString(head) > most {
		head = fmt.Sprintf("%d/%d", v.run.done, v.run.total)
	}
	rest := strings.Repeat(" ", utf8.RuneCountInString(head))
	var lines []string
	running, last := 0.0, 0.0
	lead := head
	for _, l := range v.live {
		running, last = running+l.ran(now), last+l.did
		name := plaintext.Line(l.name)
		label := strings.TrimSpace(strings.TrimPrefix(plaintext.Line(l.label), name))
		server := name + " " + v.lanes[l.deployment].String()
		lines = append(lines, squeeze(lead, server, shorten(label), l.details(now), width))
		lead = rest
	}
	var tail []string
	if v.spending != nil {
		tail = append(tail, spent(*v.spending))
	}
	if eta, ok := v.run.eta(running, last); ok {
		tail = append(tail, v.countdown.show(eta, now))
	}
	if len(lines) == 0 {
		return []string{strings.Join(append([]string{head}, tail...), "   ")}
	}
	if len(tail) > 0 {
		lines = append(lines, rest+"  "+strings.Join(tail, "   "))
	}
	return lines
}

// shorten returns a label with the short forms of its axes, which commands take too:
// c=8 for concurrency=8.
func shorten(label string) string {
	names, forms := axes.Shorts()
	words := strings.Fields(label)
	for i, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			if at := slices.Index(names, name); at >= 0 {
				words[i] = forms[at] + "=" + value
			}
		}
	}
	return strings.Join(words, " ")
}

// leastLabel is how many characters of a label always stay.
const leastLabel = 8

// squeeze joins the parts of a line. If they are too long it leaves out details from
// the last on, then the label's beginning, then the marks.
func squeeze(lead, server, label string, details []string, width int) string {
	join := func() string {
		text := lead + "  " + strings.TrimSpace(server)
		if label != "" {
			text += "  " + label
		}
		return text + "  " + strings.Join(details, "  ")
	}
	fits := func() bool { return utf8.RuneCountInString(join()) < width }
	for len(details) > 1 && !fits() {
		details = details[:len(details)-1]
	}
	if r := []rune(label); !fits() && len(r) > leastLabel {
		over := utf8.RuneCountInString(join()) - width + 2
		label = "…" + string(r[min(over, len(r)-leastLabel):])
	}
	if name, _, ok := strings.Cut(server, " ["); ok && !fits() {
		server = name
	}
	return join()
}

// spent returns what a run costs, beside its bound.
func spent(s event.Spending) string {
	text := fmt.Sprintf("%s $%.2f/h, $%.2f", humanize.Plural(s.Pods, "pod"), s.USDPerHour, s.USD)
	if s.MaxUSD > 0 {
		return text + fmt.Sprintf(" of $%.2f", s.MaxUSD)
	}
	return text + " so far"
}

// A countdown is the time to go. It grows only with a reason that can be shown.
type countdown struct {
	shown time.Duration
	any   bool
	cause string // why it may grow at the next look
	note  string // by how much it grew, and why
	until time.Time
}

const (
	// noted is how long a reason is shown.
	noted = 20 * time.Second
	// leastGrowth is the growth below which the old time stays, and is waited for.
	leastGrowth = 5 * time.Second
)

// because notes why the time may grow.
func (c *countdown) because(cause string) { c.cause = cause }

// show returns the time in words: "11m05s to go". If it grew by more than a fifth, or for a
// reason that is known, it says by how much and why.
func (c *countdown) show(eta time.Duration, now time.Time) string {
	grown := eta - c.shown
	switch {
	case !c.any || grown <= 0:
		c.shown, c.any = eta, true
	case grown >= leastGrowth && (c.cause != "" || grown > c.shown/5):
		cause := c.cause
		if cause == "" {
			cause = "slower than the plan's estimate"
		}
		c.note, c.until = fmt.Sprintf(" (+%s: %s)", short(grown), cause), now.Add(noted)
		c.shown, c.cause = eta, ""
	}
	text := short(c.shown) + " to go"
	if now.Before(c.until) {
		text += c.note
	}
	return text
}
