//go:build e2e_kube && e2e_kube_stay

package kube

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// A person has the Kubernetes of the tests, with all kinds and images that
// testdata/pd.yaml needs and nothing in it, until ctrl-C: for the walk-through of docs/llm-d.md.
func TestStay(t *testing.T) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(end)
	lab.crds(t)
	lab.envoy(t)
	fmt.Printf("\nKubernetes is ready until ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s\n\n", lab.file("admin.kubeconfig"))
	for {
		select {
		case <-end:
			return
		case <-time.After(500 * time.Millisecond):
			if err := lab.gateways(); err != nil {
				fmt.Println(err)
			}
		}
	}
}
