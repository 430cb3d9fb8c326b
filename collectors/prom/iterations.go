package prom

import (
	"encoding/json"
	"errors"
	"fmt"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// iterations say what the iteration statistics of trtllm-serve mean: the
// numbers of one entry, under the names of its fields joined by dots.
// https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html
var iterations = engine.Metrics{Series: map[string][]engine.Series{
	engine.RequestsRunning: {{Name: "numActiveRequests"}},
	engine.RequestsWaiting: {{Name: "numQueuedRequests"}},
	engine.KVCacheUsage:    {{Name: "kvCacheStats.usedFraction"}}, // of used and max
	engine.KVCacheBlocks:   {{Name: "kvCacheStats.maxNumBlocks"}},
	engine.KVCacheTokens:   {{Name: "kvCacheStats.maxNumBlocks", Times: &engine.Series{Name: "kvCacheStats.tokensPerBlock"}}},
	engine.PrefixHits:      {{Name: "kvCacheStats.reusedBlocks", Unit: "blocks"}},
	engine.PrefixQueries:   {{Name: "kvCacheStats.reusedBlocks", Plus: []string{"kvCacheStats.missedBlocks"}, Unit: "blocks"}},
	engine.SpecAcceptLen:   {{Name: "specDecodingStats.acceptanceLength"}},
}}

// maxIterations bounds the entries of one answer that are used, the last ones.
const maxIterations = 10_000

var errNoIterations = errors.New("it holds no iteration statistics")

// parseIterations reads one answer of an endpoint of iteration statistics: a
// JSON array, each entry one iteration, of which each answer empties the queue.
// Every entry becomes a body of its own, in order. An empty array is a server
// at rest, or one whose queue somebody else empties.
func parseIterations(src []byte) ([]*exposition.Exposition, error) {
	var entries []map[string]any
	if err := json.Unmarshal(src, &entries); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoIterations, err)
	}
	if n := len(entries); n > maxIterations {
		entries = entries[n-maxIterations:]
	}
	var out []*exposition.Exposition
	for _, entry := range entries {
		if rank, _ := entry["attentionDpRank"].(float64); rank != 0 {
			continue // what other ranks say of themselves may be a copy of rank 0
		}
		e := new(exposition.Exposition)
		flatten(e, "", entry, 0)
		if used, ok := field(entry, "usedNumBlocks"); ok {
			if size, ok := field(entry, "maxNumBlocks"); ok && size > 0 {
				e.Points = append(e.Points, exposition.Point{Name: "kvCacheStats.usedFraction", Kind: "gauge", Value: used / size})
			}
		}
		out = append(out, e)
	}
	return out, nil
}

func field(entry map[string]any, name string) (float64, bool) {
	stats, _ := entry["kvCacheStats"].(map[string]any)
	v, ok := stats[name].(float64)
	return v, ok
}

func flatten(e *exposition.Exposition, prefix string, fields map[string]any, depth int) {
	for name, v := range fields {
		switch v := v.(type) {
		case float64:
			e.Points = append(e.Points, exposition.Point{Name: prefix + name, Kind: "gauge", Value: v})
		case map[string]any:
			if depth < 2 {
				flatten(e, prefix+name+".", v, depth+1)
			}
		}
	}
}
