//go:build e2e_kube

package kube

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

var stay = flag.Bool("stay", false, "keep the Kubernetes until ctrl-C, for the walk-through of docs/llm-d.md")

// With -stay a person has the Kubernetes of the tests, with all kinds and images that
// testdata/pd.yaml needs, and nothing in it.
func TestStay(t *testing.T) {
	if !*stay {
		t.Skip("without -stay")
	}
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
