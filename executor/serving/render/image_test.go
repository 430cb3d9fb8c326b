package render

import (
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/plan/plantest"
)

// A backend that runs images starts the program of the image; a command or an
// ENTRYPOINT of the plan's own is left as it is.
func TestSpec_inImage(t *testing.T) {
	for name, tt := range map[string]struct {
		images                bool
		engine, engines, want string
	}{
		"on this machine":   {false, "llamacpp", "{}", "llama-server"},
		"in its image":      {true, "llamacpp", "{}", "/app/llama-server"},
		"begins with it":    {true, "vllm", "{}", "vllm"},
		"before 0.11":       {true, "vllm", `{vllm: {image: "vllm/vllm-openai:v0.10.2"}}`, "python3"},
		"an own command":    {true, "llamacpp", `{llamacpp: {command: [mine, "{{.Port}}"]}}`, "mine"},
		"an own entrypoint": {true, "llamacpp", "{llamacpp: {image: x, entrypoint: [mine]}}", "llama-server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plantest.Parse(t, "matrix: {engine: "+tt.engine+", concurrency: [1]}", "engines: "+tt.engines)
			spec, err := Spec(p, p.Deployments()[0], With{Sweep: "sweep", Images: tt.images})
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
