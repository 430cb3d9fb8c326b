package plan_test

import (
	"testing"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
)

// Requests are spread over replicas, ranks and servers that compute; frontends and routers
// have no copy of the model.
func TestCopies(t *testing.T) {
	t.Parallel()
	two, four := int64(2), int64(4)
	for name, c := range map[string]struct {
		engine string
		server plan.Server
		want   int
	}{
		"one":               {"vllm", plan.Server{}, 1},
		"tensors":           {"vllm", plan.Server{Args: []engine.Arg{{Name: "tensor-parallel-size", Value: four}}}, 1},
		"ranks":             {"vllm", plan.Server{Args: []engine.Arg{{Name: "tensor-parallel-size", Value: two}, {Name: "data-parallel-size", Value: four}}}, 4},
		"replicas":          {"dynamo", plan.Server{Roles: map[string]plan.Role{"worker": {Replicas: 3}}}, 3},
		"apart":             {"llm-d", plan.Server{}, 2},
		"no number of GPUs": {"vllm", plan.Server{Args: []engine.Arg{{Name: "data-parallel-size", Value: "many"}}}, 0},
	} {
		profile, ok := engine.Lookup(c.engine)
		if !ok {
			t.Fatalf("no profile %s", c.engine)
		}
		if got := c.server.Copies(profile); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
