package serverlog

import (
	"bufio"
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
	}
	for _, f := range l.files() {
		if f.previous {
			continue
		}
		if err := w.read(f, l.from[f.path]); err != nil {
			return nil, err
		}
	}
	for _, way := range w.ways.Of {
		switch {
		case way.Decision != "":
		case way.PickedPrefill != "":
			way.Decision = result.PrefillDecode
		case way.PickedDecode != "": // the router prints both choices at the same level
			way.Decision = result.DecodeOnly
		}
	}
	w.ways.Unprinted = w.reader.Unprinted(w.told)
	w.ways.Renamed = w.strangers && len(w.ways.Of) == 0
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
}

// read reads a log from an offset on. A log that is not there is empty.
func (w *wayReader) read(f file, from int64) error {
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
	all := lines{in: bufio.NewReaderSize(in, maxLogLine)}
	for looked := 0; ; {
		line, ok := all.next()
		if !ok {
			return all.failed()
		}
		ours := bytes.Contains(line, w.prefix)
		if !ours {
			if looked++; looked > lookedAt {
				continue
			}
		}
		if f.found {
			_, line, _ = bytes.Cut(line, []byte(" "))
		}
		hop, ok := w.reader.Hop(f.source, strings.TrimRight(string(line), "\r\n"))
		if !ok {
			continue
		}
		w.told[hop.Tells] = true
		if id := w.id.FindStringSubmatch(hop.Request); id != nil {
			w.add(id, &hop)
		} else if !ours {
			w.strangers = true
		}
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
	switch hop.Tells { // of one that was tried again, the last
	case loglines.PickedPrefill:
		way.PickedPrefill = hop.Pod
	case loglines.PickedDecode:
		way.PickedDecode = hop.Pod
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

// routing is the same as routing.json has it; nil if nothing is known.
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
	return result.Finding{Code: finding.RoutingUnknown, Text: text}, true
}

// RenamedHint says what to do about Renamed.
const RenamedHint = "they name other ids: the gateway gives requests ids of its own, and keeps X-Request-Id with Envoy's preserve_external_request_id"

// Needs are the lines that would tell more, each with what prints it; but for those that
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
