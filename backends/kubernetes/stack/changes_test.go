package stack

import (
	"slices"
	"testing"
)

// TestMetricsPort reads manifests as charts make them.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		c    Container
		want int
	}{
		"endpoint picker": {Container{Ports: []Port{{"grpc", 9002}, {"grpc-health", 9003}, {"metrics", 9090}}}, 9090},
		"dynamo worker":   {Container{Ports: []Port{{"system", 9090}, {"nixl", 19090}}}, 9090},
		"a script":        {Container{Command: []string{"bash", "-c"}, Args: []string{"exec vllm serve m \\\n --port 8200 --seed 1"}, Ports: []Port{{"", 5600}}}, 8200},
		"joined":          {Container{Args: []string{"--metrics_port=9091", "--port=9002"}}, 9091},
		"named http":      {Container{Ports: []Port{{"nixl", 5600}, {"http", 8000}}}, 8000},
		"the first":       {Container{Ports: []Port{{"grpc", 9002}, {"", 8200}}}, 8200},
		"no number":       {Container{Args: []string{"--port", "$(PORT)"}}, 0},
		"none":            {Container{Ports: []Port{{"grpc", 9002}}}, 0},
	} {
		if got := tt.c.MetricsPort(); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// A container beside another has metrics of its own with a flag alone.
func TestFlagPort(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		c    Container
		want int
	}{
		"off":                 {Container{Args: []string{"--port=8000"}, Ports: []Port{{"http", 8000}}}, 0},
		"told to be off":      {Container{Args: []string{"--metrics-port=0"}}, 0},
		"on":                  {Container{Args: []string{"--port=8000", "--metrics-port", "9400"}, Ports: []Port{{"", 8000}}}, 9400},
		"another is named":    {Container{Args: []string{"--metrics-port=9400"}, Ports: []Port{{"metrics", 8000}}}, 9400},
		"in a file":           {Container{Args: []string{"--configuration-file=/c.yaml"}, Ports: []Port{{"http", 8000}, {"Metrics", 9400}}}, 9400},
		"that takes requests": {Container{Args: []string{"--port=8000"}, Ports: []Port{{"metrics", 8000}}}, 0},
	} {
		if got := tt.c.FlagPort("metrics-port"); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestChanges compares stacks in which one thing differs.
func TestChanges(t *testing.T) {
	t.Parallel()
	of := func(pods ...Pod) *Stack { return &Stack{Roles: []Role{{Name: "decode", Pods: pods}}} }
	a := Pod{Name: "a", UID: "1", Ready: true, Revision: "x", Containers: []Container{{Name: "c", Restarts: 1}}}
	again, tired := a, a
	again.Containers = []Container{{Name: "c", Restarts: 3, LastEnd: "Error, exit code 3"}, {Name: "new", Restarts: 1}}
	tired.Ready, tired.State = false, "CrashLoopBackOff"
	other := Pod{Name: "b", UID: "2", Revision: "y"}
	for name, tt := range map[string]struct {
		before, after *Stack
		want          []string
	}{
		"same":      {of(a), of(a), nil},
		"restarted": {of(a), of(again), []string{"decode: container c of a was restarted 2 times (last end: Error, exit code 3)"}},
		"not ready": {of(a), of(tired), []string{"decode: pod a is not ready any more (CrashLoopBackOff)"}},
		"ready":     {of(tired), of(a), []string{"decode: pod a became ready"}},
		"rollout":   {of(a), of(a, other), []string{"decode: pod b is new, of revision y after x: a rollout"}},
		"gone":      {of(a, other), of(a), []string{"decode: pod b is gone"}},
		"other":     {of(a), of(), []string{"decode: pod a is gone"}},
	} {
		if got := Changes(tt.before, tt.after); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
