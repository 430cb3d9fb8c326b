package published

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// An UnknownError is a file of no tool that is known.
type UnknownError struct{ Found string }

func (e *UnknownError) Error() string {
	return "no result file of a tool that is known: " + e.Found
}

// Hint says what is read.
func (e *UnknownError) Hint() string {
	var known []string
	for _, f := range formats() {
		known = append(known, f.what)
	}
	return "sweep judge reads " + strings.Join(known, "; ")
}

// A format is the file of a tool, which is known by keys that only it has.
type format struct {
	what string
	keys []string
	read func(json.RawMessage) ([]*load, error)
}

func formats() []format {
	return []format{
		{"vllm bench serve --save-result (one result, a list, or a line each)", []string{"total_token_throughput", "num_prompts", "duration"}, readVLLM},
		{"InferenceX' agg_*.json", []string{"tput_per_gpu", "hw", "conc"}, readInferenceX},
		{"guidellm's benchmarks.json", []string{"benchmarks", "metadata"}, readGuideLLM},
		{"aiperf's profile_export_aiperf.json and .csv", []string{"schema_version", "input_config", "aiperf_version"}, readAIPerf},
	}
}

// read finds the format of a file and reads its loads.
func read(data []byte) ([]*load, error) {
	data = numbered(bytes.TrimPrefix(data, []byte("\ufeff")))
	if bytes.HasPrefix(data, []byte("Metric,avg,")) {
		return bounded(readAIPerfCSV(data))
	}
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil, &UnknownError{"it begins with " + begins(text)}
	}
	var loads []*load
	d := json.NewDecoder(bytes.NewReader(data))
	for line := 1; ; line++ {
		var value json.RawMessage
		switch err := d.Decode(&value); {
		case errors.Is(err, io.EOF) && line > 1:
			return bounded(loads, nil)
		case err != nil:
			return nil, fmt.Errorf("JSON value %d, after byte %d: %w", line, d.InputOffset(), err)
		}
		more, err := readValue(value)
		if err != nil && line > 1 {
			err = fmt.Errorf("JSON value %d, before byte %d: %w", line, d.InputOffset(), err)
		}
		if err != nil {
			return nil, err
		}
		if loads = append(loads, more...); len(loads) > MaxLoads {
			return nil, tooMany()
		}
	}
}

func tooMany() error { return fmt.Errorf("it has more than %d loads: judge parts of it", MaxLoads) }

func bounded(loads []*load, err error) ([]*load, error) {
	switch {
	case err != nil:
		return nil, err
	case len(loads) > MaxLoads:
		return nil, tooMany()
	case len(loads) == 0:
		return nil, errors.New("it has no load")
	}
	return loads, nil
}

// readValue reads one JSON value: an object of a format, or a list of them.
func readValue(value json.RawMessage) ([]*load, error) {
	if value[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		if len(list) > MaxLoads {
			return nil, tooMany()
		}
		var loads []*load
		for i, v := range list {
			if len(v) == 0 || v[0] != '{' {
				return nil, &UnknownError{fmt.Sprintf("a list of something else than objects, item %d: %s", i+1, begins(v))}
			}
			more, err := readValue(v)
			if err != nil {
				return nil, fmt.Errorf("item %d of the list: %w", i+1, err)
			}
			loads = append(loads, more...)
		}
		return loads, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(value, &keys); err != nil {
		return nil, &UnknownError{"JSON that is no object"}
	}
	for _, f := range formats() {
		if !slices.ContainsFunc(f.keys, func(k string) bool { _, ok := keys[k]; return !ok }) {
			loads, err := f.read(value)
			if err != nil {
				return nil, fmt.Errorf("read as %s: %w", f.what, err)
			}
			return loads, nil
		}
	}
	if _, ok := keys["metrics"]; ok && keys["metadata"] != nil {
		return nil, &UnknownError{"single requests, as aiperf's profile_export.jsonl has; name profile_export_aiperf.json beside it"}
	}
	names := slices.Sorted(maps.Keys(keys))
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	for i, n := range names {
		names[i] = fmt.Sprintf("%.40q", n)
	}
	return nil, &UnknownError{"an object with the keys " + strings.Join(names, ", ")}
}

// begins returns the start of a text that is no JSON.
func begins(text []byte) string {
	if len(text) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%.40q", text[:min(len(text), 40)])
}

// noNumber stands in for the words of Python's JSON that are no numbers, and is
// larger than any figure.
const noNumber = 1e300

// numbered writes -2e300 for NaN and -Infinity, and 2e300 for Infinity, if they
// stand bare in JSON. Its decoder refuses them, and null would say that nothing was measured.
func numbered(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	out := make([]byte, 0, len(data))
	quoted := false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case quoted && c == '\\' && i+1 < len(data):
			out = append(out, c)
			i++
			c = data[i]
		case c == '"':
			quoted = !quoted
		case !quoted:
			word, number := bare(data[i:])
			if word > 0 {
				out = append(out, number...)
				i += word - 1
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// bare returns the length of the word at the start of text that is no number,
// and what is written for it.
func bare(text []byte) (length int, number string) {
	for _, w := range [...]struct{ word, number string }{{"NaN", "-2e300"}, {"Infinity", "2e300"}, {"-Infinity", "-2e300"}} {
		if bytes.HasPrefix(text, []byte(w.word)) {
			return len(w.word), w.number
		}
	}
	return 0, ""
}
