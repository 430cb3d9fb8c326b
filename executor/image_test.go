package executor

import (
	"testing"

	"sweep.dev/sweep/backends"
)

// A backend that runs images starts the program of the image; a command or an
// ENTRYPOINT of the plan's own is left as it is.
func TestSpecify_inImage(t *testing.T) {
	for name, tt := range map[string]struct{ kind, engine, engines, want string }{
		"on this machine":   {"fake", "llamacpp", "{}", "llama-server"},
		"in its image":      {"docker", "llamacpp", "{}", "/app/llama-server"},
		"begins with it":    {"runpod", "vllm", "{}", "vllm"},
		"before 0.11":       {"docker", "vllm", `{vllm: {image: "vllm/vllm-openai:v0.10.2"}}`, "python3"},
		"an own command":    {"docker", "llamacpp", `{llamacpp: {command: [mine, "{{.Port}}"]}}`, "mine"},
		"an own entrypoint": {"docker", "llamacpp", "{llamacpp: {image: x, entrypoint: [mine]}}", "llama-server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := parsePlan(t, "matrix: {engine: "+tt.engine+", concurrency: [1]}", "engines: "+tt.engines)
			p.Backend.Kind = tt.kind
			spec, err := Specify(p, p.Deployments()[0], "sweep")
			if err != nil {
				t.Fatal(err)
			}
			argv, err := spec.Roles[0].Argv(backends.Address{Host: "h", Port: 1})
			if err != nil || argv[0] != tt.want {
				t.Errorf("started as %q, %v, want %s", argv, err, tt.want)
			}
		})
	}
}
