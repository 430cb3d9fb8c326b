package serverlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/lines"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A Key names a request of an attempt.
type Key struct{ Shard, N int }

// Ways are where requests went, as far as the logs say.
type Ways struct {
	Of    map[Key]*result.Way
	Moved map[Key]string // the decode server that got the KV cache of the prompt from another
	// Unprinted are the lines that would tell more.
	Unprinted []loglines.Unprinted
	// Nameless are what the lines say that would tell more if they had the id of a request.
	Nameless []string
	// Renamed says that the logs tell the ways of requests, and of none with our id.
	Renamed bool

	ids map[Key]string
}

// lookedAt bounds the lines without our id that are looked at, to see what a stack prints.
const lookedAt = 2000

// Ways reads where the requests went whose ids are prefix-sSHARD-nN, since the mark. It is
// nil if the profile has no lines that tell it.
func (l *Logs) Ways(prefix string) (*Ways, error) {
	if !l.profile.Logs.TellsWays() {
		return nil, nil //nolint:nilnil // no such lines
	}
	w := &wayReader{
		reader: loglines.NewReader(&l.profile.Logs), prefix: []byte(prefix), told: map[string]bool{},
		id:   regexp.MustCompile(regexp.QuoteMeta(prefix) + `-s([0-9]+)-n([0-9]+)`),
		ways: &Ways{Of: map[Key]*result.Way{}, Moved: map[Key]string{}, ids: map[Key]string{}},
		also: map[string]string{}, workers: map[string]string{}, picked: map[Key]*choice{},
	}
	passes := []func(line []byte, s loglines.Source, looked *int){w.hop}
	if w.reader.Aliases() { // the log with both ids may come after the others
		passes = []func([]byte, loglines.Source, *int){w.alias, w.hop}
	}
	for _, pass := range passes {
		for _, f := range l.files() {
			if f.previous {
				continue
			}
			if err := read(f, l.from[f.path], pass); err != nil {
				return nil, err
			}
		}
	}
	w.decide()
	if w.told[loglines.Picked] {
		w.told[loglines.PickedPrefill], w.told[loglines.PickedDecode] = true, true
	}
	w.ways.Unprinted = slices.DeleteFunc(w.reader.Unprinted(w.told), func(u loglines.Unprinted) bool {
		// Where one kind of server does both, nothing else is there to be told.
		return !l.profile.Disaggregated() && slices.Contains([]string{loglines.Prefill, loglines.PickedPrefill, loglines.Moved}, u.Tells)
	})
	w.ways.Renamed = w.strangers && len(w.ways.Of) == 0 && (!w.reader.Aliases() || w.told[loglines.Alias])
	return w.ways, nil
}

// A wayReader reads the ways of requests.
type wayReader struct {
	reader    *loglines.Reader
	prefix    []byte
	id        *regexp.Regexp
	ways      *Ways
	told      map[string]bool
	strangers bool
	also      map[string]string // our ids by others of the same requests
	workers   map[string]string // pods by the ids that workers have for routers
	picked    map[Key]*choice
}

// A choice is the workers that a router chose, by their ids.
type choice struct{ prefill, decode string }

// decide fills in what follows from all lines together.
func (w *wayReader) decide() {
	for key, way := range w.ways.Of {
		to := w.picked[key]
		apart := to.prefill != "" && to.prefill != to.decode
		if apart {
			way.PickedPrefill = cmp.Or(way.PickedPrefill, w.workers[to.prefill])
		}
		way.PickedDecode = cmp.Or(way.PickedDecode, w.workers[to.decode])
		switch {
		case way.Decision != "":
		case apart, way.PickedPrefill != "":
			way.Decision = result.PrefillDecode
		case to.decode != "", way.PickedDecode != "": // the router prints both choices at the same level
			way.Decision = result.DecodeOnly
		}
	}
}

// read calls take with the lines of a log from an offset on, and with a number of its own.
// A log that is not there is empty.
func read(f file, from int64, take func(line []byte, s loglines.Source, looked *int)) error {
	in, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return err
	}
	all, looked := lines.NewReader(in, lines.Max), 0
	for line, ok := all.Next(); ok; line, ok = all.Next() {
		if f.found {
			_, line, _ = bytes.Cut(line, []byte(" "))
		}
		take(bytes.TrimRight(line, "\r\n"), f.source, &looked)
	}
	return all.Err()
}

// alias takes a line that may have another id of one of our requests.
func (w *wayReader) alias(line []byte, s loglines.Source, _ *int) {
	if !bytes.Contains(line, w.prefix) {
		return
	}
	hop, ok := w.reader.Hop(s, string(line))
	if !ok || hop.Alias == "" {
		return
	}
	for id, other := range map[string]string{hop.Request: hop.Alias, hop.Alias: hop.Request} {
		if own := w.id.FindString(id); own != "" {
			w.also[other] = own
		}
	}
}

// hop takes a line that may say where a request went.
func (w *wayReader) hop(line []byte, s loglines.Source, looked *int) {
	ours := bytes.Contains(line, w.prefix)
	if !ours && !w.reader.Aliases() {
		if *looked++; *looked > lookedAt {
			return
		}
	}
	hop, ok := w.reader.Hop(s, string(line))
	if !ok {
		return
	}
	w.told[hop.Tells] = true
	if hop.Request == "" {
		if !slices.Contains(w.ways.Nameless, hop.Says) {
			w.ways.Nameless = append(w.ways.Nameless, hop.Says)
		}
		return
	}
	if hop.Worker != "" && hop.Pod != "" {
		w.workers[hop.Worker] = hop.Pod
	}
	if id := w.id.FindStringSubmatch(cmp.Or(w.also[hop.Request], hop.Request)); id != nil {
		w.add(id, &hop)
	} else if !ours {
		w.strangers = true
	}
}

// add takes what a line says about a request.
func (w *wayReader) add(id []string, hop *loglines.Hop) {
	shard, err := strconv.Atoi(id[1])
	n, err2 := strconv.Atoi(id[2])
	if err != nil || err2 != nil {
		return // a number that is none of ours
	}
	key := Key{shard, n}
	way := w.ways.Of[key]
	if way == nil {
		way = &result.Way{}
		w.ways.Of[key], w.ways.ids[key] = way, id[0]
	}
	to := w.picked[key]
	if to == nil {
		to = &choice{}
		w.picked[key] = to
	}
	switch hop.Tells { // of one that was tried again, the last
	case loglines.PickedPrefill:
		way.PickedPrefill, to.prefill = hop.Pod, hop.Worker
	case loglines.PickedDecode:
		way.PickedDecode, to.decode = hop.Pod, hop.Worker
	case loglines.Picked:
		to.prefill, to.decode = hop.ToPrefill, hop.ToDecode
	case loglines.DecodeOnly:
		way.Decision = result.DecodeOnly
	case loglines.Prefill:
		way.Prefill = hop.Pod
	case loglines.Decode:
		way.Decode = hop.Pod
	case loglines.Moved:
		w.ways.Moved[key], way.Decode = hop.Pod, cmp.Or(way.Decode, hop.Pod)
	}
}

// Set gives each request its way.
func (w *Ways) Set(requests []result.Request) {
	for i := range requests {
		requests[i].Way = w.Of[Key{requests[i].Shard, requests[i].N}]
	}
}

// routing returns the same as routing.json has it; nil if nothing is known.
func (w *Ways) routing() *Routing {
	if len(w.Of) == 0 && len(w.Unprinted) == 0 {
		return nil
	}
	r := &Routing{Requests: map[string]map[string]string{}, Unprinted: w.Unprinted}
	for key, way := range w.Of {
		phases := map[string]string{}
		for phase, worker := range map[string]string{
			"prefill": way.Prefill, "decode": way.Decode, pickedPrefix + "prefill": way.PickedPrefill, pickedPrefix + "decode": way.PickedDecode,
		} {
			if worker != "" {
				phases[phase] = worker
			}
		}
		r.Requests[w.ids[key]] = phases
	}
	r.count()
	return r
}

// pickedPrefix is before the phase of a worker that a router chose.
const pickedPrefix = "picked_"

// Missing says what of the ways of the completed requests is not known, and what would
// make the stack print it.
func (w *Ways) Missing(requests []result.Request) (f result.Finding, missing bool) {
	all, unknown := 0, 0
	for i := range requests {
		r := &requests[i]
		if !r.Measured() || r.Status != result.Completed {
			continue
		}
		all++
		if way := w.Of[Key{r.Shard, r.N}]; way == nil || way.Decode == "" || way.Decision == "" || way.Prefill == "" && way.Decision != result.DecodeOnly {
			unknown++
		}
	}
	if unknown == 0 {
		return f, false
	}
	text := fmt.Sprintf("of %d of %d requests the logs do not tell the whole way", unknown, all)
	switch needs := w.Needs(loglines.Moved); {
	case w.Renamed:
		text += "; " + RenamedHint
	case needs != "":
		text += "; not printed, with what prints it: " + needs
	}
	if len(w.Nameless) > 0 {
		text += "; printed without the id of a request: " + strings.Join(w.Nameless, "; ")
	}
	return result.Finding{Code: finding.RoutingUnknown, Text: text}, true
}

// RenamedHint says what to do about Renamed.
const RenamedHint = "they name other ids: the gateway gives requests ids of its own, and keeps X-Request-Id with Envoy's preserve_external_request_id"

// Needs returns the lines that would tell more, each with what prints it; but for those that
// tell what is not wanted.
func (w *Ways) Needs(unwanted ...string) string {
	var needs []string
	for _, u := range w.Unprinted {
		if !slices.Contains(unwanted, u.Tells) {
			needs = append(needs, fmt.Sprintf("%s (%s)", u.Says, u.Prints))
		}
	}
	slices.Sort(needs)
	return strings.Join(needs, "; ")
}
