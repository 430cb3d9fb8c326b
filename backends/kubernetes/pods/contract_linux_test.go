package pods_test

import (
	"path/filepath"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

func TestMain(m *testing.M) {
	polltest.Parallel(16)
	backendtest.Main(m, func(kubeconfig, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
		b, spec, err := made(fx, kubeconfig, dir)
		return b, spec, err
	})
}

// made returns a backend over a cluster, and a server whose image is this machine.
func made(fx *effect.Effects, kubeconfig, dir string) (*pods.Backend, backends.Spec, error) {
	place := pods.Place{Kind: "kubernetes", Cluster: kubeapi.Config{Kubeconfig: kubeconfig}, Namespace: "ns"}
	spec, err := backendtest.SpecIn(dir)
	if err == nil {
		spec.Roles[0].Image = "this/machine"
	}
	return pods.New(fx, place, pods.DefaultConfig()).At(filepath.Join(dir, "files")), spec, err
}

// launched returns a deployment on a cluster whose pods are processes of this machine.
func launched(t *testing.T) (*kubetest.Server, *pods.Backend, backends.Deployment) {
	t.Helper()
	f := kubetest.Start(t)
	f.Run()
	b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	return f, b, d
}

// TestContract holds pods against the contract of all backends, on a cluster whose pods
// are processes of this machine.
func TestContract(t *testing.T) {
	t.Parallel()
	f := kubetest.Start(t)
	f.Run()
	f.Deny("get pods/exec", "create pods/exec")
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return b, spec
	}, backendtest.Remote(), backendtest.Provisioned(),
		backendtest.SpoilWith(func(s *backends.Spec) {
			s.Roles[0].Argv = func(backends.Address) ([]string, error) { return []string{"/no/such/server"}, nil }
		}),
		backendtest.CrashWith(func(t *testing.T, d backends.Deployment) {
			rental, _ := d.(backends.Rental)
			f.Kill(rental.Terms().Ref.Name)
		}),
		backendtest.Killed(f.Kubeconfig, effect.KubeCreate))
}

// The pods of one role start side by side: an image may take minutes on each node.
func TestLaunch_together(t *testing.T) {
	t.Parallel()
	f := kubetest.Start(t)
	f.Run()
	f.Together(3)
	b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec.Roles[0].Replicas = 3
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if d.Host("server", n).URL() == "" {
			t.Errorf("replica %d is nowhere", n)
		}
	}
	f.Together(0)
	if err := d.Stop(t.Context()); err != nil || len(f.Paths()) != 0 {
		t.Errorf("%v, left are %q", err, f.Paths())
	}
}
