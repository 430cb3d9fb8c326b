package outbound_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/backends"
	backendlist "sweep.dev/sweep/backends/all"
	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// environment is that of the user of the plans here.
var environment = map[string]string{
	"RUNPOD_API_KEY": "canary-rp", "HF_TOKEN": "canary-hf", "SWEEP_API_KEY": "canary-key", "OTHER_TOKEN": "canary-other",
	"SWEEP_TENANT": "tenant", "SWEEP_PORT": "8000", "SWEEP_HOST": "own.example.com", "SWEEP_URL": "https://own.example.com/v1",
}

func lookup(name string) (string, bool) {
	v, ok := environment[name]
	return v, ok
}

// sends checks a plan as the command line does. Its answer is what leaves, with ? where the
// user is asked, or what is refused.
func sends(t *testing.T, text string, own map[string]string, permits ...string) string {
	t.Helper()
	env := func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, ok
		}
		return lookup(name)
	}
	p, err := planfile.Parse("plan.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), LookupEnv: env, AllowEnv: []string{"OTHER_TOKEN"}})
	if d, ok := plan.IsDiagnostics(err); ok {
		return "plan: " + d.List[0].Message
	}
	if err != nil {
		t.Fatal(err)
	}
	var to backends.Destinations
	for _, f := range backendlist.Factories(nil) {
		if f.Kind != p.Backend.Kind {
			continue
		}
		b, err := f.Under(p.Backend.Decode).New(p.Backend.Decode)
		if err != nil {
			return "backend: " + err.Error()
		}
		if o, ok := b.(backends.Outbound); ok {
			if to, err = o.Destinations(); err != nil {
				return "backend: " + err.Error()
			}
		}
	}
	list, err := outbound.ParsePermits(permits)
	if err != nil {
		t.Fatal(err)
	}
	images := func() ([]string, error) {
		return []string{"vllm/vllm-openai:v1", "r.example.com:5000/x@sha256:" + strings.Repeat("0", 64)}, nil
	}
	flows, err := outbound.Check(p, to, outbound.Policy{Permits: list, Env: env}, images)
	var texts []string
	for _, f := range flows {
		text := f.String()
		if f.Asks {
			text += "?"
		}
		texts = append(texts, text)
	}
	if d, ok := plan.IsDiagnostics(err); ok {
		for _, one := range d.List {
			texts = append(texts, "refused: "+one.Message)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.Join(texts, "; ")
}

// planOf returns a plan with some of its parts.
func planOf(parts ...string) string {
	text := "version: 1\nname: t\n"
	for _, usual := range []string{"model: m", "backend: sim", "matrix: {engine: vllm, concurrency: [1]}", "load: {requests: 2, max_tokens: 4, prompts: {input_tokens: 20}}"} {
		key, _, _ := strings.Cut(usual, " ")
		own := false
		for _, p := range parts {
			own = own || strings.HasPrefix(p, key)
		}
		if !own {
			text += usual + "\n"
		}
	}
	return text + strings.Join(parts, "\n") + "\n"
}

// gpu is the matrix of backends that start servers.
const gpu = "matrix: {engine: vllm, gpu: l4, concurrency: [1]}"

const at = `backend: {kind: endpoint, url: "https://llm.example.com", `

// TestCheck has one row for each kind of place, and each column of the table of who may
// have which variable.
func TestCheck(t *testing.T) {
	const (
		never  = "refused: RUNPOD_API_KEY must not go to a server that the plan starts in "
		rp     = "refused: RUNPOD_API_KEY would go to %s, and it goes to RunPod's API only"
		hf     = "refused: HF_TOKEN would go to %s, and it goes to Hugging Face's hosts only"
		llm    = "llm.example.com"
		engine = "matrix: {engine: vllm, gpu: l4, concurrency: [1]}\nengines: {vllm: {env: {X: '${%s}'}}}"
		run    = "backend: {kind: runpod, "
	)
	f := fmt.Sprintf
	for _, c := range []struct {
		name, plan, want string
		permits          []string
	}{
		// A key, a header or a body of a URL in the plan.
		{"key", planOf(at + `key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> llm.example.com?", nil},
		{"key of --allow-env", planOf(at + `key: "${OTHER_TOKEN}"}`), "OTHER_TOKEN -> llm.example.com?", nil},
		{"key permitted", planOf(at + `key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> llm.example.com", []string{"SWEEP_API_KEY=llm.example.com"}},
		{"key with a port permitted", planOf(at + `key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> llm.example.com", []string{"SWEEP_API_KEY=llm.example.com:443"}},
		{"key, another port", planOf(at + `key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> llm.example.com?", []string{"SWEEP_API_KEY=llm.example.com:8443"}},
		{"key, another variable", planOf(at + `key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> llm.example.com?", []string{"SWEEP_API=llm.example.com"}},
		{"header", planOf(at + `headers: {X-Tenant: "of ${SWEEP_TENANT}"}}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"header of the load", planOf(at+`}`, `load: {requests: 2, max_tokens: 4, headers: {X-A: "${SWEEP_API_KEY}"}, prompts: {input_tokens: 20}}`), "SWEEP_API_KEY -> llm.example.com?", nil},
		{"header of each request", planOf(at+`}`, `load: {requests: 2, max_tokens: 4, request_headers: {X-A: "${SWEEP_TENANT}-{n}"}, prompts: {input_tokens: 20}}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{
			"header of a named load", strings.Replace(planOf(at+`}`, "matrix: {engine: vllm}", `load: {headers: {X-A: "${SWEEP_API_KEY}"}, name: a, concurrency: 1, requests: 2, max_tokens: 4, prompts: {input_tokens: 20}}`), "load: {", "loads: [{", 1) + "]",
			"SWEEP_API_KEY -> llm.example.com?", nil,
		},
		{"body", planOf(at+`}`, `load: {requests: 2, max_tokens: 4, body: {user: "${SWEEP_TENANT}"}, prompts: {input_tokens: 20}}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"prompt", planOf(at+`}`, `load: {requests: 1, warmup: {requests: 0}, max_tokens: 4, prompts: {kind: inline, texts: ["${SWEEP_TENANT}", b]}}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"stop", planOf(at+`}`, `load: {requests: 2, max_tokens: 4, sampling: {stop: ["${SWEEP_TENANT}"]}, prompts: {input_tokens: 20}}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"model", planOf(at+`}`, "model: ${SWEEP_TENANT}"), "SWEEP_TENANT -> llm.example.com?", nil},
		{"path of the URL", planOf(`backend: {kind: endpoint, url: "https://llm.example.com/${SWEEP_TENANT}"}`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"path of the metrics", planOf(at+`}`, `collect: [{prom: {path: "/${SWEEP_TENANT}"}}]`), "SWEEP_TENANT -> llm.example.com?", nil},
		{"replica's metrics", planOf(at + `roles: {server: [{metrics: "http://10.0.0.9:81/${SWEEP_TENANT}"}]}}`), "SWEEP_TENANT -> 10.0.0.9:81?", nil},
		{"exporter of GPUs", planOf(`collect: [{gpu: {url: "http://10.0.0.9:9400/${SWEEP_TENANT}"}}]`), "SWEEP_TENANT -> 10.0.0.9:9400?", nil},
		{"body of an argument that is refused", planOf(at+`}`, `load: {requests: 2, max_tokens: 4, body: {user: "${SWEEP_API_KEY}"}, prompts: {input_tokens: 20}}`), "plan: ${SWEEP_API_KEY} is a credential and load.body.user is written to files", nil},
		{"argument", planOf("matrix: {engine: vllm, gpu: l4, concurrency: [1]}\nengines: {vllm: {args: {x: '${SWEEP_API_KEY}'}}}"), "plan: ${SWEEP_API_KEY} is a credential and engines.vllm.args.x is written to files", nil},
		{"loopback", planOf(`backend: {kind: endpoint, url: "http://127.0.0.1:8000", key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> 127.0.0.1:8000", nil},
		{"port", planOf(`backend: {kind: endpoint, url: "http://127.0.0.1:${SWEEP_PORT}", key: "${SWEEP_API_KEY}"}`), "SWEEP_PORT -> 127.0.0.1:8000; SWEEP_API_KEY -> 127.0.0.1:8000", nil},
		// The user's own host, and one that is only half the user's.
		{"own URL", planOf(`backend: {kind: endpoint, url: "${SWEEP_URL}"}`), "", nil},
		{"own host", planOf(`backend: {kind: endpoint, url: "https://${SWEEP_HOST}:8443/${SWEEP_TENANT}"}`), "SWEEP_TENANT -> own.example.com:8443?", nil},
		{"name in a host", planOf(`backend: {kind: endpoint, url: "https://${SWEEP_TENANT}.evil.example"}`), "refused: ${SWEEP_TENANT} is a part of the name of a host in backend.url", nil},
		{"user of a host", planOf(`backend: {kind: endpoint, url: "https://${SWEEP_TENANT}@evil.example"}`), "backend: backend endpoint: url: put credentials into key or headers, by reference (${NAME})", nil},
		{"host of ssh", planOf(gpu, `backend: {kind: ssh, host: "${SWEEP_TENANT}.evil.example"}`), "refused: ${SWEEP_TENANT} is a part of the name of a host in backend.host", nil},

		// RunPod's key.
		{"RunPod's key", planOf(at + `key: "${RUNPOD_API_KEY}"}`), f(rp, llm), nil},
		{"RunPod's key permitted", planOf(at + `key: "${RUNPOD_API_KEY}"}`), "RUNPOD_API_KEY -> llm.example.com", []string{"RUNPOD_API_KEY=llm.example.com"}},
		{"RunPod's key to RunPod's host as a header", planOf(`backend: {kind: endpoint, url: "https://api.runpod.io/x", headers: {X-A: "${RUNPOD_API_KEY}"}}`), f(rp, "api.runpod.io"), nil},
		{"RunPod's key on loopback", planOf(`backend: {kind: endpoint, url: "http://127.0.0.1:8000", key: "${RUNPOD_API_KEY}"}`), f(rp, "127.0.0.1:8000"), nil},
		{"RunPod's key, localhost for 127.0.0.1", planOf(`backend: {kind: endpoint, url: "http://localhost:8000", key: "${RUNPOD_API_KEY}"}`), f(rp, "localhost:8000"), []string{"RUNPOD_API_KEY=127.0.0.1:8000"}},
		{"RunPod's key in a server's environment", planOf(f(engine, "RUNPOD_API_KEY")), never + "engines.vllm.env.X", []string{"RUNPOD_API_KEY=127.0.0.1"}},
		{"RunPod's key in the environment of a role", planOf("matrix: {engine: dynamo, gpu: l4, concurrency: [1]}\nengines: {dynamo: {roles: {worker: {env: {X: '${RUNPOD_API_KEY}'}}}}}"), never + "engines.dynamo.roles.worker.env.X", nil},
		{"RunPod's key in the environment of all", planOf(gpu, "backend: {kind: process, env: {X: '${RUNPOD_API_KEY}'}}"), never + "backend.env.X", nil},
		{"RunPod's key in a header to a server", planOf(`load: {requests: 2, max_tokens: 4, headers: {X-A: "${RUNPOD_API_KEY}"}, prompts: {input_tokens: 20}}`), never + "load.headers.X-A", nil},
		{"the API", planOf(gpu, run+`key: "${RUNPOD_API_KEY}"}`), "", nil},
		{"the API's other host", planOf(gpu, run+`base_url: "https://evil.example/v2"}`), f(rp, "evil.example"), nil},
		{"the API's other host permitted", planOf(gpu, run+`base_url: "https://gate.example/v2"}`), "RUNPOD_API_KEY -> gate.example", []string{"RUNPOD_API_KEY=gate.example"}},
		{"the API's other host with another key", planOf(gpu, run+`base_url: "https://evil.example/v2", key: "${SWEEP_API_KEY}"}`), "SWEEP_API_KEY -> evil.example?", nil},
		{"the API with another's token", planOf(gpu, run+`key: "${HF_TOKEN}"}`), f(hf, "api.runpod.io"), nil},
		{"another proxy", planOf(gpu, run+`proxy_url: "https://evil.example/{pod}-{port}"}`, `load: {requests: 2, max_tokens: 4, headers: {X-A: "${SWEEP_API_KEY}"}, prompts: {input_tokens: 20}}`), "SWEEP_API_KEY -> evil.example?", nil},
		{"another proxy's names", planOf(gpu, run+`proxy_url: "https://{pod}-{port}.evil.example"}`), "backend: backend runpod: proxy_url: https://{pod}-{port}.evil.example is not RunPod's proxy: write {pod} and {port} behind the host, as in https://proxy.example.com/{pod}-{port}", nil},

		// Hugging Face's token.
		{"token", planOf(`backend: {kind: endpoint, url: "https://router.huggingface.co/v1", key: "${HF_TOKEN}"}`), "", nil},
		{"token elsewhere", planOf(at + `key: "${HF_TOKEN}"}`), f(hf, llm), nil},
		{"token permitted", planOf(at + `key: "${HF_TOKEN}"}`), "HF_TOKEN -> llm.example.com", []string{"HF_TOKEN=llm.example.com"}},
		{"token in a server's environment", planOf(f(engine, "HF_TOKEN")), "", nil},
		{"token in a header to a server", planOf(`load: {requests: 2, max_tokens: 4, headers: {X-A: "${HF_TOKEN}"}, prompts: {input_tokens: 20}}`), "refused: HF_TOKEN must not go to a server that the plan starts in load.headers.X-A", nil},

		// What a server is started with, and what stays here.
		{"server's environment", planOf(f(engine, "SWEEP_API_KEY")), "", nil},
		{"header to a server", planOf(`load: {requests: 2, max_tokens: 4, headers: {X-A: "${SWEEP_API_KEY}"}, prompts: {input_tokens: 20}}`), "", nil},
		{
			"registry", planOf(gpu, `backend: {kind: docker, registry: {username: "${SWEEP_TENANT}", password: "${SWEEP_API_KEY}"}}`),
			"SWEEP_TENANT -> docker.io?; SWEEP_TENANT -> r.example.com:5000?; SWEEP_API_KEY -> docker.io?; SWEEP_API_KEY -> r.example.com:5000?", nil,
		},
		{"registry with RunPod's key", planOf(gpu, `backend: {kind: docker, registry: {username: a, password: "${RUNPOD_API_KEY}"}}`), f(rp, "docker.io") + "; " + f(rp, "r.example.com:5000"), nil},
		{"passphrase", planOf(gpu, `backend: {kind: ssh, host: gpu.example.com, key: id, passphrase: "${SWEEP_API_KEY}"}`), "", nil},
		{"webhook", planOf(`on_finish: {webhook: {url: "${SWEEP_URL}"}}`), "", nil},
		{"webhook that is a token", planOf(`on_finish: {webhook: {url: "${HF_TOKEN}"}}`), "refused: ${HF_TOKEN} is no address, and stands in on_finish.webhook.url", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sends(t, c.plan, nil, c.permits...); got != c.want {
				t.Errorf("got  %s\nwant %s\nin\n%s", got, c.want, c.plan)
			}
		})
	}
}

// TestCheck_cluster: a stack's key goes where the plan says, else where the user's
// kubeconfig leads.
func TestCheck_cluster(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	const stack = `backend: {kind: kubernetes, namespace: a, attach: inferencepool/pd, `
	const matrix = "matrix: {engine: vllm, concurrency: [1]}"
	for text, want := range map[string]string{
		`key: "${SWEEP_API_KEY}", url: "https://llm.example.com"}`: "SWEEP_API_KEY -> llm.example.com?",
		`key: "${SWEEP_API_KEY}"}`:                                 "SWEEP_API_KEY -> kubernetes.default.svc?",
		`headers: {X-A: "${HF_TOKEN}"}}`:                           "refused: HF_TOKEN would go to kubernetes.default.svc, and it goes to Hugging Face's hosts only",
		`metrics_token: "${SWEEP_API_KEY}"}`:                       "SWEEP_API_KEY -> kubernetes.default.svc?",
	} {
		if got := sends(t, planOf(matrix, stack+text), nil); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	deploy := `backend: {kind: kubernetes, namespace: a, deploy: {env: {X: "${%s}"}}}`
	if got := sends(t, planOf(gpu, fmt.Sprintf(deploy, "SWEEP_API_KEY")), nil); got != "" {
		t.Errorf("environment of a pod: got %s", got)
	}
	if got := sends(t, planOf(gpu, fmt.Sprintf(deploy, "RUNPOD_API_KEY")), nil); !strings.Contains(got, "must not go to a server") {
		t.Errorf("environment of a pod: got %s", got)
	}
}

// TestCheck_alike has hosts that are the service's own, and those that only look like it.
func TestCheck_alike(t *testing.T) {
	for _, c := range []struct {
		url, own string
		ok       bool
	}{
		{"https://huggingface.co", "", true},
		{"https://HuggingFace.co/x", "", true},
		{"https://a.b.huggingface.co", "", true},
		{"https://huggingface.co:443", "", true},
		{"https://huggingface.co:8443", "", false},
		{"http://huggingface.co", "", false},
		{"https://evil-huggingface.co", "", false},
		{"https://huggingface.co.evil.net", "", false},
		{"https://huggingface.co.", "", false},
		{"https://.huggingface.co", "", false},
		{"https://xn--huggingfce-j8a.co", "", false},
		{"https://huggingfаce.co", "", false}, // a Cyrillic a
		{"https://hf.example.com", "https://hf.example.com", true},
		{"https://hf.example.com/x", "https://hf.example.com/y", true},
		{"http://hf.example.com", "http://hf.example.com", true},
		{"http://hf.example.com", "https://hf.example.com", false},
		{"https://a.hf.example.com", "https://hf.example.com", false},
		{"https://hf.example.com:444", "https://hf.example.com", false},
		{"https://evil.example.com", "", false},
	} {
		got := sends(t, planOf(`backend: {kind: endpoint, url: "`+c.url+`", key: "${HF_TOKEN}"}`), map[string]string{"HF_ENDPOINT": c.own})
		if (got == "") != c.ok {
			t.Errorf("%s with %q: got %q", c.url, c.own, got)
		}
	}
	for _, c := range []struct {
		base, own string
		ok        bool
	}{
		{"https://api.runpod.io/v2", "", true},
		{"https://v2-rest.runpod.dev/v2", "", true},
		{"http://127.0.0.1:8900", "", true},
		{"http://localhost:8900/v2", "", true},
		{"https://gateway.example.com/v2", "https://gateway.example.com", true},
		{"https://evil.example.com/v2", "", false},
		{"https://evil.example.com/v2", "https://gateway.example.com", false},
		{"https://gateway.example.com:444", "https://gateway.example.com", false},
		{"https://api.runpod.io:444", "", false},
		{"https://api.runpod.io.", "", false},
		{"https://runpod.io.example.com", "", false},
		{"https://evilrunpod.io", "", false},
	} {
		got := sends(t, planOf(gpu, `backend: {kind: runpod, base_url: "`+c.base+`"}`), map[string]string{"RUNPOD_API_BASE_URL": c.own})
		if (got == "") != c.ok {
			t.Errorf("%s with %q: got %q", c.base, c.own, got)
		}
	}
}

// TestPermit: a host is compared exactly, and a port means that port alone.
func TestPermit(t *testing.T) {
	for _, c := range []struct {
		permit, url string
		ok          bool
	}{
		{"llm.example.com", "https://llm.example.com", true},
		{"LLM.Example.com", "https://llm.example.COM", true},
		{"llm.example.com", "http://llm.example.com:8000", true},
		{"llm.example.com:8000", "http://llm.example.com:8000", true},
		{"llm.example.com:8000", "http://llm.example.com:8001", false},
		{"llm.example.com:443", "https://llm.example.com", true},
		{"llm.example.com:443", "http://llm.example.com", false},
		{"llm.example.com", "https://llm.example.com.evil.net", false},
		{"llm.example.com", "https://llm.example.com.", false},
		{"llm.example.com", "https://x.llm.example.com", false},
		{"example.com", "https://llm.example.com", false},
		{"llm.example.com", "https://llm-example.com", false},
		{"127.0.0.1", "http://localhost", false},
		{"localhost", "http://127.0.0.1", false},
		{"10.0.0.1", "http://10.1", false},
		{"10.0.0.1", "http://[::ffff:10.0.0.1]", false},
		{"[2001:db8::1]", "http://[2001:db8::1]", true},
		{"[2001:db8::1]:81", "http://[2001:db8::1]:81", true},
		{"[2001:db8::1]:81", "http://[2001:db8::1]", false},
		{"[2001:db8::1]", "http://[2001:db8:0::1]", false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got := sends(t, planOf(`backend: {kind: endpoint, url: "`+c.url+`", key: "${HF_TOKEN}"}`), nil, "HF_TOKEN="+c.permit)
		if (got == "HF_TOKEN -> "+outbound.HostOf(u).String()) != c.ok {
			t.Errorf("%s for %s: got %q", c.permit, c.url, got)
		}
	}
	for _, wrong := range []string{
		"", "A", "A=", "=h", "A=https://h", "A=h/x", "A=u@h", "A=h:", "A=h:0", "A=h:65536", "A=h:08", "A=*.h", "A=h.", "A=.h", "A=h h",
		"A=::1", "A=[::1", "A=[10.0.0.1]", "A=[::1]x", "A=huggingfаce.co", "A-B=h", "A=h=b",
	} {
		if p, err := outbound.ParsePermit(wrong); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, p)
		}
	}
}

// TestPlaceOf: a name with dots hides no place.
func TestPlaceOf(t *testing.T) {
	got := map[string]outbound.Kind{}
	for _, where := range []string{"backend.headers.a.b", "engines.a.b.env.C", "load.headers.X", "load.prompts.texts[12]", "backend.roles.a.b[0].metrics"} {
		p, ok := outbound.PlaceOf(where)
		if !ok {
			t.Errorf("%s is no place", where)
		}
		got[where] = p.Goes
	}
	want := map[string]outbound.Kind{
		"backend.headers.a.b": outbound.Request, "engines.a.b.env.C": outbound.Server, "load.headers.X": outbound.Request, "load.prompts.texts[12]": outbound.Request,
		"backend.roles.a.b[0].metrics": outbound.Address,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, where := range []string{"", "backend.unknown", "load.unknown.x", "name.x"} {
		if p, ok := outbound.PlaceOf(where); ok {
			t.Errorf("%q: got %+v", where, p)
		}
	}
}
