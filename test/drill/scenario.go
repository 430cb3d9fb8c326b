package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
)

// A scenario is one run and what happens to it. Its text replays it.
type scenario struct {
	class  string   // what it is counted as
	kill   string   // where the run is killed: a rule of SWEEP_FAULT without its action
	again  string   // where the command after it is killed
	faults []string // of the emulator
	signal string   // NAME@N: sent to the run at the Nth request that the emulator gets
	net    string   // backend.network; "" is auto
	beat   time.Duration
	life   time.Duration // budget.max_pod_lifetime
	cost   float64       // budget.max_cost
	keep   bool          // run --keep-pod
	pods   int           // deployments at once; 0 is 3
	then   []step        // who cleans up
}

// A step is what happens after the run.
type step string

const (
	stepResume    step = "resume"    // until the grid is complete
	stepGC        step = "gc"        // on the same machine
	stepLost      step = "lostgc"    // on another machine: neither ledger nor run directory
	stepRemove    step = "rmrun"     // the run directory is deleted
	stepTear      step = "tear"      // the journal's last line is cut in half
	stepBeat      step = "beat"      // nothing is done: the pods miss their heartbeat
	stepLife      step = "life"      // nothing is done: the pods reach their lifetime
	stepAdopt     step = "adopt"     // another run of the same plan takes the kept pods over
	stepTerminate step = "terminate" // a person ends what is there
	stepStop      step = "stop"      // a person stops what is there
	stepStart     step = "start"     // a person starts what is there
)

func steps() []step {
	return []step{
		stepResume, stepGC, stepLost, stepRemove, stepTear, stepBeat, stepLife,
		stepAdopt, stepTerminate, stepStop, stepStart,
	}
}

func (s scenario) String() string {
	var parts []string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+"="+value)
		}
	}
	duration := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	add("kill", s.kill)
	add("again", s.again)
	add("faults", strings.Join(s.faults, "+"))
	add("signal", s.signal)
	add("net", s.net)
	add("beat", duration(s.beat))
	add("life", duration(s.life))
	if s.cost > 0 {
		add("cost", strconv.FormatFloat(s.cost, 'g', -1, 64))
	}
	if s.keep {
		add("keep", "yes")
	}
	if s.pods > 0 {
		add("pods", strconv.Itoa(s.pods))
	}
	var then []string
	for _, t := range s.then {
		then = append(then, string(t))
	}
	add("then", strings.Join(then, "+"))
	return s.class + "/" + strings.Join(parts, ",")
}

// parseScenario reads what String has written.
func parseScenario(text string) (s scenario, err error) {
	class, rest, ok := strings.Cut(text, "/")
	if !ok {
		return s, fmt.Errorf("scenario %q: want CLASS/KEY=VALUE and more of them", text)
	}
	s.class = class
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(part, "=")
		var bad error
		switch key {
		case "kill":
			s.kill = value
		case "again":
			s.again = value
		case "faults":
			s.faults = strings.Split(value, "+")
		case "signal":
			s.signal = value
		case "net":
			s.net = value
		case "beat":
			s.beat, bad = time.ParseDuration(value)
		case "life":
			s.life, bad = time.ParseDuration(value)
		case "cost":
			s.cost, bad = strconv.ParseFloat(value, 64)
		case "keep":
			s.keep = value == "yes"
		case "pods":
			s.pods, bad = strconv.Atoi(value)
		case "then":
			for name := range strings.SplitSeq(value, "+") {
				s.then = append(s.then, step(name))
			}
		default:
			bad = fmt.Errorf("it has no key %q", key)
		}
		if bad != nil {
			return s, fmt.Errorf("scenario %q: %w", text, bad)
		}
	}
	return s, s.check()
}

func (s scenario) check() error {
	for _, f := range s.faults {
		if _, err := runpodtest.ParseFault(f); err != nil {
			return fmt.Errorf("scenario %s: %w", s, err)
		}
	}
	for _, t := range s.then {
		if !slices.Contains(steps(), t) {
			return fmt.Errorf("scenario %s: no step is called %q", s, t)
		}
	}
	return nil
}

// A shape is what a plan has beside what a scenario says of it.
type shape struct {
	gpus  []string
	seqs  []int  // an argument of the server: each is a deployment, the second not on the second GPU
	load  string // how much is asked in each cell
	poll  time.Duration
	calls int // in a minute
}

// plan returns the plan that the scenario runs: three deployments over two GPUs, two
// cells each, over in about a second if nothing disturbs it.
func (s scenario) plan(proxyURL string) string {
	return s.shaped(proxyURL, shape{
		gpus: []string{"rtx-2000-ada", "l4"}, seqs: []int{8, 16}, load: fmt.Sprintf("requests: %d", requests),
		poll: 100 * time.Millisecond, calls: 6000,
	})
}

func (s scenario) shaped(proxyURL string, x shape) string {
	exclude := ""
	if len(x.gpus) > 1 {
		exclude = fmt.Sprintf("  exclude: [\"gpu == '%s' and arg_max_num_seqs == %d\"]\n", x.gpus[1], x.seqs[1])
	}
	return fmt.Sprintf(`version: 1
name: drill
model: sweep/tiny
matrix:
  engine: vllm
  gpu: %s
  args.max-num-seqs: %s
  concurrency: [1, 2]
  max_tokens: 3
%sengines:
  vllm: {image: "vllm/vllm-openai:v0.29.0"}
backend:
  kind: runpod
  network: %s
  proxy_url: %q
  poll: %v
  patience: 3s
  pull: 10s
  heartbeat: %v
  calls_per_minute: %d
  env: {HF_TOKEN: "${HF_TOKEN}"}
budget: {max_cost: %g, max_time: 5m, max_pod_lifetime: %v}
timeouts: {launch: 60s, ready: 15s, request: 20s, stop: 5s}
load:
  %s
  warmup: {requests: 1}
  prompts: {kind: synthetic, input_tokens: 20}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
collect: [{prom: {interval: 200ms}}, gpu, proc]
sinks: [parquet, csv: {columns: full}]
`, list(x.gpus), list(x.seqs), exclude, cmp.Or(s.net, "auto"), proxyURL, x.poll, cmp.Or(s.beat, time.Minute), x.calls,
		cmp.Or(s.cost, 1), cmp.Or(s.life, 30*time.Minute), x.load)
}

// list returns a list in YAML.
func list[T any](values []T) string {
	var text []string
	for _, v := range values {
		text = append(text, fmt.Sprint(v))
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// The sizes of the plan.
const (
	deployments = 3
	trials      = 6
	requests    = 4
)
