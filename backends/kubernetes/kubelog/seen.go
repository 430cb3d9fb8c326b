package kubelog

import (
	"maps"
	"time"
)

// Of one log, the lines of this time are remembered, and so many at most.
const (
	seenTime = 3 * time.Second
	maxSeen  = 1 << 14
)

// Seen remembers the newest lines of a log, so that those are known which come again when
// it is read on: the API begins at a full second, and several lines may have one time. The two outputs of a container are written side by side, so times may go
// back a little. The zero value has seen nothing.
type Seen struct {
	marks  []mark // in the order of the log
	count  map[uint64]int
	last   time.Time // of the newest mark
	newest time.Time // of all
	floor  time.Time // newest of those that are forgotten

	replay map[uint64]int // marks that have not come again yet; nil if none is awaited
	until  time.Time      // a line after it is new, and so are all that follow
}

// A mark stands for one line: a hash of its time and text.
type mark struct {
	at   time.Time
	hash uint64
}

// Reopen says that the log is read again, and returns from when on it must be asked for;
// the zero time is its beginning.
func (s *Seen) Reopen() (since time.Time) {
	if len(s.marks) == 0 {
		return since
	}
	s.replay, s.until = maps.Clone(s.count), s.newest
	// The two outputs are not more than a second apart.
	return s.last.Add(-time.Second).Truncate(time.Second)
}

// Add takes a line by its time and a hash of both, and says whether it is new.
func (s *Seen) Add(at time.Time, hash uint64) bool {
	if s.replay != nil {
		switch {
		case at.After(s.until):
			s.replay = nil
		case s.replay[hash] > 0:
			s.replay[hash]--
			return false
		case !at.After(s.floor):
			return false // from before what is remembered
		}
	}
	if s.count == nil {
		s.count = map[uint64]int{}
	}
	s.marks = append(s.marks, mark{at, hash})
	s.count[hash]++
	s.last = at
	if at.After(s.newest) {
		s.newest = at
	}
	s.forget()
	return true
}

func (s *Seen) forget() {
	n := max(0, len(s.marks)-maxSeen)
	for n < len(s.marks)-1 && s.marks[n].at.Before(s.last.Add(-seenTime)) {
		n++
	}
	for _, old := range s.marks[:n] {
		if s.count[old.hash]--; s.count[old.hash] == 0 {
			delete(s.count, old.hash)
		}
		if old.at.After(s.floor) {
			s.floor = old.at
		}
	}
	s.marks = s.marks[n:]
}
