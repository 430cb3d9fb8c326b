package kubernetes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
	"sweep.dev/sweep/internal/polltest"
)

// running gives the containers of all pods IDs, as those that run have.
func running(api *stacktest.Server) {
	api.Edit("Pod", "ns", func(pods []any) []any {
		for _, p := range pods {
			status := p.(map[string]any)["status"].(map[string]any)
			for _, kind := range []string{"containerStatuses", "initContainerStatuses"} {
				list, _ := status[kind].([]any)
				for _, c := range list {
					c.(map[string]any)["containerID"] = "containerd://1"
				}
			}
		}
		return pods
	})
}

// keeping returns a deployment whose logs are kept in a folder.
func keeping(t *testing.T, b *Backend) (d *deployment, dir string) {
	t.Helper()
	dir = t.TempDir()
	spec := llmd()
	for i := range spec.Roles {
		spec.Roles[i].LogPath = func(int) string { return filepath.Join(dir, spec.Roles[i].Name+"-0.log") }
	}
	got, err := b.Launch(t.Context(), spec, new(notebook))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := got.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return got.(*deployment), dir
}

// A launch keeps the log of every container in a file of its own, init containers included,
// until it is stopped.
func TestLogs(t *testing.T) {
	b, api, _ := attached(t, nil)
	running(api)
	const at = "2199-01-01T00:00:00Z "
	api.Log("epp-0", "epp", at+"one\n"+at+"two\n")
	api.Log("decode-0", "routing-proxy", at+"sidecar\n")
	api.Log("decode-0", "modelserver", "2019-01-01T00:00:00Z long ago\n"+at+"decode\n")
	d, dir := keeping(t, b)
	polltest.Until(t, "the logs are there", func() bool { return len(d.Logs()) == 3 })
	d.CatchUp(t.Context())
	var all []string
	for _, l := range d.Logs() {
		text, err := os.ReadFile(l.Path)
		if err != nil || filepath.Dir(l.Path) != dir || l.Previous {
			t.Errorf("%+v: %v", l, err)
		}
		all = append(all, l.Role+" "+l.Pod+" "+l.Container+": "+strings.ReplaceAll(string(text), at, ""))
	}
	want := "decode decode-0 modelserver: decode\n" + "decode decode-0 routing-proxy: sidecar\n" + "router epp-0 epp: one\ntwo\n"
	if got := strings.Join(all, ""); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	prefill, decode, state := d.Pairs()
	if strings.Join(prefill, " ") != "prefill-0" || strings.Join(decode, " ") != "decode-0" {
		t.Errorf("pairs of %v and %v", prefill, decode)
	}
	api.Edit("Pod", "ns", func(pods []any) []any { restart(pods); return pods })
	stop := d.Watch(t.Context())
	_, findings := stop(t.Context())
	if _, _, now := d.Pairs(); now == state {
		t.Error("a restart does not change the pairs")
	}
	for _, f := range findings {
		if f.Code.String() == "logs_unread" {
			t.Error(f.Text)
		}
	}
}

// Logs that may not be read are a finding of each trial.
func TestLogs_denied(t *testing.T) {
	b, api, _ := attached(t, nil, "log")
	running(api)
	d, _ := keeping(t, b)
	polltest.Until(t, "the follower has ended", func() bool { _, broken := d.logs.finding(); return broken })
	_, findings := d.Watch(t.Context())(t.Context())
	if len(findings) == 0 || findings[0].Code.String() != "logs_unread" || !strings.Contains(findings[0].Text, "may not get pods/log") || !strings.Contains(findings[0].Text, "--print-role") {
		t.Errorf("%+v", findings)
	}
	if len(d.Logs()) > 0 {
		t.Error("there are logs")
	}
}
