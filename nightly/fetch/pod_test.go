package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

const (
	jobsPath = "/apis/batch/v1/namespaces/ns/jobs"
	podsPath = "/api/v1/namespaces/ns/pods"
)

// volumeOf returns a cluster with a CronJob, whose Jobs get a pod in a state, and lose it when
// they are deleted unless it stays.
func volumeOf(t *testing.T, state string, stays bool) (*kubetest.Server, Source) {
	t.Helper()
	f := kubetest.Start(t)
	f.Put("/apis/batch/v1/namespaces/ns/cronjobs/chat", object(t, `{"kind": "CronJob", "metadata": {"name": "chat"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {
		"securityContext": {"runAsUser": 4711}, "imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"pool": "bench"},
		"tolerations": [{"key": "sku"}], "containers": [{"name": "sweep", "image": "example.com/sweep:1", "imagePullPolicy": "Always", "env": [{"name": "NIGHT_KEY"}]}]}}}}}}`))
	f.Before(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == podsPath:
			job := strings.TrimPrefix(r.URL.Query().Get("labelSelector"), "job-name=")
			if job, pod := jobsPath+"/"+job, podsPath+"/"+job+"-abcde"; has(f, job) && !has(f, pod) && state != "" {
				o := object(t, state)
				o.Set("Pod", "kind")
				o.Set(path.Base(pod), "metadata", "name")
				o.Set(path.Base(job), "metadata", "labels", "job-name")
				f.Put(pod, o)
			}
		case r.Method == http.MethodDelete && !stays:
			f.Remove(podsPath + "/" + path.Base(r.URL.Path) + "-abcde")
		}
		return false
	})
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: f.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return f, Source{API: api, Namespace: "ns", Object: "chat", Time: 90 * time.Second}
}

func object(t *testing.T, text string) (o kubetest.Object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func has(f *kubetest.Server, path string) bool {
	return slices.Contains(f.Paths(), path)
}

// left returns the Jobs and pods that there are.
func left(f *kubetest.Server) (paths []string) {
	for _, p := range f.Paths() {
		if strings.HasPrefix(p, jobsPath) || strings.HasPrefix(p, podsPath) {
			paths = append(paths, p)
		}
	}
	return paths
}

const running = `{"status": {"phase": "Running"}}`

// The pod runs where the nights run, reads their volume alone, and ends at a deadline also
// if this program is gone.
func TestPod(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{"": "example.com/sweep:1", "mine:2": "mine:2"} {
		f, s := volumeOf(t, running, false)
		s.Image = image
		p, err := s.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if there := left(f); len(there) != 2 || path.Base(there[0]) != p.name || path.Base(there[1]) != p.job {
			t.Errorf("there are %q, and the pod is %s of %s", there, p.name, p.job)
		}
		f.Edit(jobsPath+"/"+p.job, func(o kubetest.Object) {
			text, err := json.Marshal(o)
			if err != nil {
				t.Error(err)
			}
			for _, part := range []string{
				`"activeDeadlineSeconds":90`, `"ttlSecondsAfterFinished":0`, `"backoffLimit":0`, `"automountServiceAccountToken":false`, `"restartPolicy":"Never"`,
				`"image":"` + want + `"`, `"imagePullPolicy":"Always"`, `"command":["/sweep","__files","hold"]`,
				`"persistentVolumeClaim":{"claimName":"chat","readOnly":true}`, `{"mountPath":"/data","name":"data","readOnly":true}`,
				`"securityContext":{"runAsUser":4711}`, `"imagePullSecrets":[{"name":"registry"}]`, `"nodeSelector":{"pool":"bench"}`, `"tolerations":[{"key":"sku"}]`,
				`"capabilities":{"drop":["ALL"]}`, `"readOnlyRootFilesystem":true`, `"allowPrivilegeEscalation":false`,
			} {
				if !strings.Contains(string(text), part) {
					t.Errorf("no %s in %s", part, text)
				}
			}
			if strings.Contains(string(text), "NIGHT_KEY") {
				t.Errorf("it has the environment of the nights: %s", text)
			}
		})
		if err := p.End(t.Context()); err != nil || len(left(f)) > 0 {
			t.Errorf("End: %v, left are %q", err, left(f))
		}
	}
}

// A pod that does not start is an error that says why, and nothing of it is left.
func TestPod_fails(t *testing.T) {
	t.Parallel()
	const waits = `{"status": {"phase": "Pending", "containerStatuses": [{"name": "files", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}}`
	for name, c := range map[string]struct {
		state, deny, object string
		within              time.Duration // 0: as long as it takes
		want                string
	}{
		"no nights":      {running, "", "other", 0, "there are no nights of that name in namespace ns (no CronJob other)"},
		"no right":       {running, "create jobs", "chat", 0, "may not create jobs.batch"},
		"unseen":         {running, "list pods", "chat", 0, "may not list pods"},
		"ended":          {`{"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "Error", "message": "exec format error"}}}]}}`, "", "chat", 0, "ended at once: Error exec format error"},
		"over":           {`{"status": {"phase": "Failed", "message": "Pod was active on the node longer than the specified deadline"}}`, "", "chat", 0, "ended at once: Failed Pod was active"},
		"waits":          {waits, "", "chat", time.Second, "ImagePullBackOff no such image"},
		"no room":        {`{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}}`, "", "chat", time.Second, "Unschedulable 0/1 nodes are available"},
		"never made":     {"", "", "chat", time.Second, "no pod"},
		"not in a hurry": {`{"status": {"phase": "Pending"}}`, "", "chat", time.Second, "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := volumeOf(t, c.state, false)
			if c.deny != "" {
				f.Deny(c.deny)
			}
			s.Object = c.object
			ctx, late := t.Context(), errors.New("the user is gone")
			if c.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, c.within, late)
				defer cancel()
			}
			_, err := s.Start(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.within > 0 && !errors.Is(err, late) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, at := range left(f) {
				if strings.HasPrefix(at, jobsPath) {
					t.Errorf("left is %s", at)
				}
			}
		})
	}
}

// An end that is not seen is an error, which says until when the cluster lets it run.
func TestPod_stays(t *testing.T) {
	t.Parallel()
	_, s := volumeOf(t, running, true)
	p, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !polltest.Longer(t.Context(), time.Second, func(ctx context.Context) bool {
		err = p.End(ctx)
		return errors.Is(err, polltest.ErrEnough) && strings.Contains(err.Error(), "the cluster ends it after 1m30s")
	}) {
		t.Errorf("End: %v", err)
	}
}
