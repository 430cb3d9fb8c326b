//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Of its 18 layers the model keeps three whole, at 1 KiB a token each: the KV
// cache of 262,144 tokens is 768 MiB, which a cgroup of 200 MiB cannot hold.
func TestLlamaCpp_failures(t *testing.T) {
	t.Parallel()
	need(t, llamaCpp.task, llamaCpp.files...)
	gguf, err := os.ReadFile(llamaCpp.files[1])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	half := file("half.gguf", gguf[:len(gguf)/2])
	head := file("head.gguf", gguf[:5000])
	other := file("other.gguf", append([]byte("GGML"), gguf[4:5000]...))
	gguf = nil

	llamaCpp.failures(t, []provoked{
		{
			name: "no file", set: []string{"model=" + filepath.Join(dir, "none.gguf")},
			class: "model", parts: []string{"no such model", "none.gguf", "in the plan: correct model"},
		},
		{
			name: "cut in its weights", set: []string{"model=" + half},
			class: "model.format", parts: []string{"is corrupted or incomplete", "fetch it again", "in the plan: correct model"},
		},
		{
			name: "cut in its header", set: []string{"model=" + head},
			class: "model.format", parts: []string{"failed to read key-value pairs", "not a GGUF model", "in the plan: correct model"},
		},
		{
			name: "not a GGUF file", set: []string{"model=" + other},
			class: "model.format", parts: []string{"invalid magic characters", "not a GGUF model", "in the plan: correct model"},
		},
		{
			name: "unknown argument", set: []string{"engines.llamacpp.args.max-num-seqs=4"},
			class: "args", parts: []string{"unrecognized arguments: --max-num-seqs 4", "take max-num-seqs out of engines.llamacpp.args"},
		},
		{
			name: "port taken", taken: true,
			set: []string{
				"engines.llamacpp.command=[.engines/llamacpp/bin/python, tools/engines/llama_serve.py, '--model={{.Model}}', " +
					"'--host={{.Host}}', '--port=${port}', --metrics]",
			},
			class: "port", parts: []string{"Address already in use", "leave the port of engines.llamacpp.command to {{.Port}}"},
		},
		{
			name: "memory limit", memory: 200 << 20, set: []string{"engines.llamacpp.args.ctx-size=262144"},
			class: "oom.host", parts: []string{"out of host memory", "the kernel killed the server", "in the plan: take a smaller model"},
		},
	})
}
