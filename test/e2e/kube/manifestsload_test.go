//go:build e2e_kube

package kube

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// Load pods measure a stack of manifests that cannot be reached from here. They are in the
// ledger with its objects, and go with them, in a namespace of their own too.
func TestManifests_load(t *testing.T) {
	t.Parallel()
	sweep := program(t)
	const ns, apart = "manifests-load", "manifests-load-apart"
	plan := lab.manifested(t, sweep, ns)
	withoutGPUs(t, plan, func(text string) string { return text })
	lab.mayLoad(t, sweep, ns)
	lab.namespace(t, apart)
	lab.mayLoad(t, sweep, apart)
	o := lab.outside(t, "reader", 54323)
	// Its gateway has a name that only pods know.
	const pod, named = "spec:\n  terminationGracePeriodSeconds: 1\n  dnsPolicy: Default\n", "hostname: gw\n  subdomain: front\n"
	stack := strings.Replace(read(t, filepath.Join(filepath.Dir(plan), "stack.yaml")), pod, pod+"  "+named, 1)
	o.file(t, "stack.yaml", stack+"---\n{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {clusterIP: None, selector: {app: gateway}, ports: [{port: 8081}]}}\n")
	text := strings.Replace(read(t, plan), "replicas: [1, 2]", "replicas: 1", 1)
	text = regexp.MustCompile(`url: "[^"]*"`).ReplaceAllString(text, `url: "http://gw.front.`+ns+`.svc.cluster.local:8081"`)
	all := func() (left []string) {
		return slices.Concat(lab.left(t, ns), lab.made(t, ns), lab.made(t, apart))
	}
	for _, c := range []struct {
		name, clients string
		n             int
	}{
		{"default", "", 1},
		{"two", `clients: {n: 2, kind: kubernetes, image: "lab.test/app:1", cpus: 0.1}, `, 2},
		{"apart", `clients: {n: 1, kind: kubernetes, image: "lab.test/app:1", cpus: 0.1, namespace: ` + apart + `}, `, 1},
	} {
		o.file(t, c.name+".yaml", one(text, c.clients))
		out := o.at("home/" + c.name)
		said, code := o.sweep(t, "run", "-o", out, o.at(c.name+".yaml"))
		if code != 0 && code != 3 {
			t.Fatalf("%s: exit %d\n%s", c.name, code, said)
		}
		for _, row := range remeasured(t, out, func(args ...string) { _, _ = o.sweep(t, args...) }) {
			if !usable(row) || row["network_path"] != "direct" || !answered(row) || row["pd"] != "proven" {
				t.Errorf("%s: %v by %v, %v of %v requests, pd %v: %v", c.name, row["status"], row["network_path"], row["completed"], row["requests"], row["pd"], row["invalid_reasons"])
			}
		}
		if _, shards, _ := sent(t, out); shards != c.n {
			t.Errorf("%s: %d clients, want %d", c.name, shards, c.n)
		}
		if !polltest.Within(moment, func() bool { return len(all()) == 0 }) {
			t.Errorf("%s: left are %q", c.name, all())
		}
	}
	kill := func(name, heartbeat string) {
		t.Helper()
		cmd := o.command(t, "run", "-o", o.at("home/killed-"+name+"-"+heartbeat), "--events", "-", "--set", "load.requests=100000", "--set", "backend.heartbeat="+heartbeat, o.at(name+".yaml"))
		cmd.Stderr = os.Stderr
		pods := 0
		_ = listen(t, cmd, func(event string) { // killed
			if pods == 0 && strings.Contains(event, `"trial_progress"`) {
				pods = len(lab.loadPods(t, ns)) + len(lab.loadPods(t, apart))
				_ = cmd.Process.Kill()
			}
		})
		if pods == 0 {
			t.Errorf("%s: there was no load pod", name)
		}
	}
	kill("default", "15s")
	killed := time.Now()
	polltest.Until(t, "the cluster has ended everything", func() bool { return len(all()) == 0 })
	t.Logf("empty %.1f s after kill -9, with a heartbeat of 15 s", time.Since(killed).Seconds())
	for _, name := range []string{"default", "apart"} {
		kill(name, "10m")
		said, code := o.sweep(t, "gc", "--yes")
		// Its heartbeat is far away, so that it was gc that ended them.
		if code != 0 || !polltest.Within(polltest.Patience, func() bool { return len(all()) == 0 }) {
			t.Errorf("%s: gc: exit %d, left are %q\n%s", name, code, all(), said)
		}
	}
}
