package sim

import (
	"strings"
	"testing"
)

func TestProgram_startFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{
			"out of memory",
			[]string{"--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "rtx-2000-ada"},
			1,
			[]string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "RuntimeError: Engine core initialization failed. See root cause above."},
		},
		{
			"type",
			[]string{"--model", "Qwen/Qwen2.5-1.5B-Instruct", "--gpu", "t4", "--dtype", "bfloat16"},
			1,
			[]string{"Bfloat16 is only supported on GPUs with compute capability of at least 8.0"},
		},
		{"unknown model", []string{"--model", "nobody/nothing"}, 1, []string{"is not a valid model identifier"}},
		{"unknown flags", []string{"--model", "tiny", "--foo", "bar", "--baz"}, 2, []string{"error: unrecognized arguments: --foo bar --baz"}},
		{"unknown gpu", []string{"--model", "tiny", "--gpu", "h300"}, 2, []string{"error: argument --gpu: invalid choice: 'h300' (choose from 't4', 'rtx-2000-ada'"}},
		{"bad value", []string{"--model", "tiny", "--max-num-seqs", "many"}, 2, []string{`invalid value "many"`}},
		{"no model", nil, 2, []string{"error: the following arguments are required: --model"}},
		{"bad fault", []string{"--model", "tiny", "--fault", "nonsense=1"}, 2, []string{`no fault "nonsense"`}},
		{"exit at start", []string{"--port", "0", "--model", "tiny", "--fault", "die-at-start=3"}, 3, []string{"fault: exit status 3"}},
		{"signal at start", []string{"--port", "0", "--model", "tiny", "--fault", "die-at-start=kill"}, -1, nil},
		{"help", []string{"--help"}, 0, []string{"Usage: sweep sim", "--[no-]enable-prefix-caching", "die-after=N:D", "EXIT STATUS"}},
	} {
		status, out := program(t, c.args...)
		if status != c.status {
			t.Errorf("%s: status %d, want %d\n%s", c.name, status, c.status, out)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, out)
			}
		}
	}
}

func TestProgram_addressInUse(t *testing.T) {
	in := start(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(in.url, "http://"), ":")
	status, out := program(t, "--model", "tiny", "--port", port)
	if status != 1 || !strings.Contains(out, "Address already in use") {
		t.Errorf("%d %s", status, out)
	}
}
