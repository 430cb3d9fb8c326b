package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/layout"
)

// small returns a journal of a few lines with everything in it that replay reads.
func small(t testing.TB) (data []byte, events []Event) {
	t.Helper()
	for i, e := range []struct {
		typ  string
		data any
	}{
		{typeCreated, Manifest{RunID: "r", Plan: "p"}},
		{typeRunStarted, nil},
		{typeLaunch, launch{"d", 1}},
		{typePod, backends.Transition{Pod: "d-l01", State: backends.Intended, Kind: "sim"}},
		{typeBegun, AttemptKey{Key{"c", 1}, 1}},
		{typeCommitted, Commit{Key: Key{"c", 1}, Attempt: 1, Status: "ok", SHA256: "00", Digest: "11"}},
		{"note", map[string]string{"text": "newline \n, quote \" and {\"crc\":\"00000000\",\"seq\":1}"}},
		{typeRunFinished, nil},
	} {
		raw, err := marshalObject(e.data)
		if err != nil {
			t.Fatal(err)
		}
		event := Event{Seq: uint64(i + 1), Time: time.Unix(int64(i), 0).UTC(), Type: e.typ, Data: raw}
		line, err := encodeLine(event)
		if err != nil {
			t.Fatal(err)
		}
		data, events = append(data, line...), append(events, event)
	}
	return data, events
}

// The format is a promise: other programs read it.
func TestEncodeLine_golden(t *testing.T) {
	line, err := encodeLine(Event{
		Seq: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC),
		Type: "launch", Data: json.RawMessage(`{"deployment":"d","n":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"crc":"ac82e0e5","seq":7,"time":"2026-01-02T03:04:05.678Z","type":"launch","data":{"deployment":"d","n":1}}` + "\n"
	if string(line) != want {
		t.Errorf("got  %swant %s", line, want)
	}
	if !json.Valid(line) {
		t.Error("not JSON")
	}
}

func TestEncodeLine_limit(t *testing.T) {
	_, err := encodeLine(Event{Type: "x", Data: json.RawMessage(`{"x":"` + strings.Repeat("x", maxLine) + `"}`)})
	if err == nil {
		t.Error("a line over the limit was encoded")
	}
}

// same reports whether two events are equal; cmp takes a hundred times as long.
func same(a, b Event) bool {
	return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}

// Cut at every byte: the lines before the cut are there, the rest is a torn
// tail, and nothing else happens.
func TestScan_cutAtEveryByte(t *testing.T) {
	data, events := small(t)
	for cut := range len(data) + 1 {
		s, err := scan(data[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := bytes.Count(data[:cut], []byte{'\n'})
		if !slices.EqualFunc(events[:whole], s.events, same) {
			t.Fatalf("cut at %d:\n%s", cut, cmp.Diff(events[:whole], s.events, cmpopts.EquateEmpty()))
		}
		if s.end+s.torn != int64(cut) {
			t.Fatalf("cut at %d: %d good and %d torn bytes", cut, s.end, s.torn)
		}
	}
}

// Flip every byte, in single bits and to a few special values: in the last line
// that is a torn tail, anywhere else damage at the offset of the line; no event
// is ever read that was not written.
func TestScan_flipEveryByte(t *testing.T) {
	data, events := small(t)
	last := int64(bytes.LastIndexByte(data[:len(data)-1], '\n')) + 1
	for i := range data {
		line := int64(bytes.LastIndexByte(data[:i], '\n')) + 1
		for _, b := range []byte{data[i] ^ 1, data[i] ^ 0x20, '\n', 0, '"'} {
			if b == data[i] {
				continue
			}
			flipped := bytes.Clone(data)
			flipped[i] = b
			s, err := scan(flipped)
			var damage *DamagedError
			switch {
			case line < last && (!errors.As(err, &damage) || damage.Offset != line || !errors.Is(err, ErrDamaged)):
				t.Errorf("byte %d made %q: %v, want damage at %d", i, b, err, line)
			case line == last && (err != nil || s.end != last || s.torn == 0):
				t.Errorf("byte %d made %q: end %d, %v; want a torn tail at %d", i, b, s.end, err, last)
			}
			if len(s.events) > len(events) || !slices.EqualFunc(s.events, events[:len(s.events)], same) {
				t.Errorf("byte %d made %q: events were read that nobody wrote", i, b)
			}
		}
	}
}

func TestScan_lostAndDoubledLines(t *testing.T) {
	data, _ := small(t)
	lines := bytes.SplitAfter(data, []byte{'\n'})
	lines = lines[:len(lines)-1]
	for i := range lines[:len(lines)-1] {
		lost := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
		doubled := bytes.Join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...), nil)
		for name, data := range map[string][]byte{"lost": lost, "doubled": doubled} {
			if _, err := scan(data); !errors.Is(err, ErrDamaged) {
				t.Errorf("line %d %s: %v", i+1, name, err)
			}
		}
	}
}

// Tails that a loss of power can leave.
func TestScan_tails(t *testing.T) {
	data, events := small(t)
	for _, tail := range []string{
		"\x00", strings.Repeat("\x00", 5000), strings.Repeat("\x00", 512) + `"}}` + "\n",
		"\n", "\n\n\n", "{}\n", `{"crc":"` + "\n" + `{"crc":"00000000","seq":9}` + "\n",
		strings.Repeat(`{"crc":"00000000","seq":`, 2000) + "\n",
	} {
		s, err := scan(append(bytes.Clone(data), tail...))
		if err != nil || len(s.events) != len(events) || s.torn != int64(len(tail)) {
			t.Errorf("tail %.20q: %d events, %d torn, %v", tail, len(s.events), s.torn, err)
		}
	}
}

// Whatever stands in the file: no panic, offsets inside it, and what was
// accepted is written again as the same bytes.
func FuzzJournal(f *testing.F) {
	data, _ := small(f)
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add([]byte(`{"crc":"00000000","seq":1}` + "\n"))
	f.Add([]byte{})
	for i := 0; i < len(data); i += 97 {
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x40
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		st, s, err := replay(data)
		if s.end < 0 || s.end > int64(len(data)) {
			t.Fatalf("end %d of %d", s.end, len(data))
		}
		var damage *DamagedError
		if errors.As(err, &damage) && (damage.Offset < 0 || damage.Offset >= int64(len(data))) {
			t.Fatalf("damage at %d of %d", damage.Offset, len(data))
		}
		if err == nil && s.end+s.torn != int64(len(data)) {
			t.Fatalf("%d good, %d torn of %d", s.end, s.torn, len(data))
		}
		if err == nil && st.Events[0].Type != typeCreated {
			t.Fatal("no manifest")
		}
	})
}

func TestReplay_rejects(t *testing.T) {
	for name, events := range map[string][]Event{
		"no manifest":     {{Seq: 1, Type: "note"}},
		"two manifests":   {{Seq: 1, Type: typeCreated, Data: json.RawMessage(`{}`)}, {Seq: 2, Type: typeCreated, Data: json.RawMessage(`{}`)}},
		"manifest's data": {{Seq: 1, Type: typeCreated}},
		"commit's data":   {{Seq: 1, Type: typeCreated, Data: json.RawMessage(`{}`)}, {Seq: 2, Type: typeCommitted, Data: json.RawMessage(`{"trial":"one"}`)}},
	} {
		var data []byte
		offset := 0
		for _, e := range events {
			line, err := encodeLine(e)
			if err != nil {
				t.Fatal(err)
			}
			offset = len(data)
			data = append(data, line...)
		}
		var damage *DamagedError
		if _, _, err := replay(data); !errors.As(err, &damage) || damage.Offset != int64(offset) {
			t.Errorf("%s: %v, want damage at %d", name, err, offset)
		}
	}
}

// The journal of a run is cut at every byte; each time the directory opens, or
// says that it holds no run, and opens again without a warning.
func TestOpen_journalCutAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	data, _ := small(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for cut := range len(data) + 1 {
		if err := os.WriteFile(filepath.Join(dir, layout.Journal), data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := bytes.Count(data[:cut], []byte{'\n'})
		d, st, err := Open(nil, dir)
		if whole == 0 {
			if !errors.Is(err, ErrNoRun) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		torn := cut > 0 && data[cut-1] != '\n'
		if strings.Contains(st.Warning, "cut off") != torn {
			t.Errorf("cut at %d: warning %q", cut, st.Warning)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if st, err := Read(dir); err != nil || st.Warning != "" || len(st.Pending) != 0 {
			t.Fatalf("cut at %d, after recovery: %+v, %v", cut, st, err)
		}
	}
}

// A damaged journal is refused with its offset and stays as it is.
func TestOpen_damaged(t *testing.T) {
	dir := t.TempDir()
	data, _ := small(t)
	path := filepath.Join(dir, layout.Journal)
	offset := bytes.IndexByte(data, '\n') + 1
	data[offset+30] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"Open": func() error { _, _, err := Open(nil, dir); return err },
		"Read": func() error { _, err := Read(dir); return err },
	} {
		err := open()
		var damage *DamagedError
		if !errors.As(err, &damage) || damage.Offset != int64(offset) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d", offset)) {
			t.Errorf("%s: %v, want damage at byte %d", name, err, offset)
		}
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, data) {
		t.Error("the journal was changed")
	}
	if h, err := LockHolder(dir); h != nil || err != nil {
		t.Errorf("the lock is still held: %v, %v", h, err)
	}
}
