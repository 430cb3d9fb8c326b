package quality

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a file of samples. A sample has its prompt with all examples, and its document.
const (
	MaxSamplesBytes = 256 << 20
	MaxSampleBytes  = 16 << 20
)

// Samples are what lm-evaluation-harness logged of one server for one task: with
// --log_samples it writes samples_TASK_DATE.jsonl, a JSON object on each line. The format
// is that of its release 0.4.13 (lm_eval/evaluator.py, lm_eval/loggers/evaluation_tracker.py).
type Samples struct {
	// List has an answer for each sample, named by its doc_id, in the order of the file.
	// Right is its metric. Text is its filtered response if that is one text, otherwise nil.
	List   []Answer
	SHA256 string // of the file, in hex
	// Set is a digest of what was asked and of what counts: each document and prompt, the
	// metric and the filter. It is the same in the file of another server, and "" if the file
	// lacks the hashes of a document or a prompt.
	Set string

	asked map[string]asked // by Answer.Item
}

// asked is what was asked, to tell it from what another file has under the same doc_id.
type asked struct {
	file             string
	line             int
	document, prompt string // their hashes; "" if the file does not tell
}

// OpenSamples reads a file of at most [MaxSamplesBytes]; see [ReadSamples]. Errors name
// the file and the line.
func OpenSamples(path, metric, filter string) (*Samples, error) {
	return open(path, MaxSamplesBytes, func(r io.Reader) (*Samples, int, error) { return ReadSamples(r, metric, filter) })
}

// ReadSamples reads the samples of one filter of the task. "" is the only one that there
// is. metric is the key of a number that is 0 or 1 in each of them. On an error line is that
// of the sample, 0 for none.
func ReadSamples(r io.Reader, metric, filter string) (samples *Samples, line int, err error) {
	samples = &Samples{asked: map[string]asked{}}
	var filters []string
	samples.SHA256, line, err = lines(r, MaxSampleBytes, func(text []byte, line int) error {
		var one sample
		if err := one.read(text); err != nil {
			return err
		}
		if !slices.Contains(filters, one.filter) {
			filters = append(filters, one.filter)
		}
		if filter != "" && one.filter != filter {
			return nil
		}
		if len(filters) > 1 && filter == "" {
			return fmt.Errorf("each item is there with the filters %s: name one of them as quality.lm_eval.filter", strings.Join(filters, " and "))
		}
		return samples.add(&one, metric, line)
	})
	switch {
	case err != nil:
		return nil, line, err
	case len(filters) == 0:
		return nil, 0, errors.New("no sample in it")
	case len(samples.List) == 0:
		return nil, 0, fmt.Errorf("no sample of the filter %q: quality.lm_eval.filter can be %s", filter, strings.Join(filters, " or "))
	}
	samples.Set = samples.set(metric, cmp.Or(filter, filters[0]))
	return samples, 0, nil
}

// set is [Samples.Set].
func (s *Samples) set(metric, filter string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", metric, filter)
	for _, item := range slices.Sorted(maps.Keys(s.asked)) {
		a := s.asked[item]
		if a.document == "" || a.prompt == "" {
			return ""
		}
		fmt.Fprintf(sum, "%s %q %q\n", item, a.document, a.prompt)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// add takes a sample of the filter that is wanted.
func (s *Samples) add(one *sample, metric string, line int) error {
	if before, twice := s.asked[one.item]; twice {
		return fmt.Errorf("doc_id %s is on line %d too: take the file of one run of one task", one.item, before.line)
	}
	if len(s.List) == MaxItems {
		return fmt.Errorf("more than %d items: run lm-eval with --limit %d on each side", MaxItems, MaxItems)
	}
	right, err := one.score(metric)
	if err != nil {
		return err
	}
	s.asked[one.item] = asked{line: line, document: one.text("doc_hash"), prompt: one.text("prompt_hash")}
	s.List = append(s.List, Answer{Item: one.item, Right: &right, Text: one.response()})
	return nil
}

// sample is a line of the file.
type sample struct {
	fields map[string]json.RawMessage
	item   string
	filter string
}

// notSamples is what to do about a file that has something else.
const notSamples = "take the samples_TASK_DATE.jsonl that lm-eval writes with --log_samples"

func (s *sample) read(text []byte) error {
	if err := json.Unmarshal(text, &s.fields); err != nil {
		return fmt.Errorf("no JSON object: %w; %s", err, notSamples)
	}
	var id *int
	if err := json.Unmarshal(s.fields["doc_id"], &id); err != nil || id == nil {
		return errors.New("no number doc_id: " + notSamples)
	}
	s.item, s.filter = strconv.Itoa(*id), s.text("filter")
	return nil
}

// text returns a field that is a text; "" for another one, or none.
func (s *sample) text(key string) string {
	var v string
	if json.Unmarshal(s.fields[key], &v) != nil {
		return ""
	}
	return v
}

// score returns a metric that is 0 or 1; lm-eval writes some as false and true.
func (s *sample) score(metric string) (right bool, err error) {
	raw, ok := s.fields[metric]
	var names []string
	if json.Unmarshal(s.fields["metrics"], &names) != nil {
		names = nil
	}
	has := ""
	if len(names) > 0 {
		has = ", and this task has " + strings.Join(names, ", ")
	}
	var yes *bool
	var v *float64
	switch {
	case !ok:
		return false, fmt.Errorf("no metric %s in this sample%s: name one that is there as quality.lm_eval.metric", metric, has)
	case json.Unmarshal(raw, &yes) == nil && yes != nil:
		return *yes, nil
	case json.Unmarshal(raw, &v) != nil || v == nil:
		return false, fmt.Errorf("the metric %s is no number here%s: take one that is 0 or 1 for each item, such as exact_match or acc", metric, has)
	case *v != 0 && *v != 1:
		return false, fmt.Errorf("the metric %s is %v here: a paired test needs one that is 0 or 1 for each item, such as exact_match or acc%s", metric, *v, has)
	}
	return *v == 1, nil
}

// response returns the filtered response, of at most [MaxTextBytes]; nil if it is not one text,
// as that of a task which compares the likelihoods of choices.
func (s *sample) response() *string {
	var list []json.RawMessage
	if json.Unmarshal(s.fields["filtered_resps"], &list) != nil || len(list) != 1 {
		return nil
	}
	var one *string
	if json.Unmarshal(list[0], &one) != nil { // a filter that keeps the responses of all repeats
		var all []*string
		if json.Unmarshal(list[0], &all) != nil || len(all) != 1 {
			return nil
		}
		one = all[0]
	}
	if one != nil && len(*one) > MaxTextBytes {
		end := MaxTextBytes
		for !utf8.RuneStart((*one)[end]) {
			end--
		}
		*one = (*one)[:end]
	}
	return one
}

// Tasks holds files of samples against each other: under one doc_id they must have asked
// the same. The zero value is ready.
type Tasks struct{ asked map[string]asked }

// Add takes a file of that name. The error says where it asks something else than a file
// before it.
func (t *Tasks) Add(name string, s *Samples) error {
	if t.asked == nil {
		t.asked = map[string]asked{}
	}
	for i := range s.List {
		item := s.List[i].Item
		now := s.asked[item]
		now.file = name
		before, ok := t.asked[item]
		switch {
		case !ok:
			t.asked[item] = now
		case before.document != now.document:
			return fmt.Errorf("%s:%d: doc_id %s is another document than in %s:%d: take files of the same task and version",
				name, now.line, item, before.file, before.line)
		case before.prompt != now.prompt:
			return fmt.Errorf("%s:%d: doc_id %s has another prompt than in %s:%d: run lm-eval with the same --num_fewshot, --apply_chat_template and --system_instruction on each side",
				name, now.line, item, before.file, before.line)
		}
	}
	return nil
}
