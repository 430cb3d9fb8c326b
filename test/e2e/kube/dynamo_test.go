//go:build e2e_kube

package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

const dynamoPlan = `version: 1
name: dynamo
model: /engines/dynamo/tiny
matrix: {engine: dynamo-disagg, gpu: mocked, concurrency: [1, 4], max_tokens: 16}
backend: {kind: kubernetes, namespace: NAMESPACE, deploy: {pull: never, shm_size: 64Mi, pending: 1m, cache: {claim: engines, path: /engines}}}
engines:
  dynamo-disagg:
    image: lab.test/engines:1
    served_model_name: tiny
    env: {HF_HUB_OFFLINE: "1", HF_HOME: /tmp/hf}
    roles:
      prefill:
        env: {DYN_DISCOVERY_BACKEND: etcd, ETCD_ENDPOINTS: "http://ETCD:2379", DYN_FILE_KV: ""}
        command: [/engines/dynamo/bin/python, -m, dynamo.mocker, "--model-path={{.Model}}", "--model-name={{.Served}}", --disaggregation-mode=prefill]
      decode:
        replicas: 2
        env: {DYN_DISCOVERY_BACKEND: etcd, ETCD_ENDPOINTS: "http://ETCD:2379", DYN_FILE_KV: ""}
        command: [/engines/dynamo/bin/python, -m, dynamo.mocker, "--model-path={{.Model}}", "--model-name={{.Served}}", --disaggregation-mode=decode]
      frontend:
        env: {DYN_DISCOVERY_BACKEND: etcd, ETCD_ENDPOINTS: "http://ETCD:2379", DYN_FILE_KV: ""}
        command: [/engines/dynamo/bin/python, -m, dynamo.frontend, "--http-host={{.Host}}", "--http-port={{.Port}}", --router-mode=kv]
load: {requests: 24, prompts: {input_tokens: 64}}
slo: {clean: error_rate == 0}
collect: [prom]
retries: 0
timeouts: {stop: 5s, launch: 5m, ready: 4m, request: 1m}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// small makes plans/dynamo-kubernetes.yaml a short run, with bounds that a busy machine cannot
// break.
var small = []string{
	"model=tiny", "matrix.concurrency=2", "matrix.max_tokens=16", "load.requests=24", "load.prompts.input_tokens=64", "slo.responsive=p95_ttft_ms < 600000",
	"validity.max_moved=1000", "validity.max_steal=1", "validity.max_drift=100",
}

// etcdPod starts the etcd of a namespace and returns its address.
func (n *node) etcdPod(t *testing.T, ns string) (ip string) {
	t.Helper()
	first, _, _ := strings.Cut(read(t, "testdata/dynamo-real.yaml"), "\n---")
	n.apply(t, ns, first)
	ip = n.address(t, ns, "etcd")
	polltest.Until(t, "etcd answers", func() bool { return answers("http://" + ip + ":2379/health") })
	return ip
}

// Dynamo's own frontend and workers as pods of three roles, which find each other by etcd.
func TestDynamo_deploy(t *testing.T) {
	t.Parallel()
	const ns = "dynamo-deploy"
	plan := lab.deployable(t, ns, dynamoPlan)
	lab.engines(t, ns)
	if err := os.WriteFile(plan, []byte(strings.ReplaceAll(read(t, plan), "ETCD:", lab.etcdPod(t, ns)+":")), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "run")
	begin := time.Now()
	stdout, stderr, code := lab.as(t, program(t), "deployer", "run", "-o", out, plan)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s%s", code, stdout, stderr, logsOf(out))
	}
	t.Logf("after %.1f s\n%s", time.Since(begin).Seconds(), stdout)
	all := rows(t, out)
	if len(all) != 2 {
		t.Fatalf("%d rows", len(all))
	}
	for _, row := range all {
		dynamoRow(t, row)
		if digest, _ := row["image_digest"].(string); !strings.Contains(digest, "sha256:") {
			t.Errorf("image_digest is %q", digest)
		}
	}
	lab.empty(t, ns)
}

// dynamoRow holds what is known of a trial: each kind of worker saw each request, and mock
// workers count no KV caches.
func dynamoRow(t *testing.T, row result.Row) {
	t.Helper()
	if row["status"] != result.StatusOK {
		t.Errorf("%v: %v, %v", row["status"], row["invalid_reasons"], row["error"])
	}
	for column, want := range map[string]any{
		"network_path": "direct", "failed": int64(0), "pd": "unknown", "pd_share": 1.0,
		"prefill_server_requests": row["frontend_server_requests"], "decode_server_requests": row["frontend_server_requests"], "server_output_tokens": row["output_tokens"],
	} {
		if row[column] != want {
			t.Errorf("%s is %v, want %v", column, row[column], want)
		}
	}
	if n, ok := row["completed"].(int64); !ok || n < 24 {
		t.Errorf("%v requests completed", row["completed"])
	}
	if findings, _ := row["findings"].(string); !strings.Contains(findings, "pd_unknown") || strings.Contains(findings, "routing_unknown") {
		t.Errorf("findings %s", findings)
	}
	t.Logf("pd %v of %v, findings %v", row["pd"], row["pd_share"], row["findings"])
}

// logsOf returns the ends of the servers' logs of a run that failed.
func logsOf(out string) string {
	var b strings.Builder
	paths, _ := filepath.Glob(filepath.Join(out, "deployments", "*", "l01", "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		b.WriteString("\n--- " + filepath.Base(path) + "\n" + string(text[max(0, len(text)-3000):]))
	}
	return b.String()
}

// A user with the shipped Role alone measures Dynamo as its operator labels it: the roles
// are found, and the logs join sweep's ids of the requests to Dynamo's own.
func TestDynamo_attach(t *testing.T) {
	t.Parallel()
	sweep := program(t)
	if err := lab.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	const ns = "dynamo-attach"
	lab.namespace(t, ns)
	lab.mayRead(t, sweep, ns)
	lab.engines(t, ns)
	ip := lab.etcdPod(t, ns)
	_, rest, _ := strings.Cut(read(t, "testdata/dynamo-real.yaml"), "\n---")
	lab.apply(t, ns, strings.ReplaceAll(rest, "//ETCD:", "//"+ip+":"))
	frontend := "http://" + lab.address(t, ns, "disagg-frontend-0") + ":8000"
	polltest.Until(t, "the frontend has the model and its prefill", func() bool {
		log, err := lab.call("GET", "/api/v1/namespaces/"+ns+"/pods/disagg-frontend-0/log", "", nil)
		return err == nil && answers(frontend+"/v1/models") && strings.Contains(string(log), "Prefill router target activated")
	})
	plan, err := filepath.Abs("../../../plans/dynamo-kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := lab.as(t, sweep, "reader", "probe", "--kube", ns+"/dgd/disagg")
	t.Logf("\n%s%s", stdout, stderr)
	if code != 0 || !strings.Contains(stdout, "prefill") || !strings.Contains(stdout, "decode") || !strings.Contains(stdout, "frontend") {
		t.Errorf("probe: exit %d", code)
	}
	begin := time.Now()
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "-o", out, plan}
	for _, set := range append(slices.Clone(small), "backend.namespace="+ns, "backend.url="+frontend) {
		args = append(args, "--set", set)
	}
	stdout, stderr, code = lab.as(t, sweep, "reader", args...)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s%s", code, stdout, stderr, logsOf(out))
	}
	t.Logf("after %.1f s\n%s", time.Since(begin).Seconds(), stdout)
	row := rows(t, out)[0]
	dynamoRow(t, row)
	attempts, err := filepath.Glob(filepath.Join(out, "cells", "*", "t01", "a01"))
	if err != nil || len(attempts) != 1 {
		t.Fatal(attempts, err)
	}
	var routing struct {
		Requests  map[string]map[string]string
		Unprinted []struct{ Tells string } `json:"not_printed"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(attempts[0], "routing.json"))), &routing); err != nil {
		t.Fatal(err)
	}
	if len(routing.Requests) < 24 || len(routing.Unprinted) != 1 || routing.Unprinted[0].Tells != "moved" {
		t.Errorf("routing.json has %d requests, not printed is %v", len(routing.Requests), routing.Unprinted)
	}
	for id := range routing.Requests {
		stdout, _, code := lab.as(t, sweep, "reader", "logs", "--kube", ns+"/dgd/disagg", "--timeline", "--request", id)
		if code != 0 || !strings.Contains(stdout, "disagg-prefill-0/main") || !strings.Contains(stdout, "disagg-decode-0/main") || !strings.Contains(stdout, "frontend answered the request") {
			t.Errorf("timeline of %s: exit %d\n%s", id, code, stdout)
		}
		t.Log("\n" + stdout)
		break
	}
	want := result.Way{Prefill: "disagg-prefill-0", Decode: "disagg-decode-0", PickedPrefill: "disagg-prefill-0", PickedDecode: "disagg-decode-0", Decision: result.PrefillDecode}
	for _, r := range requests(t, attempts[0]) {
		if r.Status == result.Completed && (r.Way == nil || *r.Way != want) {
			t.Fatalf("request %d went %+v", r.N, r.Way)
		}
	}
}
