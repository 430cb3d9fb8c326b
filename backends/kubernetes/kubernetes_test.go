package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
)

// Connections to the API server are kept for a while.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// A notebook is a ledger that keeps its states.
type notebook []string

func (b *notebook) Record(_ context.Context, t backends.Transition) error {
	*b = append(*b, string(t.State))
	return nil
}

// llmd returns the spec of an engine with the roles of llm-d.
func llmd() backends.Spec {
	spec := backends.Spec{Pod: "d-l01", Engine: "llm-d", Entry: "gateway"}
	for _, name := range []string{"prefill", "decode", "sidecar", "epp", "gateway"} {
		spec.Roles = append(spec.Roles, backends.Role{Name: name, Replicas: 1})
	}
	spec.Roles[2].MetricsFlag, spec.Roles[2].Containers = "metrics-port", []string{"routing-proxy"}
	return spec
}

// page returns a server of one role.
func page(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"version":"0.26.0"}`)
		case r.URL.Path == "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "half")
		case r.URL.Path != "/metrics":
			http.NotFound(w, r)
		default:
			fmt.Fprintf(w, "%s authorization=%q\n", text, r.Header.Get("Authorization"))
		}
	})
}

// attached returns a backend of the stack of pd.yaml, whose requests go to a server of the
// test's. The pods are reached through the API server.
func attached(t *testing.T, change func(*Config), denied ...string) (*Backend, *stacktest.Server, *httptest.Server) {
	t.Helper()
	api := stacktest.Start(t, "testdata/pd.yaml", denied...)
	api.Page("prefill-0", 17, page("prefill"))
	api.Page("decode-0", 18, page("decode"))
	api.Page("epp-0", 19, page("epp"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"m"}],"key":%q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	c := Config{Kubeconfig: api.Kubeconfig, Namespace: "ns", Attach: "pd", URL: server.URL}
	if change != nil {
		change(&c)
	}
	b, err := New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	b.every = pauses{connect: 5 * time.Second, poll: 10 * time.Millisecond}
	return b, api, server
}

func launch(t *testing.T, b *Backend) *deployment {
	t.Helper()
	var l notebook
	d, err := b.Launch(t.Context(), llmd(), &l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Stop(context.Background()), d.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if !slices.Equal(l, notebook{"intent", "created"}) {
		t.Errorf("ledger %v", l)
	}
	return d.(*deployment)
}

// read returns the metrics of a replica, or why they cannot be read.
func read(t *testing.T, d *deployment, role string) string {
	t.Helper()
	h, why := d.Metrics(role, 0)
	if why != "" {
		return why
	}
	return fmt.Sprintf("%s: %s", h.Path(), get(t, h, "/metrics"))
}

func get(t *testing.T, h host.Host, path string) string {
	t.Helper()
	client := netguard.Client(h.Dial, 10*time.Second)
	defer client.CloseIdleConnections()
	resp, err := client.Get(h.URL() + path)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// onThis gives the pods addresses of this machine, and a pod a port.
func onThis(api *stacktest.Server, ports map[string]string) {
	api.Edit("Pod", "ns", func(pods []any) []any {
		for _, p := range pods {
			pod := p.(map[string]any)
			pod["status"].(map[string]any)["podIP"] = "127.0.0.1"
			name := pod["metadata"].(map[string]any)["name"].(string)
			if port := ports[name]; port != "" {
				n, _ := strconv.Atoi(port)
				c := pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
				c["ports"], c["args"] = []any{map[string]any{"name": "metrics", "containerPort": n}}, []any{}
			}
		}
		return pods
	})
}

// A launch finds the roles, reads their metrics through the API server, and knows what
// the stack is. It changes nothing.
func TestLaunch(t *testing.T) {
	b, api, server := attached(t, func(c *Config) { c.Key = secret.New("${K}", "sk-1") })
	if err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := launch(t, b)
	var roles []string
	for _, r := range d.Roles() {
		roles = append(roles, fmt.Sprintf("%s %d", r.Name, r.Replicas))
	}
	if got := strings.Join(roles, ", "); got != "prefill 1, decode 1, epp 1, gateway 1" {
		t.Errorf("roles %s", got)
	}
	if h := d.Host("gateway", 0); h.URL() != server.URL || d.Host("decode", 0).URL() != "http://127.0.0.2:18" {
		t.Errorf("hosts %s, %s", h.URL(), d.Host("decode", 0).URL())
	}
	for role, want := range map[string]string{
		"prefill": `proxy: prefill authorization=""`, "decode": `proxy: decode authorization=""`, "epp": `proxy: epp authorization=""`, "gateway": "the stack has no pod of it",
	} {
		if got := read(t, d, role); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
	terms := d.Terms()
	if terms.GPU != "h100" || terms.GPUs != 3 || terms.Version != "0.26.0" || terms.Ref.Name != "ns/inferencepool/pd" ||
		terms.ImageDigest != "decode/modelserver=sha256:aa decode/routing-proxy=sha256:cc prefill/modelserver=sha256:aa router/epp=sha256:ee" {
		t.Errorf("terms %+v", terms)
	}
	if len(terms.Findings) != 1 || !strings.Contains(terms.Findings[0].Text, "routing-proxy of decode-0 was restarted 2 times") {
		t.Errorf("findings %+v", terms.Findings)
	}
	h := http.Header{}
	b.Authorize(h)
	if len(h) > 0 {
		t.Error("the backend adds headers for every host")
	}
	if d.Authorize(h); h.Get("Authorization") != "Bearer sk-1" {
		t.Errorf("headers %v", h)
	}
	for _, asked := range api.Asked() {
		if !strings.HasPrefix(asked, "GET ") && asked != "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
			t.Errorf("it asked %s", asked)
		}
	}
	asked := len(api.Asked())
	if err := b.Terminate(t.Context(), terms.Ref); err != nil || len(api.Asked()) > asked {
		t.Errorf("to end what is somebody else's it asked %v, %v", api.Asked()[asked:], err)
	}
}

// An engine of one role has the pods that answer requests, and the entry is their address.
// Those that it has no role for are said.
func TestLaunch_oneRole(t *testing.T) {
	b, _, server := attached(t, nil)
	dep, err := b.Launch(t.Context(), backends.Spec{Pod: "d-l01", Engine: "vllm", Entry: "server", Roles: []backends.Role{{Name: "server", Replicas: 1}}}, new(notebook))
	if err != nil {
		t.Fatal(err)
	}
	d := dep.(*deployment)
	t.Cleanup(func() { _ = d.Stop(context.Background()) })
	if roles := d.Roles(); len(roles) != 1 || roles[0].Replicas != 1 {
		t.Errorf("roles %+v", roles)
	}
	if got := read(t, d, "server"); !strings.HasPrefix(got, "proxy: decode ") || d.Host("server", 0).URL() != server.URL {
		t.Errorf("%s, %s", got, d.Host("server", 0).URL())
	}
	findings := d.Terms().Findings
	if i := slices.IndexFunc(findings, func(f result.Finding) bool { return f.Code.String() == "stack_role" }); i < 0 || !strings.Contains(findings[i].Text, "vllm of the plan has no role for the pods of prefill,") {
		t.Errorf("findings %+v", findings)
	}
	row, _ := d.Watch(t.Context())(t.Context())
	if row["pods"] != int64(3) || len(row) != 2 {
		t.Errorf("row %v", row)
	}
}

// A pod that is reached is read directly, and the token goes to the endpoint picker alone.
func TestMetrics_direct(t *testing.T) {
	b, api, _ := attached(t, func(c *Config) { c.MetricsToken = secret.New("${T}", "epp-1") })
	ports := map[string]string{}
	for _, name := range []string{"epp-0", "decode-0"} {
		s := httptest.NewServer(page("direct " + name))
		t.Cleanup(s.Close)
		u, _ := url.Parse(s.URL)
		ports[name] = u.Port()
	}
	onThis(api, ports)
	d := launch(t, b)
	for role, want := range map[string]string{
		"epp": `direct: direct epp-0 authorization="Bearer epp-1"`, "decode": `direct: direct decode-0 authorization=""`,
	} {
		if got := read(t, d, role); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
	if p := d.Host("gateway", 0).Path(); p != host.Direct {
		t.Errorf("a stack on this machine is reached by %s", p)
	}
}

// A sidecar whose metrics are on is a role of its own, and no engine.
func TestMetrics_sidecar(t *testing.T) {
	b, api, _ := attached(t, nil)
	api.Edit("Pod", "ns", func(pods []any) []any {
		c := pods[2].(map[string]any)["spec"].(map[string]any)["initContainers"].([]any)[0].(map[string]any)
		c["args"] = []any{"--port=8000", "--metrics-port", "20"}
		return pods
	})
	api.Page("decode-0", 20, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"version":"of the sidecar"}`)
			return
		}
		page("sidecar").ServeHTTP(w, r)
	}))
	d := launch(t, b)
	var roles []string
	for _, r := range d.Roles() {
		roles = append(roles, fmt.Sprintf("%s %d", r.Name, r.Replicas))
	}
	if got := strings.Join(roles, ", "); got != "prefill 1, decode 1, sidecar 1, epp 1, gateway 1" {
		t.Errorf("roles %s", got)
	}
	for role, want := range map[string]string{"sidecar": `proxy: sidecar authorization=""`, "decode": `proxy: decode authorization=""`} {
		if got := read(t, d, role); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
	if v := d.Terms().Version; v != "0.26.0" {
		t.Errorf("the engines have the release %s", v)
	}
	row, _ := d.Watch(t.Context())(t.Context())
	if row["pods"] != int64(3) || row["decode_pods"] != int64(1) || row["sidecar_pods"] != nil {
		t.Errorf("row %v", row)
	}
}

// The relay passes on whole answers to GET, for pods that it knows.
func TestRelay(t *testing.T) {
	b, _, _ := attached(t, nil)
	d := launch(t, b)
	h, _ := d.Metrics("decode", 0)
	if got := get(t, h, "/cut"); !strings.Contains(got, "EOF") {
		t.Errorf("a part is taken for the whole: %q", got)
	}
	client := netguard.Client(h.Dial, 10*time.Second)
	defer client.CloseIdleConnections()
	resp, err := client.Post(h.URL()+"/reset_prefix_cache", "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", resp.Status)
	}
	if got := get(t, h, "/absent"); !strings.Contains(got, "404") {
		t.Errorf("a path that is not there: %s", got)
	}
	_ = d.Stop(t.Context())
	if got := get(t, h, "/metrics"); !strings.Contains(got, "closed") {
		t.Errorf("after the end: %s", got)
	}
}

// Missing rights are named.
func TestDenied(t *testing.T) {
	b, _, _ := attached(t, nil, "pods")
	if err := b.Probe(t.Context()); !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "may not list pods in namespace ns") || !strings.Contains(err.Error(), "--print-role") {
		t.Error(err)
	}
	b, _, _ = attached(t, nil, "proxy", "nodes")
	d := launch(t, b)
	if got := read(t, d, "decode"); !strings.Contains(got, "decode-0: ") || !strings.Contains(got, "may not get pods/proxy") {
		t.Error(got)
	}
	if terms := d.Terms(); terms.GPU != "" || terms.GPUs != 3 || terms.Version != "" {
		t.Errorf("terms %+v", terms)
	}
}

// A stack without a ready engine, and one that cannot be reached, are errors that say so.
func TestLaunch_not(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for want, change := range map[string]func(*Config, *stacktest.Server){
		"no ready pod of an engine": func(_ *Config, api *stacktest.Server) {
			api.Edit("Pod", "ns", func(pods []any) []any {
				for _, p := range pods {
					p.(map[string]any)["status"].(map[string]any)["conditions"] = []any{}
				}
				return pods
			})
		},
		"leads to no pod":            func(_ *Config, api *stacktest.Server) { api.Edit("Pod", "ns", func([]any) []any { return nil }) },
		"named nothing":              func(c *Config, _ *stacktest.Server) { c.Attach = "nothing" },
		"a port-forward will not do": func(c *Config, _ *stacktest.Server) { c.URL = "" },
		"no cluster is configured":   func(c *Config, _ *stacktest.Server) { c.Kubeconfig = "testdata/none" },
	} {
		api := stacktest.Start(t, "testdata/pd.yaml")
		c := Config{Kubeconfig: api.Kubeconfig, Namespace: "ns", Attach: "pd", URL: server.URL}
		change(&c, api)
		b, err := New(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Launch(t.Context(), llmd(), new(notebook))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Manifests for another namespace, or that are none, are refused with their place. What is
// made outlives sweep, and what runs already does not.
func TestNew_manifests(t *testing.T) {
	t.Parallel()
	files := func(text string) []manifest.File { return []manifest.File{{Name: "stack.yaml", Text: []byte(text)}} }
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: a"
	for text, want := range map[string]string{
		service + ", namespace: other}": "stack.yaml:3:32: Service/a is for namespace other, and the backend's is ns",
		service + ", finalizers: [x]}":  "stack.yaml:3:21: Service/a has a finalizer",
		service + "}":                   "",
		service + ", namespace: ns}":    "",
	} {
		_, err := New(nil, Config{Namespace: "ns", Attach: "a", Manifests: files(text)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, c := range []Config{{Namespace: "ns", Attach: "a"}, {Namespace: "ns", Attach: "a", Manifests: files(service + "}")}} {
		f := Factory(nil).Under(func(into any) error { *into.(*Config) = c; return nil })
		if makes := len(c.Manifests) > 0; f.Outlives != makes || f.Applies != makes || (f.Launch > 0) != makes || !f.Given {
			t.Errorf("%d files: %+v", len(c.Manifests), f)
		}
	}
}

// restart counts one more start of a pod's container.
func restart(pods []any) []any {
	s := pods[2].(map[string]any)["status"].(map[string]any)["containerStatuses"].([]any)[0].(map[string]any)
	s["restartCount"] = 1
	s["lastState"] = map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}
	return pods
}

// A change of the pods during a trial is found, also one that is over at its end.
func TestWatch(t *testing.T) {
	ready := func(value string) func([]any) []any {
		return func(pods []any) []any {
			pods[1].(map[string]any)["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": value}}
			return pods
		}
	}
	for name, tt := range map[string]struct {
		change, back func([]any) []any
		broken       bool
		restored     bool // before the end of the trial
		code         string
		want         []string
	}{
		"at rest":   {code: "tunnelled"}, // the pods are elsewhere, and the entry is here
		"restarted": {change: restart, code: "stack_changed", want: []string{"decode: container modelserver of decode-0 was restarted 1 time (last end: OOMKilled, exit code 137)"}},
		"gone":      {change: func(pods []any) []any { return pods[:2] }, code: "stack_changed", want: []string{"decode: pod decode-0 is gone"}},
		"all gone":  {change: func([]any) []any { return nil }, code: "stack_changed", want: []string{"no pod is left"}},
		"a moment":  {change: ready("False"), back: ready("True"), code: "stack_changed", want: []string{"pod prefill-0 is not ready any more"}},
		"replaced": {change: func(pods []any) []any {
			meta := pods[2].(map[string]any)["metadata"].(map[string]any)
			meta["uid"], meta["labels"].(map[string]any)["pod-template-hash"] = "other", "d2"
			return pods
		}, code: "stack_changed", want: []string{"pod decode-0 is gone", "pod decode-0 is new, of revision d2 after d1: a rollout"}},
		"relabelled": {change: func(pods []any) []any {
			labels := func(i int) map[string]any {
				return pods[i].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)
			}
			labels(2)["llm-d.ai/role"] = labels(1)["llm-d.ai/role"]
			return pods
		}, code: "stack_changed", want: []string{"decode: pod decode-0 is of role prefill now"}},
		"no answer": {broken: true, code: "stack_unwatched", want: []string{"could not be looked at after the trial", "500"}},
		// The pods before and after prove that nothing changed.
		"no answer in between": {broken: true, restored: true, code: "tunnelled"},
		"restarted in between": {change: restart, broken: true, restored: true, code: "stack_changed", want: []string{"was restarted 1 time"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, api, _ := attached(t, nil)
			d := launch(t, b)
			finish := d.Watch(t.Context())
			looks := func() int { return strings.Count(strings.Join(api.Asked(), "\n"), "GET /api/v1/namespaces/ns/pods\n") }
			if tt.change != nil {
				api.Edit("Pod", "ns", tt.change)
			}
			if tt.broken {
				api.Break(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			}
			n := looks()
			polltest.Until(t, "three more looks are taken", func() bool { return looks() > n+2 })
			if tt.back != nil {
				api.Edit("Pod", "ns", tt.back)
			}
			if tt.restored {
				api.Break(nil)
			}
			row, findings := finish(t.Context())
			i := slices.IndexFunc(findings, func(f result.Finding) bool { return f.Code.String() == tt.code })
			if i < 0 {
				t.Fatalf("findings %+v", findings)
			}
			for _, want := range tt.want {
				if !strings.Contains(findings[i].Text, want) {
					t.Errorf("no %q in %s", want, findings[i].Text)
				}
			}
			if tt.code == "tunnelled" && len(findings) != 1 {
				t.Errorf("findings %+v", findings)
			}
			for column, want := range map[string]int64{"pods": 3, "pod_restarts": 2, "decode_pods": 1, "decode_pod_restarts": 2, "epp_pods": 1} {
				if row[column] != want {
					t.Errorf("%s is %v, want %d", column, row[column], want)
				}
			}
		})
	}
}

// Each trial finds the servers anew: a pod that came between two is read.
func TestWatch_again(t *testing.T) {
	b, api, _ := attached(t, nil)
	d := launch(t, b)
	api.Edit("Pod", "ns", func(pods []any) []any {
		more := map[string]any{
			"metadata": map[string]any{"name": "decode-1", "uid": "u-decode-1", "namespace": "ns", "labels": map[string]any{"llm-d.ai/guide": "pd", "llm-d.ai/role": "decode"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "modelserver", "args": []any{"--port=18"}}}},
			"status":   map[string]any{"phase": "Running", "podIP": "127.0.0.3", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		}
		return append(pods, more)
	})
	api.Page("decode-1", 18, page("decode-1"))
	finish := d.Watch(t.Context())
	h, why := d.Metrics("decode", 1)
	if why != "" {
		t.Fatal(why)
	}
	if got := get(t, h, "/metrics"); !strings.HasPrefix(got, "decode-1 ") {
		t.Error(got)
	}
	if _, findings := finish(t.Context()); slices.ContainsFunc(findings, func(f result.Finding) bool { return f.Code.String() == "stack_changed" }) {
		t.Errorf("findings %+v", findings)
	}
}

func TestNew(t *testing.T) {
	for want, c := range map[string]Config{
		"":                             {Namespace: "llm-d", Attach: "inferencepool/pd", URL: "https://llm.example.com/pd/v1"},
		"no name of a namespace":       {Namespace: "llm_d", Attach: "pd"},
		"sweep probe --kube llm-d":     {Namespace: "llm-d"},
		"no kind of object":            {Namespace: "llm-d", Attach: "deployment/pd"},
		"no name of an object":         {Namespace: "llm-d", Attach: "inferencepool/"},
		"url: want http://":            {Namespace: "llm-d", Attach: "pd", URL: "llm.example.com"},
		"write the whole path":         {Namespace: "llm-d", Attach: "pd", Kubeconfig: "~/.kube/other"},
		"url: link-local":              {Namespace: "llm-d", Attach: "pd", URL: "http://169.254.169.254"},
		"key: want a reference":        {Namespace: "llm-d", Attach: "pd", Key: secret.New("sk-1", "sk-1")},
		"metrics_token: want a refere": {Namespace: "llm-d", Attach: "pd", MetricsToken: secret.New("t", "t")},
		"headers: host is":             {Namespace: "llm-d", Attach: "pd", Headers: map[string]secret.String{"host": secret.New("x", "x")}},
	} {
		b, err := New(nil, c)
		switch {
		case want == "" && (err != nil || b.url.String() != "https://llm.example.com/pd" || b.PlainTCP()):
			t.Errorf("%+v, %v", b, err)
		case want == "url: link-local":
			if err == nil || !strings.Contains(err.Error(), "allow_link_local") {
				t.Error(err)
			}
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", want, err)
		}
	}
}
