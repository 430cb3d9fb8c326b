package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/rundir/crcline"
)

// An Event is one line of the journal: something that is about to happen or
// has happened. Type is snake_case; Data is any JSON object.
type Event struct {
	Seq  uint64          `json:"seq"`
	Time time.Time       `json:"time"` // UTC, milliseconds
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitempty"`
}

// A DamagedError says where a journal is broken. It is [ErrDamaged].
type DamagedError struct {
	Offset int64 // of the first bad line, in bytes from the start of the journal
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("journal is damaged at byte %d: %s", e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrDamaged) hold.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// maxLine bounds one line of the journal, in bytes.
const maxLine = 1 << 20

// encodeLine makes a line with its newline.
func encodeLine(e Event) ([]byte, error) {
	object, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	line := crcline.Encode(object)
	if len(line) > maxLine {
		return nil, fmt.Errorf("%d bytes are too many for one line of the journal: the limit is %d", len(line), maxLine)
	}
	return line, nil
}

// decodeLine reads a line without its newline.
func decodeLine(line []byte) (Event, error) {
	object, err := crcline.Decode(line)
	if errors.Is(err, crcline.ErrForeign) {
		return Event{}, errors.New("not a line of a journal")
	}
	if err != nil {
		return Event{}, err
	}
	var e Event
	if err := json.Unmarshal(object, &e); err != nil {
		return Event{}, fmt.Errorf("not an event: %w", err)
	}
	return e, nil
}

var errIncomplete = errors.New("the line is not complete")

// A scanned journal is its good lines and what follows them.
type scanned struct {
	events []Event
	end    int64 // where the good lines end
	torn   int64 // bytes after that
	why    string
}

// scan reads the lines of a journal. A bad tail is a part of the answer; a bad
// line that a good one follows is a *DamagedError.
func scan(data []byte) (scanned, error) {
	var s scanned
	for int(s.end) < len(data) {
		rest := data[s.end:]
		line, _, terminated := bytes.Cut(rest, []byte{'\n'})
		err := errIncomplete
		if terminated {
			var e Event
			if e, err = decodeLine(line); err == nil {
				if want := uint64(len(s.events)) + 1; e.Seq != want {
					return s, &DamagedError{s.end, fmt.Sprintf("line %d stands where line %d belongs", e.Seq, want)}
				}
				s.events = append(s.events, e)
				s.end += int64(len(line)) + 1
				continue
			}
		}
		if holdsLine(rest) {
			return s, &DamagedError{s.end, err.Error() + ", and good lines follow"}
		}
		s.torn, s.why = int64(len(rest)), err.Error()
		break
	}
	return s, nil
}

// holdsLine reports whether a good line of a journal stands anywhere in b.
func holdsLine(b []byte) bool {
	return crcline.HoldsGood(b, func(object []byte) bool {
		var e Event
		return bytes.HasPrefix(object, []byte(`{"seq":`)) && json.Unmarshal(object, &e) == nil
	})
}
