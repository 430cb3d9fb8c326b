package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// home is the namespace that kubectl would use, for commands that have no plan. Most who
// have a kubeconfig have nothing of sweep there: a cluster that is far away keeps nobody
// waiting, and one that shows nothing has not refused anything.
type home struct{ *pods.Backend }

const homeTime = 5 * time.Second

// atHome returns the home of an environment.
func atHome(fx *effect.Effects, env func(string) (string, bool)) (backends.Backend, error) {
	c := DefaultConfig()
	c.Kubeconfig, _ = env("KUBECONFIG")
	_, inCluster := env("KUBERNETES_SERVICE_HOST")
	if c.Kubeconfig == "" && !inCluster {
		dir, _ := env("HOME")
		c.Kubeconfig = filepath.Join(dir, ".kube", "config")
		if _, err := os.Stat(c.Kubeconfig); dir == "" || err != nil {
			return nil, errors.New("there is no kubeconfig: set KUBECONFIG")
		}
	}
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: c.Kubeconfig})
	if err != nil {
		return nil, err
	}
	c.Namespace, c.Deploy = api.Namespace(), new(pods.Config)
	return home{pods.New(fx, c.at(), *c.Deploy)}, nil
}

// List implements [backends.Backend].
func (h home) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, homeTime, fmt.Errorf("no answer within %v", homeTime))
	defer cancel()
	all, err := h.Backend.List(ctx, owner)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	return all, nil
}

// Probe implements [backends.Prober].
func (h home) Probe(ctx context.Context) error {
	_, err := h.List(ctx, "")
	return err
}
