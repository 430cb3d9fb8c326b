package dataset

import (
	"strings"
	"testing"
)

// A record that never ends is refused before it has been read to the file's end.
func TestReadPrompts_endlessRecord(t *testing.T) {
	for name, c := range map[string]struct{ kind, text, want string }{
		"quote":         {"csv", "prompt\n\"" + strings.Repeat("abcdefg\n", maxRecordBytes/7), "a record over"},
		"fields":        {"csv", strings.Repeat(",", maxRecordParts+1<<20), "a record of more than"},
		"conversation":  {"sharegpt", `[{"conversations":["` + strings.Repeat("a", 3*maxRecordBytes), "a record over"},
		"turns":         {"sharegpt", `[{"conversations":[` + strings.Repeat("{},", maxRecordParts+1<<20), "a record of more than"},
		"another field": {"sharegpt", `[{"x":` + strings.Repeat("[", 100_000), "exceeded max depth"},
	} {
		if _, _, err := ReadPrompts(write(t, c.text), c.kind); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// A plan may name any file of the machine. An error about a file that is no dataset
// quotes nothing of it.
func TestRead_quotesNoOtherFile(t *testing.T) {
	for _, text := range []string{
		"root:x:0:0:canary:/root:/bin/canary\n",
		"canary,canary\ncanary,canary\n",
		"1,canary\n", "input,output\ncanary,1\n",
		"prompt,max_tokens\na,canary\n", "prompt\n\"a\" canary\n",
		`{"canary": "canary"}`, `{"prompt": "a", "max_tokens": "canary"}`, `{"messages": [{"role": "canary", "content": "canary"}]}`,
		`[{"conversations": "canary"}]`, `["canary"]`, "[canary]",
	} {
		path := write(t, text)
		_, err := ReadPairs(path)
		errs := []error{err}
		for _, kind := range []string{"jsonl", "sharegpt", "csv"} {
			_, _, err := ReadPrompts(path, kind)
			errs = append(errs, err)
		}
		for _, err := range errs {
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
