package agreement

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// agreed returns a row whose two sides say the same.
func agreed(change result.Row) result.Row {
	row := result.Row{
		"requests": int64(16), "completed": int64(16), "server_requests": int64(16),
		"output_tokens": int64(2048), "server_output_tokens": int64(2048),
		"input_tokens": int64(3200), "server_input_tokens": int64(3200),
		"mean_ttft_ms_whole": 126.0, "mean_server_ttft_ms": 116.0,
		"mean_tpot_ms_whole": 9.7, "mean_server_tpot_ms": 9.7,
		"mean_e2e_ms_whole": 1300.0, "mean_server_e2e_ms": 1285.0,
		"throughput_tok_s_whole": 766.0, "server_reported_throughput_tok_s": 770.0,
		"network_path": "direct",
	}
	maps.Copy(row, change)
	return row
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change result.Row
		code   finding.Code // zero if nothing is to be found
		words  []string
	}{
		"agreed":               {nil, finding.Code{}, nil},
		"the last step":        {result.Row{"server_output_tokens": int64(2060)}, finding.Code{}, nil},
		"tokens made in vain":  {result.Row{"server_output_tokens": int64(2500)}, finding.TokensDisagree, []string{"2048", "2500", "discarded"}},
		"tokens not counted":   {result.Row{"server_output_tokens": int64(1024)}, finding.TokensDisagree, []string{"1024", "one of its processes"}},
		"another client":       {result.Row{"server_requests": int64(20)}, finding.RequestsDisagree, []string{"16", "20", "another client"}},
		"prefix cache":         {result.Row{"server_input_tokens": int64(1600), "prefix_cache_hit_rate": 0.5}, finding.Code{}, nil},
		"prompts not counted":  {result.Row{"server_input_tokens": int64(1600)}, finding.InputDisagrees, []string{"3200", "1600"}},
		"waits before":         {result.Row{"mean_ttft_ms_whole": 400.0, "mean_e2e_ms_whole": 1570.0}, finding.TTFTDisagrees, []string{"400", "116", "before the engine's clock starts"}},
		"first chunk is held":  {result.Row{"mean_ttft_ms_whole": 900.0}, finding.TTFTDisagrees, []string{"900", "held back", "no text"}},
		"two round trips":      {result.Row{"mean_ttft_ms_whole": 340.0, "mean_e2e_ms_whole": 1500.0, "p50_rtt_ms": 100.0}, finding.Code{}, nil},
		"three round trips":    {result.Row{"mean_ttft_ms_whole": 450.0, "mean_e2e_ms_whole": 1610.0, "p50_rtt_ms": 100.0}, finding.TTFTDisagrees, []string{"450"}},
		"a proxy":              {result.Row{"mean_ttft_ms_whole": 400.0, "network_path": "proxy"}, finding.TTFTDisagrees, []string{"proxy"}},
		"a proxy that buffers": {result.Row{"mean_tpot_ms_whole": 15.0, "network_path": "proxy"}, finding.TPOTDisagrees, []string{"15", "9.7", "proxy"}},
		"faster than itself":   {result.Row{"mean_e2e_ms_whole": 900.0}, finding.E2EDisagrees, []string{"cannot be", "other requests"}},
		"faster, with others":  {result.Row{"mean_e2e_ms_whole": 900.0, "server_requests": int64(17)}, finding.E2EDisagrees, []string{"another client"}},
		"busy windows":         {result.Row{"throughput_tok_s_whole": 361.0, "server_reported_throughput_tok_s": 460.0}, finding.ReportedThroughput, []string{"460", "361", "busy"}},
		"single moments":       {result.Row{"throughput_tok_s_whole": 500.0, "server_reported_throughput_tok_s": 300.0}, finding.ReportedThroughput, []string{"300", "moments"}},
		"failed requests":      {result.Row{"completed": int64(15), "server_output_tokens": int64(9), "mean_ttft_ms_whole": 9e9}, finding.Code{}, nil},
		"probes beside it":     {result.Row{"probe_requests": int64(4), "server_requests": int64(20), "server_output_tokens": int64(2500)}, finding.Code{}, nil},
		"nothing exposed":      {result.Row{"server_output_tokens": nil, "mean_server_ttft_ms": nil, "server_requests": nil}, finding.Code{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := Findings(agreed(c.change), nil)
			if c.code == (finding.Code{}) {
				if len(found) != 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			for _, f := range found {
				if f.Code != c.code {
					continue
				}
				for _, w := range c.words {
					if !strings.Contains(f.Text, w) {
						t.Errorf("%q does not say %q", f.Text, w)
					}
				}
				return
			}
			t.Errorf("found %+v, want %s", found, c.code)
		})
	}
}

// Without TPOT of its own an engine is held to its ITL.
func TestCompare_itl(t *testing.T) {
	row := agreed(result.Row{"mean_server_tpot_ms": nil, "mean_itl_ms_whole": 20.0, "mean_server_itl_ms": 10.0})
	for _, f := range Compare(row) {
		if f.Name == "mean_itl_ms_whole" && f.Code == finding.TPOTDisagrees {
			return
		}
	}
	t.Error("ITL was not compared")
}

func TestCoalesced(t *testing.T) {
	request := func(tokens, first int, counts []int32, chunks int) result.Request {
		return result.Request{
			Status: result.Completed, CompletionTokens: tokens, FirstTokenChunk: first, ChunkTokens: counts, ChunkUS: make([]int32, chunks),
		}
	}
	for name, c := range map[string]struct {
		r    result.Request
		want bool
	}{
		"a token each":        {request(8, 1, nil, 9), false},
		"two a chunk":         {request(8, 1, []int32{0, 2, 2, 2, 2, 0}, 6), true},
		"an empty last chunk": {request(3, 1, []int32{0, 1, 1, 1, 0}, 5), false},
		"no token":            {request(0, -1, nil, 2), false},
	} {
		if _, got := coalesced([]result.Request{c.r}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The engine's count and the count of its answers must not differ by more than the
// tokens of a step, if no token was discarded.
func TestFindings_output(t *testing.T) {
	for name, tt := range map[string]struct {
		told, made any
		completed  int64
		want       bool
	}{
		"the same":             {int64(384), int64(384), 24, false},
		"a step behind":        {int64(400), int64(380), 24, false},
		"answers say more":     {int64(456), int64(384), 24, true},
		"the engine says more": {int64(361), int64(460), 24, true},
		"made in vain":         {int64(361), int64(460), 23, false},
		"not exposed":          {int64(456), nil, 24, false},
		"not counted":          {nil, int64(384), 24, false},
		"nothing":              {int64(0), int64(0), 24, false},
	} {
		row := result.Row{"output_tokens": tt.told, "server_output_tokens": tt.made, "requests": int64(24), "completed": tt.completed}
		got := Findings(row, nil)
		if (len(got) == 1) != tt.want {
			t.Errorf("%s: found %+v", name, got)
		}
		for _, f := range got {
			if f.Code != finding.TokensDisagree {
				t.Errorf("%s: %s", name, f.Code)
			}
			if !strings.Contains(f.Text, fmt.Sprint(tt.told)) || !strings.Contains(f.Text, fmt.Sprint(tt.made)) {
				t.Errorf("%s: %s", name, f.Text)
			}
		}
	}
}
