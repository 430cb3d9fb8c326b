package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// memoryArgs are the arguments that decide whether a server fits, by the word
// that stands for each whatever the engine calls it.
var memoryArgs = map[string]string{
	"arg_gpu_memory_utilization":            "memory",
	"arg_mem_fraction_static":               "memory",
	"arg_free_gpu_memory_fraction":          "memory",
	"arg_kv_cache_free_gpu_memory_fraction": "memory",
	"arg_max_model_len":                     "length",
	"arg_context_length":                    "length",
	"arg_max_seq_len":                       "length",
	"arg_ctx_size":                          "length",
	"arg_max_num_seqs":                      "seqs",
	"arg_max_running_requests":              "seqs",
	"arg_max_batch_size":                    "seqs",
	"arg_parallel":                          "seqs",
	"arg_max_num_batched_tokens":            "batch",
	"arg_chunked_prefill_size":              "batch",
	"arg_max_num_tokens":                    "batch",
}

// A start is one server of the surface with its points.
type start struct {
	cell      conclude.Cell // one of its cells
	points    []*conclude.Point
	predicted *conclude.Prediction
	skipped   bool
}

// surface returns the table of the servers of a plan that varies an argument of
// memory, where one of them did not start or was not to; nil for every other.
func (v *View) surface() *Table {
	axes := v.Set.Servers()
	columns := axes.Columns()
	if !slices.ContainsFunc(columns, func(c string) bool { return memoryArgs[c] != "" }) {
		return nil
	}
	doubtful := func(p *conclude.Point) bool {
		return p.Verdict == conclude.NoStart || p.Cell.Predicted != nil && !p.Cell.Predicted.Starts
	}
	if !v.Resolved.RecordStarts && len(v.Resolved.Skipped) == 0 && !slices.ContainsFunc(v.Set.Points, doubtful) {
		return nil
	}
	var order []string
	starts := map[string]*start{}
	texts := map[string][]string{}
	add := func(c conclude.Cell) *start {
		var key []string
		for _, column := range columns {
			key = append(key, fmt.Sprint(cmp.Or[any](c.Value(column), "-")))
		}
		name := strings.Join(key, "\x00")
		if starts[name] == nil {
			order = append(order, name)
			starts[name], texts[name] = &start{cell: c, predicted: c.Predicted}, key
		}
		return starts[name]
	}
	for _, p := range v.Set.Points {
		st := add(p.Cell)
		st.points = append(st.points, p)
	}
	for _, c := range v.Resolved.Skipped {
		add(c).skipped = true
	}

	slices.SortStableFunc(order, func(a, b string) int { return axes.Compare(starts[a].cell, starts[b].cell) })

	heads, legend := v.heads(columns)
	predicted := false
	for _, st := range starts {
		predicted = predicted || st.predicted != nil
	}
	m := &Table{Grid: draw.Grid{Name: "Which servers start, with how many tokens of KV cache", Down: heads[0], Values: append(heads[1:], "outcome")}}
	if predicted {
		m.Grid.Values = append(m.Grid.Values, "predicted")
	}
	as, compared := 0, 0
	for _, name := range order {
		st := starts[name]
		verdict, outcome := st.outcome()
		row := append(draw.Fields(texts[name]...), draw.Field{Text: strings.TrimSpace(outcome + " " + st.kvTokens()), Verdict: verdict})
		if predicted {
			text := st.predicted.String()
			if same, ok := st.asPredicted(outcome); ok {
				compared++
				if same {
					as++
				} else {
					text += " <>"
				}
			}
			row = append(row, draw.Field{Text: text})
		}
		m.Grid.Rows = append(m.Grid.Rows, row)
	}
	m.Notes = append(m.Notes, legend...)
	if compared > 0 {
		text := fmt.Sprintf("Prediction: %d of %s came out as the simulator's arithmetic had it", as, humanize.Plural(compared, "server"))
		if as < compared {
			text += "; <> marks the others"
		}
		m.Notes = append(m.Notes, text+".")
	}
	if n := len(v.Resolved.Skipped); n > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("Skipped: %s of servers that were predicted not to fit.", humanize.Plural(n, "cell")))
	}
	return m
}

// heads returns short names for columns, and what they stand for: a table of long
// ones fits no terminal. Two arguments of one meaning keep their own names.
func (v *View) heads(columns []string) (heads, legend []string) {
	count := map[string]int{}
	for _, c := range columns {
		count[memoryArgs[c]]++
	}
	var words []string
	for _, c := range columns {
		head := strings.ReplaceAll(strings.TrimPrefix(c, "arg_"), "_", "-")
		if short := memoryArgs[c]; short != "" && count[short] == 1 {
			words = append(words, short+" is "+head)
			head = short
		}
		heads = append(heads, head)
	}
	if len(words) > 0 {
		legend = []string{strings.Join(words, ", ") + "."}
	}
	return heads, legend
}

// outcome returns what became of a server: whether it started, or the class of why
// not. A server that started once can.
func (s *start) outcome() (v conclude.Verdict, text string) {
	v, text = conclude.Pending, "pending"
	if s.skipped && len(s.points) == 0 {
		return conclude.Pending, "skipped"
	}
	for _, p := range s.points {
		switch p.Verdict {
		case conclude.Pending:
		case conclude.NoStart:
			v, text = conclude.NoStart, p.Reason()
		case conclude.FailedRun, conclude.Skipped: // also before its server was there
			if _, ok := p.Average(conclude.Measure{Column: col.StartUpS}); ok {
				return conclude.Acceptable, "starts"
			}
			if v != conclude.NoStart {
				v, text = conclude.FailedRun, p.Reason()
			}
		default:
			return conclude.Acceptable, "starts"
		}
	}
	return v, text
}

// kvTokens returns the size of the KV cache that the server told; "" for none.
func (s *start) kvTokens() string {
	for _, p := range s.points {
		if n, ok := p.Average(conclude.Measure{Column: col.KVCacheTokens}); ok {
			return fmt.Sprintf("%.0f", n)
		}
	}
	return ""
}

// asPredicted compares an outcome with its prediction. ok is false if there
// is nothing to compare: the arithmetic knows of memory, and of no port that is
// taken.
func (s *start) asPredicted(outcome string) (same, ok bool) {
	if s.predicted == nil || outcome != "starts" && !strings.HasPrefix(outcome, "oom.") {
		return false, false
	}
	return outcome == s.predicted.Outcome(), true
}
