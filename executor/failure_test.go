package executor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
)

// Of a server that was never started its backend says why, once; of one that
// ended its log does, with what to change in the plan.
func TestFailureOf_advice(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	limited := errors.New("the image did not arrive: pull of vllm/vllm-openai: toomanyrequests: You have reached your pull rate limit")
	f := failureOf(context.Background(), limited, nil, []serverLog{{role: "server"}}, p, "vllm")
	if f.class != "image" || f.text != limited.Error() || !strings.Contains(f.hint, "in the plan: set backend.registry") || len(f.log) != 0 {
		t.Errorf("got %+v", f)
	}
	logs := []serverLog{{role: "server", lines: []string{"max_num_seqs (256) exceeds available Mamba cache blocks (211)"}}}
	f = failureOf(context.Background(), &backends.Exit{Role: "server", Code: 1}, nil, logs, p, "fast")
	if f.class != "oom.warmup" || !strings.HasSuffix(f.text, logs[0].lines[0]) || !strings.HasSuffix(f.hint, "in the plan: engines.fast.args.max-num-seqs: 211") {
		t.Errorf("got %+v", f)
	}
	// What only says that something else failed leaves the word to the others.
	logs = []serverLog{
		{role: "frontend", lines: []string{"EngineDeadError: EngineCore encountered an issue."}},
		{role: "worker", lines: []string{"torch.OutOfMemoryError: CUDA out of memory."}},
	}
	f = failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if f.class != "oom.cuda" {
		t.Errorf("got %+v", f)
	}
}
