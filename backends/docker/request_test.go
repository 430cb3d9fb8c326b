package docker_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/docker"
	"sweep.dev/sweep/internal/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRequest_golden: a change of what is asked of the daemon is a change of
// these files. What is the bootstrap's own, and what is random, is cut short.
func TestRequest_golden(t *testing.T) {
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, test := range []struct {
		name       string
		config     func(*docker.Config)
		spec       func(*backends.Spec)
		entrypoint []string // the image's
	}{
		{name: "plain", config: func(c *docker.Config) { c.DeadMan = false }},
		{name: "gpus", config: func(c *docker.Config) {
			c.Memory, c.ShmSize, c.User, c.Network = "64GiB", "16g", "1000:1000", "bench"
			c.Mounts = []string{"hf-cache:/root/.cache/huggingface", "/data:/data:ro"}
			c.Env = map[string]secret.String{"HF_TOKEN": secret.New("${HF_TOKEN}", "canary")}
			c.GPUs = []string{"GPU-fef8089b", "1"}
		}, spec: func(s *backends.Spec) { s.Roles[0].GPUs = 2 }},
		{name: "several", entrypoint: []string{"/opt/nvidia/nvidia_entrypoint.sh"}, spec: func(s *backends.Spec) {
			s.Roles[0].Entrypoint, s.Roles[0].Replicas = nil, 2
			worker := s.Roles[0]
			worker.Name, worker.Ports = "decode", map[string]int{"nixl": 0, "admin": 9000}
			worker.Argv = func(a backends.Address) ([]string, error) {
				return []string{"engine", "--at", a.Listen(), "--first", a.Peers["server"][0].String(), "--own", a.Peers["decode"][1].String(), "--dir", a.Dir}, nil
			}
			s.Roles = append(s.Roles, worker)
		}},
		{name: "files", spec: func(s *backends.Spec) {
			s.Roles[0].Extra = func(a backends.Address) (backends.Extra, error) {
				return backends.Extra{
					Env:   map[string]string{"CONFIG": a.Dir + "/args.yaml", "VLLM_NO_USAGE_STATS": "not the role's"},
					Files: map[string][]byte{"args.yaml": []byte("a: \"$b\"\n"), "empty": nil},
				}, nil
			}
			s.Roles[0].Argv = func(a backends.Address) ([]string, error) {
				return []string{"engine", "--config", a.Dir + "/args.yaml"}, nil
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.starts, f.entrypoint = true, test.entrypoint
			b := f.backend(t, func(c *docker.Config) {
				if test.config != nil {
					test.config(c)
				}
			})
			spec := backends.Spec{
				Owner: "acme", RunID: "7f3a9c", Pod: "d1-l01", Engine: "vllm", GPU: "any", GPUs: 2, Digest: "d1gest",
				Grace: 30 * time.Second, Expires: expires,
				Roles: []backends.Role{{
					Name: "server", Replicas: 1, Image: "vllm/vllm-openai:v0.29.0", Entrypoint: []string{"vllm", "serve"},
					Env: map[string]string{"VLLM_NO_USAGE_STATS": "1"}, CPUs: []int{0, 2},
					Argv: func(a backends.Address) ([]string, error) {
						return []string{"vllm", "serve", "m", "--host", a.Listen(), "--port", "8000"}, nil
					},
				}},
			}
			if test.spec != nil {
				test.spec(&spec)
			}
			var l backendtest.Ledger
			d, err := b.Launch(t.Context(), spec, &l)
			if err != nil {
				t.Fatal(err)
			}
			stop(t, d)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.groups) != 0 {
				t.Errorf("left: %v", f.groups)
			}
			last := f.creates[len(f.creates)-1]
			shorten(t, last, l.Transitions()[0].Name, expires)
			last["HostConfig"] = meaning(t, last["HostConfig"])
			got, err := json.MarshalIndent(meaning(t, last), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = []byte(strings.ReplaceAll(string(got), l.Transitions()[0].Name, "NAME"))
			path := "testdata/" + test.name + ".json"
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// random are the variables whose values differ from run to run.
var random = regexp.MustCompile(`^(SWEEP_TOKEN|SWEEP_LIFETIME|SWEEP_EXPIRES)=.+`)

// shorten replaces what belongs to package bootstrap, and what is random.
func shorten(t *testing.T, request map[string]any, name string, expires time.Time) {
	t.Helper()
	whole, env := bootstrap.Command(bootstrap.Options{Argv: []string{"x"}, AgentPort: 1})
	if !strings.Contains(whole[2], "sweep") {
		t.Fatalf("the bootstrap is %q", whole)
	}
	for _, key := range []string{"Entrypoint", "Cmd", "Env"} {
		list, _ := request[key].([]any)
		for i, v := range list {
			text, _ := v.(string)
			if k, value, _ := strings.Cut(text, "="); k == "SWEEP_AGENT_PY" && value == env[k] {
				list[i] = k + "=(the agent)"
			} else if text == whole[2] {
				list[i] = "(the bootstrap)"
			} else {
				list[i] = random.ReplaceAllString(text, "$1=(differs)")
			}
		}
	}
	if labels, ok := request["Labels"].(map[string]any); ok {
		labels["dev.sweep.expires"] = "(differs)"
	}
}

// meaning leaves out what is zero, of which the API has a hundred.
func meaning(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(m, func(_ string, v any) bool {
		switch v := v.(type) {
		case nil:
			return true
		case string:
			return v == ""
		case float64:
			return v == 0
		case bool:
			return !v
		case []any:
			return len(v) == 0 || slices.Equal(v, []any{0.0, 0.0})
		}
		return false
	})
	return m
}
