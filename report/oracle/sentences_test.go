package oracle

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The sections that say who is better.
const (
	sweetSection  = "Sweet spots"
	engineSection = "Engines ranked"
	gpuSection    = "Which GPU for which load"
	costSection   = "Cost of output tokens"
)

func isClaims(name string) bool {
	return slices.Contains([]string{sweetSection, engineSection, gpuSection, costSection}, name)
}

const defaultLoad = "the plan's load"

func (d document) statements() map[string]statement {
	all := map[string]statement{}
	add := func(s statement) {
		if s.about == defaultLoad || s.about == "at "+defaultLoad {
			s.about = ""
		}
		all[s.key()] = s
	}
	for _, it := range d.sections[sweetSection] {
		readSweet(it, add)
	}
	readEngines(d.sections[engineSection], add)
	for _, it := range d.sections[gpuSection] {
		for _, line := range it.below {
			s := readComparison(line)
			s.about = it.text
			add(s)
		}
	}
	for _, it := range d.sections[costSection] {
		s := readComparison(it.text)
		s.question = qCost
		add(s)
	}
	return all
}

// differences says how the sentences differ from what they have to be. The section of
// engines only counts the loads beyond the first few.
func (d document) differences(want map[string]statement) []string {
	got, counted, loads := d.statements(), maps.Clone(want), map[string]bool{}
	for key, s := range want {
		about := statement{question: qEngine, about: s.about}
		if _, ok := got[about.key()]; s.question == qEngine && !ok {
			loads[s.about] = true
			delete(counted, key)
		}
	}
	more := fmt.Sprintf("and at %d load", len(loads))
	if items := d.sections[engineSection]; len(items) > 0 && strings.HasPrefix(items[len(items)-1].text, more) {
		want = counted
	}
	return differences(want, got, rounded)
}

// unit is what a rate is called behind its number.
var unit = regexp.MustCompile(`^([0-9.]+) (tok/s|requests/s)`)

func readRate(label, text string) statement {
	m := unit.FindStringSubmatch(text)
	s := statement{answer: aDecided, about: withoutLoad(label)}
	if m == nil {
		s.answer = "unreadable: " + text
		return s
	}
	s.figure = map[string]string{"tok/s": tokens.id(), "requests/s": requests.id()}[m[2]]
	v, _ := strconv.ParseFloat(m[1], 64)
	s.places = []place{{label: label, value: v}}
	return s
}

var amount = regexp.MustCompile(` ?(?:concurrency|request_rate)=([0-9.]+)`)

var tiedRead = regexp.MustCompile(`; (?:the best is )?(?:concurrency|request_rate) ([0-9., ]*[0-9])(?: are not distinguishable from the best)?, [0-9.]+ (?:tok/s|requests/s)`)

// tiedLoads returns those that may be the best; that of the sweet spot if none is named.
func tiedLoads(text string, spot []string) []float64 {
	list := ""
	if m := tiedRead.FindStringSubmatch(text); m != nil {
		list = m[1]
	} else if spot != nil {
		list = spot[1]
	}
	var loads []float64
	for part := range strings.SplitSeq(list, ", ") {
		load, _ := strconv.ParseFloat(part, 64)
		loads = append(loads, load)
	}
	return loads
}

func withoutLoad(label string) string { return strings.TrimSpace(amount.ReplaceAllString(label, "")) }

func readSweet(it entry, add func(statement)) {
	about, text, _ := strings.Cut(it.text, ": ")
	switch {
	case strings.HasPrefix(text, "none, "):
		add(statement{question: qSweet, about: about, answer: aNone})
	case strings.HasPrefix(text, "not decided; "):
		add(statement{question: qSweet, about: about, answer: aTied, loads: tiedLoads(text, nil)})
	case strings.HasPrefix(text, "not decided, "):
		add(statement{question: qSweet, about: about, answer: aOpen, open: holeLoads(text)})
	default:
		s := readRate(about, text)
		s.question = qSweet
		s.loads = tiedLoads(text, amount.FindStringSubmatch(about))
		add(s)
	}
	for _, line := range it.below {
		rest, ok := strings.CutPrefix(line, "best: ")
		label, text, _ := strings.Cut(rest, ": ")
		s := readRate(label, text)
		if s.question = qMost; !ok {
			s.answer = "unreadable: " + line
		}
		add(s)
	}
}

// holesRead are loads before what keeps them from being decided.
var holesRead = regexp.MustCompile(`(?:concurrency|request_rate) ([0-9., ]+?) (?:INVALID|failed|did not start|pending|undecided|not measured)`)

func holeLoads(text string) []string {
	var loads []string
	for _, m := range holesRead.FindAllStringSubmatch(text, -1) {
		loads = append(loads, strings.Split(m[1], ", ")...)
	}
	return loads
}

// readable returns a ratio, infinite if it is beyond what is printed.
func readable(ratio float64) float64 {
	if ratio >= 1000 {
		return math.Inf(1)
	}
	return ratio
}

// sideRead is a side with its value, and behind that its load and ratio.
var sideRead = regexp.MustCompile(`^(.+?) \$?([0-9.e+-]+)(?: at (?:concurrency|request_rate)=([0-9.]+))?(?: \((.*)\))?$`)

// ratioRead is a ratio, or that it is beyond what anybody reads.
var ratioRead = regexp.MustCompile(`([0-9.]+|>999)x`)

func readRatio(text string) float64 {
	if text == ">999" {
		return math.Inf(1)
	}
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

// sidesRead are sides, each with a reason in brackets behind it.
func sidesRead(text string) []string {
	var sides []string
	for _, part := range commas(text) {
		side, _, _ := strings.Cut(part, " (")
		sides = append(sides, side)
	}
	return sides
}

var moreRead = regexp.MustCompile(`^and ([0-9]+) more$`)

func readPlaces(text string) []place {
	var all []place
	for _, part := range commas(text) {
		if m := moreRead.FindStringSubmatch(part); m != nil {
			n, _ := strconv.Atoi(m[1])
			all = append(all, place{more: n})
			continue
		}
		m := sideRead.FindStringSubmatch(part)
		if m == nil {
			all = append(all, place{side: "unreadable: " + part})
			continue
		}
		p := place{side: m[1]}
		p.value, _ = strconv.ParseFloat(m[2], 64)
		p.load, _ = strconv.ParseFloat(m[3], 64)
		p.lacks = strings.Contains(m[4], "too few ")
		if r := ratioRead.FindStringSubmatch(m[4]); r != nil {
			p.ratio = readRatio(r[1])
		}
		all = append(all, p)
	}
	apart := slices.ContainsFunc(all, func(p place) bool { return p.ratio > 0 })
	if len(all) > 1 && apart {
		all[0].ratio = 1 // which need not be said
	}
	return all
}

// untied returns the places of a line, and whether it says that they cannot be told apart.
func untied(text string) (places []place, answer string) {
	text, _, _ = strings.Cut(text, "; about ")
	for _, head := range []string{"not distinguishable: ", "not ranked, too few trials: ", "not ranked, too few launches: "} {
		if rest, ok := strings.CutPrefix(text, head); ok {
			return readPlaces(rest), aTied
		}
	}
	return readPlaces(text), aDecided
}

// commas cuts a list at the commas that are in no brackets.
func commas(text string) []string { return outside(text, ",") }

// outside cuts a text at what is in no brackets.
func outside(text, by string) []string {
	var parts []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && i >= from && strings.HasPrefix(text[i:], by):
			parts, from = append(parts, strings.TrimSpace(text[from:i])), i+len(by)
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

// holeRead is what keeps a side from being decided.
var holeRead = regexp.MustCompile(`INVALID|failed|did not start|pending|undecided|not measured`)

// readBetween returns the sides of "A (263 at concurrency=8; concurrency 16 INVALID) and B (141)":
// those that are open, and the places of the others.
func readBetween(text string) (open []string, places []place) {
	for _, list := range outside(text, " and ") {
		for _, part := range commas(list) {
			side, what, _ := strings.Cut(strings.TrimSuffix(part, ")"), " (")
			figure, note, _ := strings.Cut(what, "; ")
			switch {
			case holeRead.MatchString(what):
				open = append(open, side)
			case what == "":
				places = append(places, place{side: side})
			default:
				places = append(places, readPlaces(side+" "+figure+" ("+note+")")...)
			}
		}
	}
	return open, places
}

func readEngines(items []entry, add func(statement)) {
	names := map[string]string{}
	for _, f := range table {
		names[f.name] = f.id()
	}
	ranking := func(about, line string) {
		name, text, _ := strings.Cut(line, ": ")
		places, answer := untied(text)
		add(statement{question: qEngine, about: about, figure: names[name], answer: answer, places: places})
	}
	for _, it := range items {
		if strings.HasPrefix(it.text, "and at ") {
			continue // see compare
		}
		if strings.HasPrefix(it.text, "start-up, s: ") {
			// Of the load that is shown, which the section's first has to be.
			ranking(items[1].text, it.text)
			continue
		}
		who := statement{question: qEngine, about: it.text, answer: aDecided}
		for _, line := range it.below {
			kind, rest, _ := strings.Cut(line, ": ")
			side, _, _ := strings.Cut(rest, ",")
			switch kind {
			case "not comparable":
				who.answer = aIncomparble
			case "not ranked":
				who.left = append(who.left, side)
			case "not decided":
				who.open = append(who.open, side)
			default:
				ranking(it.text, line)
			}
		}
		if len(who.open) > 0 {
			who.answer = aOpen
		}
		add(who)
	}
}

// head is what a comparison begins with: at which loads, and by what.
var head = regexp.MustCompile(`^(?:(.*?)(?:, )?)?(each at its best of )?(?:(concurrency|request_rate)[ =]([0-9., ]*[0-9]))?(?:, )?(p95 TTFT, ms|tok/s a user per \$/h|Mtok/\$|\$ per 1M output tokens)?: `)

func readComparison(line string) statement {
	names := map[string]string{waits.name: waits.id(), feels.name: feels.id(), carries.name: carries.id(), costs.name: costs.id()}
	m := head.FindStringSubmatch(line)
	if strings.HasPrefix(line, "not decided: ") || strings.HasPrefix(line, "not decided between ") || strings.HasPrefix(line, "not comparable") {
		m = make([]string, 6) // of no load, and by nothing
	}
	if m == nil {
		return statement{answer: "unreadable: " + line}
	}
	s := statement{question: qGPU, about: strings.TrimSuffix(m[1], ", "), figure: names[m[5]], answer: aDecided}
	if s.figure == carries.id() {
		s.question = qGPUBest
	}
	for v := range strings.SplitSeq(m[4], ", ") {
		load, _ := strconv.ParseFloat(v, 64) // 0 if the plan does not vary it
		s.loads = append(s.loads, load)
	}
	for _, part := range outside(line[len(m[0]):], "; ") {
		if rest, ok := strings.CutPrefix(part, "not decided between "); ok {
			s.answer = aOpen
			s.open, s.places = readBetween(rest)
			continue
		}
		what, rest, _ := strings.Cut(part, ": ")
		if strings.HasPrefix(what, "behind ") {
			for _, one := range commas(rest) {
				s.places = append(s.places, readPlaces(one)...)
			}
			s.places[0].ratio = 1
			continue
		}
		switch what {
		case "not decided":
			s.answer = aOpen
			s.open = sidesRead(rest)
		case "not ranked":
			s.left = sidesRead(rest)
		case "not comparable":
			s.answer = aIncomparble
			switch only, ok := strings.CutPrefix(rest, "there is "); {
			case ok:
				s.places = readPlaces(strings.TrimSuffix(only, " alone"))
			case strings.HasPrefix(rest, "only "):
				s.places = []place{{side: strings.TrimSuffix(rest[5:], " was found to meet every objective")}}
			case rest == "no load was given to all of them":
				s.loads = nil
			}
		default:
			if part == "not comparable" {
				s.answer = aIncomparble
				continue
			}
			if strings.HasPrefix(part, "about ") {
				continue // so many trials would tell
			}
			if s.places, what = untied(part); what == aTied {
				s.answer = aTied
			}
		}
	}
	return s
}
