package loglines

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
)

// Bounds of a story.
const (
	maxSteps   = 100_000         // lines without an id that may be steps of the request
	maxReads   = 8               // of the logs: each may find ids that the one before did not know
	maxValue   = 1 << 10         // bytes of a value
	nearWindow = 2 * time.Minute // between a line without an id and the event next to it
	clockSkew  = time.Second     // between two nodes
	shortestID = 8               // bytes of an id that is only a part of another
)

// A Story is what the logs say of one request.
type Story struct {
	r       *Reader
	request string
	ids     map[string]bool // of the request, as far as they are known: its own, and by aliases
	sources map[Source]bool
	seen    // at the last reading
}

// What was seen at one reading of the logs.
type seen struct {
	steps   []*step
	lines   map[Source]int // by log
	others  map[int]int    // lines of other requests, by event
	dropped int            // steps for which there was no room
	named   int            // lines that name the request and are no step
}

// A step is one line that is an event of some request.
type step struct {
	event  int
	at     Stamp
	source Source
	n      int // place in the log of its source
	groups []Group
	id     string // of the request that it names; "" if it names none
	bound  bool   // it names our request
	of     int    // how many lines fit; 0 for a bound one

	last time.Time // by which it was printed, by its own time and those below it in its log
}

// A Group is a value that a line says, by its name in the pattern.
type Group struct{ Name, Value string }

// Tell returns the timeline of a request. Its id may be the one of the router or of a server,
// which often put something before and after it.
//
// Read hands all lines of all logs to the story. It is called again, from the beginning, as
// long as the lines show further ids of the request, since a line with two of them may come
// after those that have one: all lines of the request itself are kept, and of those
// without an id a bound.
func (r *Reader) Tell(request string, read func(*Story) error) (Timeline, error) {
	s := &Story{r: r, request: request, ids: map[string]bool{request: true}, sources: map[Source]bool{}}
	known := 0
	for n := 0; known < len(s.ids) && n < maxReads; n++ {
		known, s.seen = len(s.ids), seen{lines: map[Source]int{}, others: map[int]int{}}
		if err := read(s); err != nil {
			return Timeline{}, err
		}
	}
	return s.timeline(), nil
}

// Reads notes that the log of a source is read, also if it has no lines.
func (s *Story) Reads(source Source) { s.sources[source] = true }

// Add takes a line. Those of one source come in the order of its log, which they keep; the
// sources may come in any order.
func (s *Story) Add(source Source, at Stamp, text string) {
	s.Reads(source)
	s.lines[source]++
	text = uncoloured(text)
	for i, patterns := range s.r.events {
		if !s.r.prints(source, s.r.logs.Events[i].Roles) {
			continue
		}
		for _, re := range patterns {
			m := re.FindStringSubmatchIndex(text)
			if m == nil {
				continue
			}
			one := &step{event: i, at: at, source: source, n: s.lines[source]}
			for g, name := range re.SubexpNames() {
				if name == "" || m[2*g] < 0 {
					continue
				}
				value := text[m[2*g]:m[2*g+1]]
				if name == groupRequest {
					one.id = shortened(value)
				}
				one.groups = append(one.groups, Group{name, shortened(value)})
			}
			if s.bind(one); one.id != "" && !one.bound {
				s.others[i]++
				return
			}
			if !one.bound && len(s.steps) >= maxSteps {
				s.dropped++
				return
			}
			s.steps = append(s.steps, one)
			return
		}
	}
	if names(text, s.request) {
		s.named++
	}
}

// shortened returns a value that does not keep its line in memory.
func shortened(value string) string {
	if len(value) <= maxValue {
		return strings.Clone(value)
	}
	return value[:maxValue] + "..."
}

// sameRequest compares two ids. A server puts a prefix and the number of the prompt around
// the one that it was given, with a dash between.
func sameRequest(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || len(a) >= shortestID && names(b, a)
}

// names reports whether a text has an id that is no part of a longer one.
func names(text, id string) bool {
	for {
		before, after, found := strings.Cut(text, id)
		if !found {
			return false
		}
		if !continues(before[max(0, len(before)-1):]) && !continues(after[:min(len(after), 1)]) {
			return true
		}
		text = after
	}
}

// continues reports whether a character next to an id makes it another id, as the last of n12
// does with n1.
func continues(c string) bool {
	return c != "" && (c >= "0" && c <= "9" || c >= "a" && c <= "z" || c >= "A" && c <= "Z")
}

// ours reports whether an id is one of the request.
func (s *Story) ours(id string) bool { return s.ids[id] || sameRequest(id, s.request) }

// bind reports whether a line is of the request, and learns the other id that it may name it by:
// a line that has both ids may stand in any log, and name a third one.
func (s *Story) bind(one *step) {
	alias := one.group(groupAlias)
	one.bound = one.id != "" && s.ours(one.id) || alias != "" && s.ours(alias)
	if one.bound && one.id != "" && alias != "" {
		s.ids[one.id], s.ids[alias] = true, true
	}
}

func (s *step) group(name string) string {
	for _, g := range s.groups {
		if g.Name == name {
			return g.Value
		}
	}
	return ""
}

// A TimelineStep is one step of a request.
type TimelineStep struct {
	Event string    `json:"event"`
	Says  string    `json:"says"`
	Time  time.Time `json:"time"`
	// WholeSecond says that the line has whole seconds only: it was printed somewhere within
	// the second that begins with Time.
	WholeSecond bool    `json:"whole_second"`
	Role        string  `json:"role"`
	Pod         string  `json:"pod"`
	Container   string  `json:"container"`
	Values      []Group `json:"values"`
	// Of is how many lines fit, for a line that does not name the request: one is sure
	// to be it, of several the nearest was taken, or one of the nearest. 0 is for a line that
	// names it.
	Of int `json:"of"`
}

// A Missing is a step that no line shows.
type Missing struct {
	Event string `json:"event"`
	Says  string `json:"says"`
	Why   string `json:"why"`
}

// A Timeline is all that the logs say of one request.
type Timeline struct {
	Request string         `json:"request"`
	Steps   []TimelineStep `json:"steps"` // by time; those of one log in its order
	Missing []Missing      `json:"missing"`
	Named   int            `json:"named"`   // further lines that name it
	Dropped int            `json:"dropped"` // lines for which there was no room
}

// timeline puts the steps of the request together. Without one line that names it there are
// none.
func (s *Story) timeline() Timeline {
	out := Timeline{Request: s.request, Steps: []TimelineStep{}, Missing: []Missing{}, Named: s.named, Dropped: s.dropped}
	var placed []*step
	for _, one := range s.steps {
		if one.bound {
			placed = append(placed, one)
		}
	}
	for more := len(placed) > 0; more; {
		more = false
		for i := range s.r.logs.Events {
			if one := s.fitting(i, placed); one != nil {
				placed = append(placed, one)
				more = true
			}
		}
	}
	has := map[int]bool{}
	for _, one := range inOrder(placed) {
		has[one.event] = true
		out.Steps = append(out.Steps, s.timelineStep(one))
	}
	for i, e := range s.r.logs.Events {
		if !has[i] && e.Prints != "" {
			out.Missing = append(out.Missing, Missing{e.Name, e.Says, s.why(i)})
		}
	}
	return out
}

// timelineStep returns a step with what its line says.
func (s *Story) timelineStep(one *step) TimelineStep {
	e := s.r.logs.Events[one.event]
	told := TimelineStep{Event: e.Name, Says: e.Says, Time: one.at.Time, WholeSecond: one.at.Whole, Role: one.source.Role, Pod: one.source.Pod, Container: one.source.Container, Of: one.of, Values: []Group{}}
	for _, g := range one.groups {
		if g.Name == groupAlias && sameRequest(g.Value, s.request) {
			g.Value = one.id // the one that was not asked for
		}
		if g.Name != groupRequest && !s.repeats(one, g) {
			told.Values = append(told.Values, g)
		}
	}
	return told
}

// repeats reports whether a link only repeats a part of another value.
func (s *Story) repeats(one *step, link Group) bool {
	return slices.Contains(s.r.logs.Links, link.Name) && slices.ContainsFunc(one.groups, func(g Group) bool {
		return g.Name != link.Name && strings.Contains(g.Value, link.Value)
	})
}

// inOrder returns steps by their times. Steps of one log keep its order, also if its clock
// goes back. Whole seconds may leave the order of steps of two logs open, which is then the
// usual one of the events.
func inOrder(steps []*step) (ordered []*step) {
	bySource := map[Source][]*step{}
	for _, one := range steps {
		bySource[one.source] = append(bySource[one.source], one)
	}
	var all [][]*step
	for _, log := range bySource {
		narrow(log)
		all = append(all, log)
	}
	for range steps {
		until := all[0][0].last // some step was printed by then
		for _, log := range all {
			if log[0].last.Before(until) {
				until = log[0].last
			}
		}
		next := -1
		for i, log := range all {
			if !log[0].at.After(until) && (next < 0 || log[0].compare(all[next][0]) < 0) {
				next = i
			}
		}
		ordered = append(ordered, all[next][0])
		if all[next] = all[next][1:]; len(all[next]) == 0 {
			all = slices.Delete(all, next, next+1)
		}
	}
	return ordered
}

// narrow sorts the steps of one log and sets by when each was printed: before those below it,
// unless the clock went back.
func narrow(log []*step) {
	slices.SortFunc(log, func(a, b *step) int { return a.n - b.n })
	for i, one := range slices.Backward(log) {
		one.last = one.at.last()
		if i+1 < len(log) && log[i+1].last.Before(one.last) {
			one.last = log[i+1].last
		}
		if one.last.Before(one.at.Time) {
			one.last = one.at.Time
		}
	}
}

// compare orders steps of two logs whose times leave it open.
func (s *step) compare(b *step) int {
	return cmp.Or(s.event-b.event, s.at.Compare(b.at.Time), cmp.Compare(s.source.Pod, b.source.Pod), cmp.Compare(s.source.Container, b.source.Container))
}

// why says why an event is missing.
func (s *Story) why(event int) string {
	e := s.r.logs.Events[event]
	n, nameless := s.others[event], 0
	for _, one := range s.steps {
		if one.event == event { // another request's would not be kept
			nameless++
		}
	}
	if nameless > 0 {
		return fmt.Sprintf("printed without a request's id (%s), so no line can be joined to this request", humanize.Plural(nameless, "line"))
	}
	if n > 0 {
		return fmt.Sprintf("none of %d such lines fits this request", n)
	}
	for source := range s.sources {
		if s.r.prints(source, e.Roles) {
			return "not printed: it needs " + e.Prints
		}
	}
	return "no log of " + strings.Join(e.Roles, " or ") + " was read"
}

// fitting returns the line of an event without ids that belongs to the request, with how many
// fit. It is nil if the story has one already.
func (s *Story) fitting(event int, placed []*step) (best *step) {
	if slices.ContainsFunc(placed, func(one *step) bool { return one.event == event }) {
		return nil
	}
	links := s.known(placed)
	from, to := s.between(event, placed)
	for _, near := range s.r.logs.Events[event].Near {
		anchor := s.anchor(near, placed)
		if anchor == nil {
			continue
		}
		of := 0
		for _, one := range s.steps {
			if one.event != event || one.id != "" || one.at.last().Before(from) || !to.IsZero() && one.at.After(to) || !s.fits(one, anchor, near, links) {
				continue
			}
			of++ // of lines as near, one before it is the last
			if best == nil || distance(one, anchor) < distance(best, anchor) || near.Side == Before && distance(one, anchor) == distance(best, anchor) {
				best = one
			}
		}
		if best != nil {
			best.of = of
			return best
		}
	}
	return nil
}

// distance returns the least time between two lines: 0 if they may be of one time.
func distance(a, b *step) time.Duration {
	return max(0, a.at.Sub(b.at.last()), b.at.Sub(a.at.last()))
}

// known returns the values of links that the story has.
func (s *Story) known(placed []*step) map[string][]string {
	links := map[string][]string{}
	for _, one := range placed {
		for _, name := range s.r.logs.Links {
			if v := one.group(name); v != "" {
				links[name] = append(links[name], v)
			}
		}
	}
	return links
}

// between returns when an event can have been: after the earlier events that name the request,
// and before the later ones. The zero time is no limit.
func (s *Story) between(event int, placed []*step) (from, to time.Time) {
	for _, one := range placed {
		switch {
		case !one.bound:
		case one.event < event && one.at.Add(-clockSkew).After(from):
			from = one.at.Add(-clockSkew)
		case one.event > event && (to.IsZero() || one.at.last().Add(clockSkew).Before(to)):
			to = one.at.last().Add(clockSkew)
		}
	}
	return from, to
}

// anchor returns the event of the story that a place is next to: the first, or for what comes
// after it, the last.
func (s *Story) anchor(near Near, placed []*step) (found *step) {
	for _, one := range placed {
		if s.r.logs.Events[one.event].Name != near.Event {
			continue
		}
		if found == nil || one.at.Before(found.at.Time) == (near.Side == Before) {
			found = one
		}
	}
	return found
}

func (s *Story) fits(one, anchor *step, near Near, links map[string][]string) bool {
	if !near.Anywhere && one.source.Pod != s.about(anchor) {
		return false
	}
	first, second := one, anchor
	if near.Side == After {
		first, second = anchor, one
	}
	sure := first.at.After(second.at.last()) // that they are the other way round
	if one.source == anchor.source {
		sure = first.n > second.n
	}
	if sure || distance(one, anchor) > nearWindow {
		return false
	}
	for name, values := range links {
		if v := one.group(name); v != "" && !slices.Contains(values, v) {
			return false
		}
	}
	return true
}

// about returns the pod that an event is about: the one that it names, if its log was read, or
// the one that printed it.
func (s *Story) about(one *step) string {
	if name := one.group(groupPod); name != "" {
		name = rank.ReplaceAllString(name, "")
		for source := range s.sources {
			if source.Pod == name {
				return name
			}
		}
	}
	return one.source.Pod
}

// rank is what llm-d's router puts after the name of a pod with several ranks.
var rank = regexp.MustCompile(`-rank-[0-9]+$`)
