package manifests

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/manifest"
)

// Each kind is ready when its controller says so of the newest generation, and not before.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, object string
		want         string // "" is ready
		fails        string
	}{
		"deployment, new":         {"Deployment", `{"metadata":{"generation":1},"status":{}}`, "has not seen it yet", ""},
		"deployment, an old look": {"Deployment", `{"metadata":{"generation":2},"status":{"observedGeneration":1,"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "has not seen it yet", ""},
		"deployment, some":        {"Deployment", `{"spec":{"replicas":3},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":3}}`, "2 of 3 replicas are ready", ""},
		"deployment, old pods":    {"Deployment", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":1}}`, "1 of 2 replicas are of its newest revision", ""},
		"deployment":              {"Deployment", `{"status":{"observedGeneration":1,"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "", ""},
		"deployment of none":      {"Deployment", `{"spec":{"replicas":0},"status":{"observedGeneration":1}}`, "", ""},
		"deployment, quota":       {"Deployment", `{"status":{"observedGeneration":1,"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: q"}]}}`, "", "FailedCreate: exceeded quota: q"},
		"deployment, too late":    {"Deployment", `{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "", "ProgressDeadlineExceeded"},
		"stateful set":            {"StatefulSet", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":2}}`, "", ""},
		"daemon set, some":        {"DaemonSet", `{"status":{"observedGeneration":1,"desiredNumberScheduled":2,"numberReady":1}}`, "1 of 2 pods are ready", ""},
		"pod, starting":           {"Pod", `{"status":{"phase":"Pending"}}`, "condition Ready is not there yet", ""},
		"pod, not ready":          {"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}]}}`, "condition Ready is False: ContainersNotReady", ""},
		"pod":                     {"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"pod, failed":             {"Pod", `{"status":{"phase":"Failed","reason":"OutOfnvidia.com/gpu","message":"no"}}`, "", "OutOfnvidia.com/gpu: no"},
		"pod, done":               {"Pod", `{"status":{"phase":"Succeeded"}}`, "", ""},
		"job":                     {"Job", `{"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, "", ""},
		"job, at work":            {"Job", `{"status":{}}`, "condition Complete is not there yet", ""},
		"job, failed":             {"Job", `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}}`, "", "BackoffLimitExceeded"},
		"group":                   {"LeaderWorkerSet", `{"spec":{"replicas":1},"status":{"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "", ""},
		"graph, too early":        {"DynamoGraphDeployment", `{"metadata":{"generation":2},"status":{"observedGeneration":1,"state":"successful","conditions":[{"type":"Ready","status":"True"}]}}`, "has not seen it yet", ""},
		"graph, pending":          {"DynamoGraphDeployment", `{"status":{"state":"pending","conditions":[{"type":"Ready","status":"False"}]}}`, `its state is "pending"`, ""},
		"graph":                   {"DynamoGraphDeployment", `{"status":{"state":"successful","conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"graph, failed":           {"DynamoGraphDeployment", `{"status":{"state":"failed","conditions":[{"type":"Ready","status":"False","reason":"insufficient_capacity"}]}}`, "", "insufficient_capacity"},
		"another kind":            {"LLMInferenceService", `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Deploying"}]}}`, "condition Ready is Unknown: Deploying", ""},
		"another kind, by now":    {"LLMInferenceService", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"a kind without status":   {"Service", `{}`, "", ""},
	} {
		var have live
		if err := json.Unmarshal([]byte(c.object), &have); err != nil {
			t.Fatal(err)
		}
		o := &object{Object: &manifest.Object{Kind: c.kind}}
		got, err := o.waits(&have)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: failure %v, want %q", name, err, c.fails)
		case c.fails == "" && (err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want)):
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// A pod that no time will start ends a launch. One that tries again may still start.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ containers, class string }{
		"starts":           {`{"state":{"waiting":{"reason":"ContainerCreating"}}}`, ""},
		"first pull":       {`{"state":{"waiting":{"reason":"ErrImagePull"}}}`, ""},
		"no image":         {`{"state":{"waiting":{"reason":"ImagePullBackOff"}}}`, "image"},
		"no secret":        {`{"state":{"waiting":{"reason":"CreateContainerConfigError","message":"secret \"x\" not found"}}}`, "host"},
		"second start":     {`{"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"Error","exitCode":3}}}`, ""},
		"fourth start":     {`{"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"Error","exitCode":3}}}`, "exit"},
		"ready by now":     {`{"restartCount":9,"ready":true,"state":{"running":{}},"lastState":{"terminated":{"reason":"Error","exitCode":3}}}`, ""},
		"no memory":        {`{"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"OOMKilled","exitCode":137}}}`, "oom.host"},
		"a wrong entry":    {`{"state":{"waiting":{"reason":"RunContainerError"}}}`, "host"},
		"ended meanwhile":  {`{"restartCount":3,"state":{"terminated":{"reason":"Error","exitCode":1}}}`, "exit"},
		"a sidecar before": {`{"ready":true},{"state":{"waiting":{"reason":"InvalidImageName"}}}`, "image"},
	} {
		var p pod
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"p"},"status":{"containerStatuses":[`+c.containers+`]}}`), &p); err != nil {
			t.Fatal(err)
		}
		got := p.broken()
		if (got == nil) != (c.class == "") || got != nil && got.Class != c.class {
			t.Errorf("%s: %+v, want %q", name, got, c.class)
		}
	}
	var p pod
	p.Status.Phase, p.Status.Reason = "Failed", "OutOfnvidia.com/gpu"
	if got := p.broken(); got == nil || got.Class != "no_capacity" || !errors.Is(got, backends.ErrCapacity) {
		t.Errorf("refused by its node: %+v", got)
	}
}
