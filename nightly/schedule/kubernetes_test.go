package schedule_test

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/nightly/schedule"
)

var update = flag.Bool("update", false, "rewrite the golden manifests")

const chatPlan = "# What a night measures.\nversion: 1\nname: chat\nload:\n  requests: 200   \n\n  trace: {file: traces/day 1.bin}\n"

func clustered() schedule.Night {
	return schedule.Night{
		Name: "chat", History: "chat.jsonl", At: "2:30", MaxTime: time.Hour, MaxCost: 2.5, Keep: 30, Flags: []string{"--set", `a="b" $(HOME)`},
		Cluster: &schedule.Cluster{
			Namespace: "bench", Image: "registry.example/sweep:0.1.0", Storage: "10Gi", Wait: 2 * time.Hour,
			Files: []schedule.Source{{Path: "chat.yaml", Data: []byte(chatPlan)}},
		},
	}
}

// manifests returns the objects of a night, by KIND/NAME.
func manifests(t *testing.T, n schedule.Night) (text string, objects map[string]map[string]any) {
	t.Helper()
	files, err := schedule.Files(schedule.Kubernetes, n)
	if err != nil {
		t.Fatal(err)
	}
	objects = map[string]map[string]any{}
	for part := range strings.SplitSeq(files[0].Text, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalWithOptions([]byte(part), &o, yaml.Strict()); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		meta, _ := o["metadata"].(map[string]any)
		kind, _ := o["kind"].(string)
		name, _ := meta["name"].(string)
		objects[kind+"/"+name] = o
	}
	return files[0].Text, objects
}

// The pod of gc has a token only if what nights leave is in its own namespace, where it looks.
func TestKubernetes_gc(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		elsewhere bool
		tokens    int
	}{{false, 2}, {true, 1}} {
		n := clustered()
		role := schedule.Role{Namespace: n.Cluster.Namespace, Rules: []schedule.Rule{{Group: "batch", Resources: []string{"jobs"}, Verbs: []string{"list"}}}}
		if c.elsewhere {
			role.Namespace += "-2"
		}
		n.Cluster.Roles = []schedule.Role{role}
		text, _ := manifests(t, n)
		if got := strings.Count(text, "automountServiceAccountToken: true"); got != c.tokens {
			t.Errorf("elsewhere %v: %d pods have a token, want %d", c.elsewhere, got, c.tokens)
		}
	}
}

func TestKubernetes_golden(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*schedule.Cluster){
		"plain": func(*schedule.Cluster) {},
		"whole": func(c *schedule.Cluster) {
			c.Pool, c.Queue, c.StorageClass = "h100", "nights", "fast.example"
			c.Files = append(c.Files, schedule.Source{Path: "traces/day 1.bin", Data: []byte{0, 1, 2, '\n'}})
			c.Roles = []schedule.Role{{Namespace: "llm-d", Rules: []schedule.Rule{
				{Resources: []string{"pods"}, Verbs: []string{"list"}},
				{Group: "gateway.networking.k8s.io", Resources: []string{"httproutes"}, Verbs: []string{"list"}},
			}}}
		},
	} {
		n := clustered()
		change(n.Cluster)
		got, _ := manifests(t, n)
		golden := filepath.Join("testdata", "kubernetes-"+name+".yaml")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-update rewrites it):\n%s", golden, diff)
		}
	}
}

// A ConfigMap has every file as it is, whatever its text would mean in YAML.
func TestKubernetes_files(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"plain.yaml": chatPlan, "tabs": "a:\tb\n", "document": "a\n---\nb\n", "comment": "# a\n\n\n# b\n", "colon": "a: b: c\n", "unicode": "größe: 1\n",
		"no end": "a: 1", "two ends": "a: 1\n\n", "indented": "  a: 1\n b: 2\n", "empty first": "\na: 1\n", "carriage": "a: 1\r\n", "nothing": "",
		"one break": "\n", "latin1": "gr\xf6\xdfe\n", "escape": "a: \x1b[1m\n", "bom": "\ufeffa: 1\n", "separator": "a\u2028b\n", "no break space": "a\u00a0b\n",
	}
	n := clustered()
	n.Cluster.Files = nil
	for path, text := range texts {
		n.Cluster.Files = append(n.Cluster.Files, schedule.Source{Path: path, Data: []byte(text)})
	}
	_, objects := manifests(t, n)
	got := map[string]string{}
	for name, o := range objects {
		if !strings.HasPrefix(name, "ConfigMap/") {
			continue
		}
		data, _ := o["data"].(map[string]any)
		for k, v := range data {
			got[k], _ = v.(string)
		}
		binary, _ := o["binaryData"].(map[string]any)
		for k, v := range binary {
			text, _ := v.(string)
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Error(err)
			}
			got[k] = string(b)
		}
	}
	for path, text := range texts {
		if key := strings.ReplaceAll(path, " ", "_"); got[key] != text {
			t.Errorf("%s is %q, want %q", key, got[key], text)
		}
	}
}

// Another plan has another ConfigMap: one that is in use does not change.
func TestKubernetes_changed(t *testing.T) {
	t.Parallel()
	n := clustered()
	_, before := manifests(t, n)
	n.Cluster.Files[0].Data = append(n.Cluster.Files[0].Data, "# another\n"...)
	_, after := manifests(t, n)
	for name := range before {
		if _, same := after[name]; same == strings.HasPrefix(name, "ConfigMap/") {
			t.Errorf("%s: the same is %v", name, same)
		}
	}
}

// A pod that needs no right has no token, and no Role is made.
func TestKubernetes_account(t *testing.T) {
	t.Parallel()
	n := clustered()
	text, objects := manifests(t, n)
	if strings.Contains(text, "automountServiceAccountToken: true") {
		t.Error("a pod without rights has a token")
	}
	for name := range objects {
		if strings.HasPrefix(name, "Role") {
			t.Errorf("%s is made", name)
		}
	}
	n.Cluster.Pool = "h100"
	text, objects = manifests(t, n)
	if strings.Count(text, "automountServiceAccountToken: true") != 1 {
		t.Error("not one pod alone has a token")
	}
	if want := []any{map[string]any{
		"apiGroups": []any{"coordination.k8s.io"}, "resources": []any{"leases"}, "resourceNames": []any{"sweep-pool-h100"}, "verbs": []any{"get", "update"},
	}}; !cmp.Equal(objects["Role/sweep-chat"]["rules"], any(want)) {
		t.Errorf("%v", objects["Role/sweep-chat"]["rules"])
	}
}

// Every container of every pod runs without root, capabilities and a root file system that
// it could write.
func TestKubernetes_restricted(t *testing.T) {
	t.Parallel()
	n := clustered()
	n.Cluster.Pool = "h100"
	_, objects := manifests(t, n)
	containers := 0
	var check func(at string, v any)
	check = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for _, sub := range v {
				check(at, sub)
			}
		case map[string]any:
			for key, sub := range v {
				check(at+"."+key, sub)
			}
			got, _ := v["securityContext"].(map[string]any)
			if v["containers"] != nil { // a pod
				if got["runAsNonRoot"] != true || got["runAsUser"] == nil || !cmp.Equal(got["seccompProfile"], any(map[string]any{"type": "RuntimeDefault"})) {
					t.Errorf("%s: a pod with %v", at, got)
				}
			}
			if v["image"] != nil {
				containers++
				want := map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", at, diff)
				}
			}
		}
	}
	for name, o := range objects {
		check(name, o)
	}
	if containers < 2 {
		t.Errorf("%d containers, want those of the nights and of what keeps them", containers)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, plan := range []string{"chat", "chat.v2", "chat-v2", "chat_v2", "a.", strings.Repeat("a", 63), strings.Repeat("a", 62) + "b", "0"} {
		name := schedule.Object(plan)
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %s", plan, other, name)
		}
		seen[name] = plan
		if len(name) > 52 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.HasSuffix(name, "-") {
			t.Errorf("%s is %s", plan, name)
		}
	}
	if got := schedule.Object("chat-v2"); got != "sweep-chat-v2" {
		t.Error(got)
	}
}

func TestKubernetes_refused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*schedule.Night){
		"--namespace":              func(n *schedule.Night) { n.Cluster.Namespace = "a b" },
		`--namespace: "" is`:       func(n *schedule.Night) { n.Cluster.Namespace = "" },
		"--pool":                   func(n *schedule.Night) { n.Cluster.Pool = "H100" },
		"too long":                 func(n *schedule.Night) { n.Cluster.Pool = strings.Repeat("a", 60) },
		"--queue":                  func(n *schedule.Night) { n.Cluster.Queue = "a/b" },
		"--storage-class":          func(n *schedule.Night) { n.Cluster.StorageClass = "a b" },
		"--storage: ":              func(n *schedule.Night) { n.Cluster.Storage = "10 GB" },
		"--image":                  func(n *schedule.Night) { n.Cluster.Image = "" },
		"--notify":                 func(n *schedule.Night) { n.Notify = "mail" },
		"--history":                func(n *schedule.Night) { n.History = "../chat.jsonl" },
		"below the plan's folder":  func(n *schedule.Night) { n.Cluster.Files[0].Path = "../chat.yaml" },
		"below the plan's folder:": func(n *schedule.Night) { n.Cluster.Files[0].Path = "/etc/passwd" },
		"a ConfigMap holds 1048576": func(n *schedule.Night) {
			n.Cluster.Files = append(n.Cluster.Files, schedule.Source{Path: "a", Data: make([]byte, 1<<20)})
		},
	} {
		n := clustered()
		change(&n)
		if _, err := schedule.Files(schedule.Kubernetes, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
