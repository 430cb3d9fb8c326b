// Package loglines says what single lines of an engine's logs mean, by data: which say
// nothing of interest, and which are steps of one request. A profile has the patterns.
package loglines

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Logs are the patterns of an engine.
type Logs struct {
	// Like names the part of the built-in profiles whose patterns these start from.
	Like string `yaml:"like,omitempty" doc:"Part of the built-in profiles whose patterns these start from, key by key." default:"none" enum:"dynamo-logs"`
	// Containers are roles of the profile by the names of containers: a pod of one role
	// may hold another in a container of its own.
	Containers map[string]string `yaml:"containers,omitempty" doc:"Roles by names of containers, for containers that are not of their pod's role."`
	// Times are how lines begin that have a time of their own, for logs without the time
	// of a container runtime.
	Times []Time `yaml:"times,omitempty" doc:"How the engine writes the time of a line."`
	// Noise are lines that a view leaves out, and counts.
	Noise []Noise `yaml:"noise,omitempty" doc:"Lines that a view of the logs leaves out, and counts."`
	// Compiling are lines of an engine that compiles a kernel, or has done so, or tunes one.
	// Most say so afterwards, and once for each kernel: that there is none proves nothing.
	Compiling []Noise `yaml:"compiling,omitempty" doc:"Lines that say that a kernel was compiled or tuned: with a stall of all streams they make a trial INVALID (compiling)."`
	// Links are groups of the events' expressions whose values must agree in all events
	// of a request.
	Links []string `yaml:"links,omitempty" doc:"Groups of the events whose values agree in all events of one request."`
	// Events are the steps of a request, in their usual order.
	Events []Event `yaml:"events,omitempty" doc:"Lines that are steps of one request, in their usual order."`
}

// From fills in, key by key, what l does not say itself.
func (l *Logs) From(part *Logs) {
	if l.Containers == nil {
		l.Containers = part.Containers
	}
	if l.Times == nil {
		l.Times = part.Times
	}
	if l.Noise == nil {
		l.Noise = part.Noise
	}
	if l.Compiling == nil {
		l.Compiling = part.Compiling
	}
	if l.Links == nil {
		l.Links = part.Links
	}
	if l.Events == nil {
		l.Events = part.Events
	}
}

// A Time is one way to write the time of a line.
type Time struct {
	Match  string `yaml:"match" doc:"Regular expression over the line; its first group is the time."`
	Layout string `yaml:"layout" doc:"The same time as Go's package time writes Mon Jan 2 15:04:05 2006." example:"0102 15:04:05"`
}

// A Noise is a kind of line that says nothing of interest.
type Noise struct {
	Match string   `yaml:"match" doc:"Regular expression over the line."`
	Roles []string `yaml:"roles,omitempty" doc:"Roles whose logs have it." default:"all"`
}

// An Event is a kind of line that is a step of one request.
type Event struct {
	Name  string   `yaml:"name" doc:"Name: small letters, digits and underscores." pattern:"^[a-z][a-z0-9_]*$"`
	Says  string   `yaml:"says" doc:"What happened, in a few words."`
	Roles []string `yaml:"roles,omitempty" doc:"Roles whose logs have it." default:"all"`
	// Match are its wordings. Their named groups are shown with the event, but for
	// request, which is the id of the request, and pod, which is the pod that the event
	// is about if it is not the one that printed it.
	Match []string `yaml:"match" doc:"Regular expressions over the line without its colours, of which one is enough; named groups are what is shown. Group request is the id of the request, alias an id that other lines have for it, pod the pod that the line is about, worker the id of the worker that prints it or was picked, prefill_worker and decode_worker those that were picked."`
	// Near says which line without a request's id belongs to a request.
	Near []Near `yaml:"near,omitempty" doc:"For a line without the id of the request: the events of the request that it stands next to, the best first."`
	// Tells is what the line says of the way of its request.
	Tells string `yaml:"tells,omitempty" doc:"What the line says of the way of its request: that the pod of group pod or the worker of group worker was picked, that those of prefill_worker and decode_worker were (picked), that no prefill server was, that the pod that prints it prefills or decodes the request, that it got its KV cache, or only its other id (alias)." enum:"picked_prefill,picked_decode,picked,decode_only,prefill,decode,moved,alias"`
	// Prints is what makes a server print the line.
	Prints string `yaml:"prints,omitempty" doc:"What makes a server print it, for a line that each request should have." default:"it is not missed"`
}

// A Near is a place next to another event of the same request.
type Near struct {
	Event string `yaml:"event" doc:"Name of the other event."`
	Side  string `yaml:"side" doc:"On which side of it the line stands." enum:"before,after"`
	// Anywhere says that another pod prints it.
	Anywhere bool `yaml:"anywhere,omitempty" doc:"Another pod may print it." default:"false"`
}

// Sides of an event.
const (
	Before = "before"
	After  = "after"
)

// Groups with a meaning.
const (
	groupRequest = "request"
	groupPod     = "pod"
	groupAlias   = "alias"
	groupWorker  = "worker"
	groupPrefill = "prefill_worker"
	groupDecode  = "decode_worker"
)

// A Source is whose log a line is in.
type Source struct {
	Role      string // of the stack, or of the profile
	Pod       string
	Container string
}

// A Reader reads lines by the patterns of a profile.
type Reader struct {
	logs   *Logs
	times  []*regexp.Regexp
	noise  []*regexp.Regexp
	events [][]*regexp.Regexp
	// aliases says that a line may give a request another id.
	aliases bool
}

// NewReader makes a reader. The expressions were checked with the profile; one that is
// wrong panics.
func NewReader(logs *Logs) *Reader {
	r := &Reader{logs: logs}
	for _, t := range logs.Times {
		r.times = append(r.times, regexp.MustCompile(t.Match))
	}
	for _, n := range logs.Noise {
		r.noise = append(r.noise, regexp.MustCompile(n.Match))
	}
	for _, e := range logs.Events {
		var list []*regexp.Regexp
		for _, m := range e.Match {
			re := regexp.MustCompile(m)
			r.aliases = r.aliases || re.SubexpIndex(groupAlias) >= 0
			list = append(list, re)
		}
		r.events = append(r.events, list)
	}
	return r
}

// prints reports whether the log of a source may have lines of these roles. A role of a stack
// may be two at once, as prefill-decode, and a server without one may be any.
func (r *Reader) prints(s Source, roles []string) bool {
	role := s.Role
	if named := r.logs.Containers[s.Container]; named != "" {
		role = named
	}
	if len(roles) == 0 || role == "" || role == "server" {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(role, func(c rune) bool { return c == '-' || c == ' ' }), func(part string) bool {
		return slices.Contains(roles, part)
	})
}

// uncoloured returns a line without the sequences that colour it, which servers write into files
// too: those of ECMA-48 that begin with ESC [. Long lines have many of them.
func uncoloured(text string) string {
	if !strings.Contains(text, csi) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for {
		before, after, found := strings.Cut(text, csi)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		// Parameters and intermediate bytes are below the final byte.
		end := strings.IndexFunc(after, func(c rune) bool { return c < ' ' || c > '?' })
		switch {
		case end < 0:
			return b.String()
		case after[end] >= '@' && after[end] <= '~':
			end++
		}
		text = after[end:]
	}
}

// csi introduces a control sequence.
const csi = "\x1b["

// Noise reports whether a line says nothing of interest.
func (r *Reader) Noise(s Source, text string) bool {
	text = uncoloured(text)
	for i, n := range r.logs.Noise {
		if r.prints(s, n.Roles) && r.noise[i].MatchString(text) {
			return true
		}
	}
	return false
}

// A Stamp is the time of a line.
type Stamp struct {
	time.Time
	// Whole says that the line has whole seconds only: it was printed somewhere within the
	// second that begins with Time.
	Whole bool
}

// fraction is a fraction of a second.
var fraction = regexp.MustCompile(`:[0-9]{2}[.,][0-9]`)

// ParseStamp parses the time that a line says.
func ParseStamp(layout, text string) (Stamp, error) {
	at, err := time.Parse(layout, text)
	return Stamp{at, at.Nanosecond() == 0 && !fraction.MatchString(text)}, err
}

// last returns the latest time at which the line can have been printed.
func (s Stamp) last() time.Time {
	if s.Whole {
		return s.Add(time.Second - 1)
	}
	return s.Time
}

// OwnTime returns the time that a line itself says, or the zero time. If it says no year, the
// time is in the year that brings it nearest to near.
func (r *Reader) OwnTime(text string, near time.Time) Stamp {
	text = uncoloured(text)
	for i, t := range r.logs.Times {
		m := r.times[i].FindStringSubmatch(text)
		if m == nil {
			continue
		}
		at, err := ParseStamp(t.Layout, m[1])
		if err != nil {
			continue
		}
		if at.Year() == 0 {
			at.Time = nearest(at.Time, near)
		}
		return at
	}
	return Stamp{}
}

// nearest returns a time of the year 0 in the year that brings it nearest to near, of those
// that have its day: 29 February is in leap years only.
func nearest(at, near time.Time) (best time.Time) {
	for year := near.Year() - 4; year <= near.Year()+4; year++ {
		one := at.AddDate(year, 0, 0)
		if one.Day() == at.Day() && (best.IsZero() || one.Sub(near).Abs() < best.Sub(near).Abs()) {
			best = one
		}
	}
	return best
}
