package gpu

import (
	"fmt"
	"time"

	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// told keeps the text of tools that is no GPU's state.
type told struct {
	unread int    // lines that cannot be read
	first  string // of those
	lost   []loss // of GPUs that were never seen, or that are not named
}

// A loss is a GPU that stopped reporting.
type loss struct {
	host int
	said string        // the tool's text; "" if it said nothing
	at   time.Duration // of the first look without it
}

// maxLosses bounds the losses that are kept of unnamed GPUs.
const maxLosses = 64

// say takes the text of a tool into account.
func (w *window) say(host int, at time.Duration, r gpustate.Reading) {
	if !r.Lost {
		if w.told.unread++; w.told.first == "" {
			w.told.first = r.Said
		}
		return
	}
	for key, t := range w.tracks {
		named := r.UUID != "" && key == keyOf(host, r)
		numbered := r.UUID == "" && r.Index != "" && t.host == host && t.id.Index == r.Index
		if !named && !numbered {
			continue
		}
		if t.lost == nil {
			t.lost = &loss{at: at}
		}
		if t.lost.said == "" {
			t.lost.said = r.Said
		}
		return
	}
	for _, l := range w.told.lost {
		if l.host == host && l.said == r.Said {
			return
		}
	}
	if len(w.told.lost) < maxLosses {
		w.told.lost = append(w.told.lost, loss{host, r.Said, at})
	}
}

// markRead notes that all GPUs of a host were looked at. A GPU that was not seen
// for longer than patience is absent; one that stays so for the longest gap over
// which power is interpolated, or until the last look, is lost.
func (w *window) markRead(host int, at, patience time.Duration) {
	for _, t := range w.tracks {
		if t.host != host {
			continue
		}
		if at-t.seen <= patience {
			t.absent = nil
			continue
		}
		t.misses++
		if t.absent == nil {
			t.absent = &loss{at: at}
		}
		if at-t.seen > w.maxGap && t.lost == nil {
			t.lost = t.absent
		}
	}
}

// loss returns how the GPU was lost, or nil.
func (t *track) loss() *loss {
	if t.lost != nil {
		return t.lost
	}
	return t.absent
}

// broken reports whether a GPU was lost that counts, or that may.
func (w *window) broken() bool {
	for _, t := range w.list() {
		if t.loss() != nil {
			return true
		}
	}
	return len(w.told.lost) > 0 && len(w.processes.ours) == 0
}

// losses returns a sentence for each GPU that was lost.
func (w *window) losses() (texts []string) {
	named := make(map[string]bool) // texts that a GPU was found for
	for _, t := range w.list() {
		l := t.loss()
		if l == nil {
			continue
		}
		said := l.said
		for _, other := range w.told.lost {
			if said == "" && other.host == t.host && !named[other.said] {
				said = other.said
				named[said] = true
			}
		}
		text := fmt.Sprintf("GPU %s (%s) stopped reporting %.1f s into the load", t.id.Index, t.id.UUID, (l.at - w.start).Seconds())
		if said == "" {
			text += ", and its tool did not say why"
		} else {
			text += fmt.Sprintf(": its tool said %q", said)
		}
		texts = append(texts, text)
	}
	for _, l := range w.told.lost {
		if !named[l.said] {
			texts = append(texts, fmt.Sprintf("a GPU does not report: its tool said %q", l.said))
		}
	}
	return texts
}

// misses counts the looks at which a GPU was missing that came back.
func (w *window) misses() (n int) {
	for _, t := range w.list() {
		if t.loss() == nil {
			n += t.misses
		}
	}
	return n
}

// withhold sets the columns of a row to null that a lost GPU spoils: all but
// which GPUs there were.
func withhold(row result.Row) {
	for _, c := range columns {
		if c != col.GPUUUID && c != col.DriverVersion {
			row[c] = nil
		}
	}
}
