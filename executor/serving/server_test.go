package serving

import (
	"net/http"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// keyed is a deployment whose backend gave its engine a key.
type keyed struct{ backends.Deployment }

func (keyed) Authorize(h backends.Header) { h.Set("Authorization", "Bearer made") }

// A key that the plan gives an engine in its environment is sent to it; one that
// the backend made wins; and a server that sweep did not start has not got it.
func TestAuthorizer(t *testing.T) {
	t.Parallel()
	planned := map[string]secret.String{"VLLM_API_KEY": secret.New("${SWEEP_API_KEY}", "planned")}
	own := map[string]plan.Role{"server": {Env: map[string]secret.String{"VLLM_API_KEY": secret.Plain("own")}}}
	for name, c := range map[string]struct {
		engine string
		env    map[string]secret.String
		roles  map[string]plan.Role
		given  bool
		dep    backends.Deployment
		want   string
	}{
		"of the plan":        {engine: "vllm", env: planned, want: "Bearer planned"},
		"of the role":        {engine: "vllm", env: planned, roles: own, want: "Bearer own"},
		"of the backend":     {engine: "vllm", env: planned, dep: keyed{}, want: "Bearer made"},
		"none":               {engine: "vllm"},
		"a given server":     {engine: "vllm", env: planned, given: true},
		"another's variable": {engine: "sglang", env: planned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile, ok := engine.Lookup(c.engine)
			if !ok {
				t.Fatalf("no engine %s", c.engine)
			}
			d := &Servers{
				config:  &Config{Options: Options{Given: c.given}},
				of:      plan.Deployment{Server: plan.Server{Env: c.env, Roles: c.roles}},
				profile: profile,
			}
			h := http.Header{}
			d.authorizer(c.dep)(h)
			if got := h.Get("Authorization"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
