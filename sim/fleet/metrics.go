package fleet

import (
	"embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// families are the metrics of each role as data: what a recorded server
// exposes, in its order, with the values that differ from run to run replaced
// by $names. After the kind of a histogram stand its bounds, after a series the
// value it starts with. A series comes to be once all its $names are known.
//
//go:embed families/*.txt
var families embed.FS

// A board is the metrics of one process. Its methods may be called concurrently.
type board struct {
	mu     sync.Mutex
	list   []*family
	byName map[string]*family
	known  map[string]string // the value of a $name
	// partial says that this release lacks some of the families that the code
	// knows: those are not counted.
	partial bool
}

type family struct {
	name, kind, help string
	bounds           []float64
	forms            []form
	series           []*series
	byLabels         map[string]*series
}

// A form is a series as the data has it.
type form struct {
	labels [][2]string
	start  float64
}

// A series is one value, or one histogram.
type series struct {
	mu     sync.Mutex
	bounds []float64
	labels string // without braces
	value  float64
	counts []uint64 // of a histogram; the last is beyond its bounds
	total  uint64
}

func (s *series) set(v float64) {
	s.mu.Lock()
	s.value = v
	s.mu.Unlock()
}

// add adds to a counter or a gauge.
func (s *series) add(v float64) {
	s.mu.Lock()
	s.value += v
	s.mu.Unlock()
}

// observe counts v in a histogram; a bound belongs to its own bucket.
func (s *series) observe(v float64) {
	i, _ := slices.BinarySearch(s.bounds, v)
	s.mu.Lock()
	s.counts[i]++
	s.total++
	s.value += v
	s.mu.Unlock()
}

// boardOf is newBoard for a release of Dynamo: an older one has other families.
func boardOf(release string, files []string, known ...string) *board {
	if release == newest {
		return newBoard(files, known...)
	}
	b := newBoard([]string{files[0] + "-" + release}, known...)
	b.partial = true
	return b
}

// newBoard reads the families of these files. known are pairs of $name (without
// the $) and value.
func newBoard(files []string, known ...string) *board {
	b := &board{byName: map[string]*family{}, known: map[string]string{}}
	for _, file := range files {
		text, err := families.ReadFile("families/" + file + ".txt")
		if err != nil {
			panic(err) // it is part of the program
		}
		b.read(string(text))
	}
	b.fill(known...)
	return b
}

func (b *board) read(text string) {
	help := map[string]string{}
	var f *family
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, words, _ := strings.Cut(line[len("# HELP "):], " ")
			help[name] = words
		case strings.HasPrefix(line, "# TYPE "):
			fields := strings.Fields(line)
			f = &family{name: fields[2], kind: fields[3], help: help[fields[2]], byLabels: map[string]*series{}}
			for _, bound := range fields[4:] {
				f.bounds = append(f.bounds, parse(bound))
			}
			b.list = append(b.list, f)
			b.byName[f.name] = f
		default:
			f.forms = append(f.forms, parseForm(line))
		}
	}
}

// parseForm reads name{a="b",c="$d"} 5. No label value has a comma or a quote.
func parseForm(line string) form {
	var out form
	series, start, ok := strings.Cut(line, " ")
	if ok {
		out.start = parse(start)
	}
	_, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for pair := range strings.SplitSeq(labels, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			out.labels = append(out.labels, [2]string{name, strings.Trim(value, `"`)})
		}
	}
	return out
}

func parse(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err) // it is part of the program
	}
	return v
}

// fill makes what is known now exist: pairs of $name and value. What was said
// before about a name counts no more.
func (b *board) fill(known ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := 0; i+1 < len(known); i += 2 {
		b.known[known[i]] = known[i+1]
	}
	for _, f := range b.list {
		for _, form := range f.forms {
			if labels, ok := form.render(b.known, nil); ok {
				f.at(labels, form.start)
			}
		}
	}
}

// render returns the labels of a form; false if some $name has no value.
func (f form) render(known map[string]string, given []string) (string, bool) {
	var out strings.Builder
	for i, l := range f.labels {
		value := l[1]
		if name, ok := strings.CutPrefix(value, "$"); ok {
			if v, ok := lookup(given, name); ok {
				value = v
			} else if value, ok = known[name]; !ok {
				return "", false
			}
		} else if v, ok := lookup(given, l[0]); ok && v != value {
			return "", false
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(l[0])
		out.WriteByte('=')
		out.WriteString(strconv.Quote(value))
	}
	return out.String(), true
}

func lookup(pairs []string, name string) (string, bool) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == name {
			return pairs[i+1], true
		}
	}
	return "", false
}

func (f *family) at(labels string, start float64) *series {
	s := f.byLabels[labels]
	if s == nil {
		s = &series{labels: labels, value: start, bounds: f.bounds}
		if f.kind == "histogram" {
			s.counts = make([]uint64, len(f.bounds)+1)
		}
		f.byLabels[labels] = s
		f.series = append(f.series, s)
	}
	return s
}

// get returns a series: of a family with several forms, the first that the given
// pairs of $name or label and value fit.
func (b *board) get(name string, given ...string) *series {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.byName[name]
	if f == nil && b.partial {
		return &series{counts: make([]uint64, 1)}
	}
	if f == nil {
		panic("fleet: no family " + name)
	}
	for _, form := range f.forms {
		if labels, ok := form.render(b.known, given); ok {
			return f.at(labels, form.start)
		}
	}
	panic(fmt.Sprintf("fleet: %s has no series %v", name, given))
}

// write writes the text format 0.0.4.
func (b *board) write(w io.Writer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.list {
		if len(f.series) == 0 {
			continue
		}
		if f.help != "" {
			fmt.Fprintf(w, "# HELP %s %s\n", f.name, f.help)
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", f.name, f.kind)
		for _, s := range f.series {
			s.write(w, f)
		}
	}
}

func (s *series) write(w io.Writer, f *family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	braces := ""
	if s.labels != "" {
		braces = "{" + s.labels + "}"
	}
	if f.kind != "histogram" {
		fmt.Fprintf(w, "%s%s %s\n", f.name, braces, strconv.FormatFloat(s.value, 'f', -1, 64))
		return
	}
	before := s.labels
	if before != "" {
		before += ","
	}
	var n uint64
	for i, c := range s.counts {
		n += c
		le := math.Inf(1)
		if i < len(f.bounds) {
			le = f.bounds[i]
		}
		fmt.Fprintf(w, "%s_bucket{%sle=\"%s\"} %d\n", f.name, before, strconv.FormatFloat(le, 'f', -1, 64), n)
	}
	fmt.Fprintf(w, "%s_sum%s %s\n%s_count%s %d\n", f.name, braces, strconv.FormatFloat(s.value, 'f', -1, 64), f.name, braces, s.total)
}
