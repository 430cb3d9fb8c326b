package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir/crcline"
)

// A damage is what becomes of a file of a run directory, and what all commands say of it.
type damage struct {
	file, want string
	of         func([]byte) []byte // nil removes the file
	readers    bool                // every command reads it
}

// replaced returns a damage that puts one text for the first of another.
func replaced(old, now string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(now), 1) }
}

// rewritten is [replaced] in a journal, whose lines have their checksums.
func rewritten(old, now string) func([]byte) []byte {
	return func(b []byte) []byte {
		var out []byte
		for line := range bytes.Lines(replaced(old, now)(b)) {
			out = append(out, crcline.Encode(append([]byte{'{'}, bytes.TrimSpace(line)[len(`{"crc":"00000000",`):]...))...)
		}
		return out
	}
}

// instead returns a damage that leaves one text alone.
func instead(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }

func damages(result string) []damage {
	half := func(b []byte) []byte { return b[:len(b)/2] }
	flipped := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	return []damage{
		{layout.Resolved, "plan.resolved.json is missing", nil, true},
		{layout.Resolved, "plan.resolved.json: unexpected end of JSON input", half, true},
		{layout.Resolved, "plan.resolved.json: json: cannot unmarshal array", instead("[]"), true},
		{layout.Resolved, "plan.resolved.json: it is null, want an object", instead("null"), true},
		{layout.Resolved, "plan.resolved.json: json: cannot unmarshal string", replaced("\n \"repeats\": 1", "\n \"repeats\": \"x\""), true},
		{layout.Resolved, "plan.resolved.json: repeats is 1000000000000, want 0 to 100000", replaced("\n \"repeats\": 1", "\n \"repeats\": 1000000000000"), true},
		{layout.Resolved, "is a list, want a text, a number, true or false", replaced(`"value": "vllm"`, `"value": ["vllm"]`), true},
		{layout.Resolved, "is an object, want a text, a number, true or false", replaced(`"value": "vllm"`, `"value": {"a": 1}`), true},
		{layout.Journal, "journal is damaged at byte", flipped, true},
		{layout.Journal, "line 1 (run_created): its data does not decode", rewritten(`"run_id":"`, `"reuse":[],"run_id":"`), true},
		{layout.Journal, "(trial_committed): its data does not decode", rewritten(`"trial":1,"attempt":1,"status"`, `"trial":"x","attempt":1,"status"`), true},
		{layout.Journal, "its data is null, want an object", rewritten(`"type":"trial_committed","data":{`, `"type":"trial_committed","data":null,"was":{`), true},
		{result, "result.json is missing", nil, true},
		{result, "result.json: row: ", half, true}, // the end may be within a word
		{result, "result.json: want an object, not []", instead("[]"), true},
		{result, "result.json: want an object, not null", instead("null"), true},
		{result, "result.json: row: want an object, not []", replaced(`"row": {`, `"row": [], "was": {`), true},
		{result, "result.json: row: it is null, want an object", replaced(`"row": {`, `"row": null, "was": {`), true},
		{result, "result.json: row: column concurrency: a row holds no values in values", replaced(`"concurrency": 1`, `"concurrency": [1]`), true},
		{result, "result.json: trial: json: cannot unmarshal string", replaced(`"trial": 1`, `"trial": "x"`), true},
		{layout.Calibration, "calibration.json: an array where an object is due", instead("[]"), false},
		{layout.Calibration, "calibration.json: it is no calibration", instead("null"), false},
		{layout.Calibration, `calibration.json: "Shape.streams" is a string where a whole number is due`, instead(`{"streams": "x"}`), false},
		{layout.Plan, "plan.yaml is missing", nil, false},
	}
}

// A file of a run directory that is missing, broken or of another shape is named, with what to
// do, in every command: it is no internal error, and no resume goes in circles.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), "version: 1\nname: d\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: 1, max_tokens: 4}\nbackend: {kind: sim}\nload: {requests: 3, warmup: {requests: 0}, prompts: {kind: synthetic, input_tokens: 4}}\n")
	for _, run := range []string{"good", "bad"} {
		if got := sweep(t, dir, nil, "run", "--calibrate", "never", "-o", run, "plan.yaml"); got.code != exitOK && got.code != exitIncomplete {
			t.Fatalf("exit %d\n%s", got.code, got.stderr)
		}
	}
	results, err := filepath.Glob(filepath.Join(dir, "bad", "cells", "*", "t01", "a01", layout.Result))
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	result, err := filepath.Rel(filepath.Join(dir, "bad"), results[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range damages(result) {
		repair := c.do(t, filepath.Join(dir, "bad"))
		var commands []string
		if filepath.Base(c.file) != layout.Result { // which a resume measures again, and a merge need not read
			commands = append(commands, "resume bad")
			if c.readers {
				commands = append(commands, "runs merge bad good -o both")
			}
		}
		if c.readers {
			commands = append(commands, "report bad", "cells bad", "runs bad", "logs bad", "compare bad good", "compare good bad", "compare noise good bad",
				"sim fit --model x bad", "export --format vllm bad", "night gate --history h.jsonl bad", "night accept --history h.jsonl bad")
		}
		for _, command := range commands {
			got := sweep(t, dir, nil, strings.Fields(command)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || !strings.Contains(got.stderr, "bring the file back") {
				t.Errorf("%s: %s: exit %d, stderr\n%s", c.want, command, got.code, got.stderr)
			}
		}
		repair()
	}
}

// do damages a run directory. A result.json has the digest that the journal says of it also
// afterwards. The answer puts the files back.
func (c damage) do(t *testing.T, dir string) (repair func()) {
	t.Helper()
	kept := map[string][]byte{}
	put := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{c.file, layout.Journal} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && name != layout.Calibration {
			t.Fatal(err)
		}
		kept[name] = b
	}
	if c.of == nil {
		if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
			t.Fatal(err)
		}
	} else {
		now := c.of(bytes.Clone(kept[c.file]))
		if bytes.Equal(now, kept[c.file]) {
			t.Errorf("%s: nothing is damaged", c.want)
		}
		put(c.file, now)
		if filepath.Base(c.file) == layout.Result {
			put(layout.Journal, rewritten(digest(kept[c.file]), digest(now))(kept[layout.Journal]))
		}
	}
	return func() {
		for name, b := range kept {
			put(name, b)
		}
		if kept[layout.Calibration] == nil && c.file == layout.Calibration {
			if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
