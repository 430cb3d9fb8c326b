package serving

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/failure"
)

// Of a server that was never started its backend says why, once; of one that
// ended its log does, with what to change in the plan.
func TestFailureOf_advice(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	limited := errors.New("the image did not arrive: pull of vllm/vllm-openai: toomanyrequests: You have reached your pull rate limit")
	f := failureOf(context.Background(), limited, nil, []serverLog{{role: "server"}}, p, "vllm")
	if f.Class != "image" || f.Text != limited.Error() || !strings.Contains(f.Hint, "in the plan: set backend.registry") || len(f.Log) != 0 {
		t.Errorf("got %+v", f)
	}
	logs := []serverLog{{role: "server", lines: []string{"max_num_seqs (256) exceeds available Mamba cache blocks (211)"}}}
	f = failureOf(context.Background(), &backends.Exit{Role: "server", Code: 1}, nil, logs, p, "fast")
	if f.Class != "oom.warmup" || !strings.HasSuffix(f.Text, logs[0].lines[0]) || !strings.HasSuffix(f.Hint, "in the plan: engines.fast.args.max-num-seqs: 211") {
		t.Errorf("got %+v", f)
	}
	// A log that only says that something else failed gives way to the others.
	logs = []serverLog{
		{role: "frontend", lines: []string{"EngineDeadError: EngineCore encountered an issue."}},
		{role: "worker", lines: []string{"torch.OutOfMemoryError: CUDA out of memory."}},
	}
	f = failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if f.Class != "oom.cuda" {
		t.Errorf("got %+v", f)
	}
}

// A worker's death explains the frontend's failure.
func TestFailureOf_roles(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	logs := []serverLog{
		{"worker", 0, []string{"all is well"}},
		{"worker", 1, []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"}},
		{"frontend", 0, []string{"no workers left"}},
	}
	f := failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if !strings.HasPrefix(f.Class, "oom") || !strings.Contains(f.Text, "CUDA out of memory") || !slices.Equal(f.Log, logs[1].lines) {
		t.Errorf("got %+v", f)
	}
	// Nothing is told: the log of the one that ended is shown.
	logs[1].lines = []string{"fine"}
	f = failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if f.Class != failure.ClassExit || !slices.Equal(f.Log, logs[2].lines) {
		t.Errorf("got %+v", f)
	}
}
