//go:build e2e_kube

package kube

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

// The shipped plan for llm-d, through a real Envoy that asks the picker over ext_proc, with
// two prefill and two decode servers.
func TestEnvoy(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	for user, token := range map[string]string{"reader": readerToken, "lister": listerToken} {
		if err := lab.kubeconfig(user, token); err != nil {
			t.Fatal(err)
		}
	}
	const ns = "pd"
	lab.envoy(t)
	lab.namespace(t, ns)
	lab.mayRead(t, sweep, ns)
	lab.mayList(t, sweep, ns)
	stack := read(t, "testdata/pd.yaml")
	lab.apply(t, ns, stack)
	lab.admitted(t, ns)
	t.Setenv("SWEEP_EPP_TOKEN", lab.token(t, ns, "metrics-reader"))

	dir := t.TempDir()
	// run runs the plan as a user, with five prompts, and returns its only row.
	run := func(t *testing.T, user, name string, args ...string) (out string, row result.Row, pairs []string) {
		t.Helper()
		out = filepath.Join(dir, name)
		pairs = lab.measured(t, user, out, "../../../plans/llm-d-pd.yaml", nil, slices.Concat(lenient, []string{
			"--set", "model=Qwen/Qwen2.5-7B-Instruct", "--set", "backend.namespace=" + ns, "--set", "matrix.max_tokens=32",
		}, args)...)
		return out, rows(t, out)[0], pairs
	}
	withToken := []string{"--set", "backend.attach=httproute/pd", "--set", "backend.metrics_token=${SWEEP_EPP_TOKEN}"}

	t.Run("told", func(t *testing.T) {
		out, row, pairs := run(t, "reader", "told", withToken...)
		findings, _ := row["findings"].(string)
		if row["status"] != result.StatusOK || strings.Contains(findings, "pairs") || strings.Contains(findings, "routing") || strings.Contains(findings, "logs") {
			t.Errorf("%v, findings %s: %v %v", row["status"], findings, row["invalid_reasons"], row["error"])
		}
		for column, want := range map[string]any{
			"pd": "proven", "pd_share": 1.0, "pods": int64(5), "prefill_pods": int64(2), "decode_pods": int64(2), "network_path": "direct",
			"epp_server_requests": row["decode_server_requests"], "prefill_server_requests": row["decode_server_requests"],
			"sidecar_server_requests": row["decode_server_requests"], "sidecar_metric_names_vllm": int64(0),
		} {
			if row[column] != want || want == nil {
				t.Errorf("%s is %v, want %v", column, row[column], want)
			}
		}
		// The sidecar waits for the prefill server, which is at work for a part of that time.
		waited, _ := row["sidecar_mean_server_prefill_ms"].(float64)
		if worked, _ := row["prefill_mean_server_prefill_ms"].(float64); waited <= 0 || worked > waited {
			t.Errorf("the sidecars waited %v ms for a prefill server, which was at work for %v ms", waited, worked)
		}
		if len(pairs) != 1 || !strings.Contains(pairs[0], "at most 8 completions of 1024 prompt tokens move a KV cache over 4 pairs") {
			t.Errorf("notices %q", pairs)
		}
		if first, second := lab.pairPrompts(t, out); first != 4 || second != 0 {
			t.Errorf("%d and %d prompts for the pairs, want one for each and no second round", first, second)
		}
		if passed := lab.throughEnvoy(t, ns); passed < 9 {
			t.Errorf("Envoy asked the picker of %d requests, want four for the pairs and five of the load", passed)
		}
		a := attempt(t, out, "t01")
		var routing struct {
			Requests  map[string]map[string]string
			Unprinted []any `json:"not_printed"`
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(a, "routing.json"))), &routing); err != nil || len(routing.Unprinted) > 0 || len(routing.Requests) != 5 {
			t.Errorf("routing.json: %v, %d requests, not printed: %v", err, len(routing.Requests), routing.Unprinted)
		}
		used := map[string]int{}
		for _, r := range requests(t, a) {
			if r.Way == nil {
				t.Fatalf("request %d has no way", r.N)
			}
			if w := *r.Way; w.PickedPrefill != w.Prefill || w.PickedDecode != w.Decode || w.Decision != result.PrefillDecode {
				t.Errorf("request %d: %+v", r.N, w)
			}
			used[r.Way.Prefill+" "+r.Way.Decode]++
		}
		if len(used) != 4 {
			t.Errorf("requests by pair: %v", used)
		}
		for _, id := range slices.Sorted(maps.Keys(routing.Requests))[:1] {
			stdout, _, code := lab.as(t, sweep, "reader", "logs", "--timeline", "--request", id, filepath.Join(a, "logs"))
			if code != 0 || !strings.Contains(stdout, "router picked the prefill pod") || !strings.Contains(stdout, "Finished sending") {
				t.Errorf("timeline of %s: exit %d\n%s", id, code, stdout)
			}
			t.Log("\n" + stdout)
		}
	})
	t.Run("token", func(t *testing.T) {
		url := "http://" + lab.address(t, ns, "pd-epp") + ":9090/metrics"
		for token, want := range map[string]int{"": 401, "nobody's": 401, nobodyToken: 403, lab.token(t, ns, "metrics-reader"): 200} {
			req, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("the token %.10q: status %d, want %d", token, resp.StatusCode, want)
			}
		}
		_, row, _ := run(t, "reader", "no token")
		if row["status"] != result.StatusOK || row["pd"] != "proven" || row["epp_server_requests"] != nil {
			t.Errorf("%v %v, pd %v, requests by the picker %v: %v", row["status"], row["invalid_reasons"], row["pd"], row["epp_server_requests"], row["findings"])
		}
	})
	t.Run("no logs", func(t *testing.T) {
		_, row, _ := run(t, "lister", "no logs", withToken...)
		findings, _ := row["findings"].(string)
		if row["status"] != result.StatusOK || row["pd"] != "proven" || !strings.Contains(findings, "pd_pairs_unknown") || !strings.Contains(findings, "routing_unknown") {
			t.Errorf("%v %v, pd %v, findings %s", row["status"], row["invalid_reasons"], row["pd"], findings)
		}
	})
	// again starts the router again, from other manifests.
	again := func(t *testing.T, manifests string) {
		t.Helper()
		for _, path := range []string{"pods/pd-epp", "configmaps/envoy"} {
			at := "/api/v1/namespaces/" + ns + "/" + path
			if err := lab.send(http.MethodDelete, at, "", nil); err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, path+" is gone", func() bool { return lab.get(at, nil) != nil })
		}
		lab.apply(t, ns, manifests)
		lab.admitted(t, ns)
	}
	t.Run("cold pairs", func(t *testing.T) {
		again(t, strings.Replace(stack, "every-pair", "same-pair", 1))
		out, row, _ := run(t, "reader", "cold", withToken...)
		if text := said(t, out, "pd_pairs_cold"); row["status"] != result.StatusOK || !strings.HasSuffix(text, "8 prompts were sent over 4 pairs of a prefill and a decode server; none was seen to move a KV cache by prefill-0 > decode-1, prefill-1 > decode-0") {
			t.Errorf("%v %v: %s", row["status"], row["findings"], text)
		}
	})
	// As the chart has it, Envoy gives each request another id.
	t.Run("other ids", func(t *testing.T) {
		again(t, strings.Replace(stack, "preserve_external_request_id: true", "preserve_external_request_id: false", 1))
		out, row, _ := run(t, "reader", "ids", withToken...)
		text := said(t, out, "routing_unknown")
		if row["status"] != result.StatusOK || row["pd"] != "proven" || text == "" {
			t.Errorf("%v %v, pd %v", row["status"], row["findings"], row["pd"])
		}
		t.Log(text)
	})
}

// envoy makes the image of Envoy and of the picker.
func (n *node) envoy(t *testing.T) {
	t.Helper()
	if err := buildEnvoy(n.dir); err != nil {
		t.Fatal(err)
	}
	if err := n.ctr("images", "import", n.file("envoy.tar")); err != nil {
		t.Fatal(err)
	}
}

// token returns one of a service account.
func (n *node) token(t *testing.T, ns, account string) string {
	t.Helper()
	answer, err := n.call(http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts/"+account+"/token", "application/json",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// admitted gives the Gateway of the stack its address, once all of the stack is ready.
func (n *node) admitted(t *testing.T, ns string) {
	t.Helper()
	ip := n.address(t, ns, "pd-epp")
	if err := n.gateways(); err != nil {
		t.Fatal(err)
	}
	token := n.token(t, ns, "metrics-reader")
	polltest.Until(t, "the picker knows all servers", func() bool {
		req, err := http.NewRequest(http.MethodGet, "http://"+ip+":9090/metrics", nil)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+token)
		page, err := body(req)
		return err == nil && strings.Contains(page, `llm_d_epp_ready_endpoints{name="default"} 4`)
	})
	// A pod that becomes ready during a trial is a change of the stack.
	polltest.Until(t, "pd-epp is ready", func() bool {
		var p struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		return n.get("/api/v1/namespaces/"+ns+"/pods/pd-epp", &p) == nil &&
			slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool { return c.Type == "Ready" && c.Status == "True" })
	})
	// Before, it would let a request go on that the picker has not seen.
	polltest.Until(t, "Envoy answers", func() bool { return answers("http://" + ip + ":8081/v1/models") })
}

// throughEnvoy counts the requests that Envoy let the picker see, by its own metrics.
func (n *node) throughEnvoy(t *testing.T, ns string) (streams int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+n.address(t, ns, "pd-epp")+":19001/stats/prometheus", nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := body(req)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^envoy_http_ext_proc_streams_started\{[^}]*\} ([0-9]+)$`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("Envoy's metrics have no streams of ext_proc:\n%.3000s", page)
	}
	streams, err = strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return streams
}

// pairPrompts counts what the picker was sent in the two rounds of the warm-up over pairs.
func (n *node) pairPrompts(t *testing.T, out string) (first, second int) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(out, "deployments", "*", "l01", "router.pd-epp.epp.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs of the picker: %v, %v", logs, err)
	}
	for line := range strings.Lines(read(t, logs[0])) {
		if strings.Contains(line, "LLM request assembled") {
			first += strings.Count(line, "-pairs1-")
			second += strings.Count(line, "-pairs2-")
		}
	}
	return first, second
}

// said returns the text of a finding about the only trial of a run, or "".
func said(t *testing.T, out, code string) string {
	t.Helper()
	var stored struct{ Findings []struct{ Code, Text string } }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(attempt(t, out, "t01"), "result.json"))), &stored); err != nil {
		t.Fatal(err)
	}
	for _, f := range stored.Findings {
		if f.Code == code {
			return f.Text
		}
	}
	return ""
}

// body returns the body of an answer with the status 200.
func body(req *http.Request) (string, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

// gateways does what the controller of a class of Gateways does: each gets its address,
// which is that of the pod whose label lab.test/gateway names it.
func (n *node) gateways() error {
	type named struct{ Name, Namespace string }
	var list struct {
		Items []struct {
			Metadata named
			Status   struct{ Addresses []struct{ Value string } }
		}
	}
	if err := n.get("/apis/gateway.networking.k8s.io/v1/gateways", &list); err != nil {
		return err
	}
	for _, g := range list.Items {
		var pods struct {
			Items []struct{ Status struct{ PodIP string } }
		}
		err := n.get("/api/v1/namespaces/"+g.Metadata.Namespace+"/pods?labelSelector=lab.test/gateway%3D"+g.Metadata.Name, &pods)
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.PodIP == "" {
			continue
		}
		ip := pods.Items[0].Status.PodIP
		if known := g.Status.Addresses; len(known) == 1 && known[0].Value == ip {
			continue
		}
		if err := n.send(http.MethodPatch, "/apis/gateway.networking.k8s.io/v1/namespaces/"+g.Metadata.Namespace+"/gateways/"+g.Metadata.Name+"/status", "application/merge-patch+json",
			[]byte(`{"status":{"addresses":[{"type":"IPAddress","value":"`+ip+`"}]}}`)); err != nil {
			return err
		}
	}
	return nil
}
