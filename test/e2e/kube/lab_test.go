//go:build e2e_kube

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// lab is the Kubernetes of this test binary.
var lab *node

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root")
		os.Exit(1)
	}
	n := &node{}
	err := n.start()
	lab = n
	code := 1
	if err == nil {
		code = m.Run()
	}
	err = errors.Join(err, n.stop())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A node is a Kubernetes of one node.
type node struct {
	manager []string // further arguments of the controller manager
	room    int      // pods that it takes, 0 is as many as the kubelet's default

	dir     string // everything is in it
	kubeall string
	bridge  string
	network string       // the first three numbers of its addresses
	inside  net.Listener // where pods reach the API server
	// Ports, of the API server, of etcd's two sides and of the kubelet.
	port, etcd, peer, kubeletPort int
	processes                     []*process
	dns                           net.PacketConn // nil before it answers
}

// A process is one that the node started.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
}

const (
	adminToken    = "admin-of-the-tests"
	kubeletToken  = "kubelet-of-the-tests"
	readerToken   = "reader-of-the-tests"   // a user with the shipped Role alone
	nobodyToken   = "nobody-of-the-tests"   // a user without any
	listerToken   = "lister-of-the-tests"   // a user who may list, and read no logs
	deployerToken = "deployer-of-the-tests" // a user with the shipped Role of deploy alone
)

func (n *node) file(name string) string { return filepath.Join(n.dir, name) }
func (n *node) server() string          { return fmt.Sprintf("https://127.0.0.1:%d", n.port) }

// start starts all of it and waits until the node is ready. A node that failed must be
// stopped as well.
func (n *node) start() (err error) {
	// A Unix socket's path is short, so not in the test's own folder.
	if n.dir, err = os.MkdirTemp("", "kube"); err != nil {
		return err
	}
	n.bridge = "swk" + n.dir[len(n.dir)-6:]
	for _, d := range []string{"log", "etcd", "certs", "cni", "containerd", "state", "kubelet", "podlogs"} {
		if err := os.MkdirAll(n.file(d), 0o755); err != nil {
			return err
		}
	}
	if n.kubeall, err = filepath.Abs("../../../.engines/kube/kubeall"); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"image", n.build}, {"network", n.choose}, {"control plane", n.control}, {"containers", n.containers}, {"names", n.names}, {"kubelet", n.kubelet},
	}
	begin := time.Now()
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w\n%s", s.name, err, n.tails())
		}
		fmt.Printf("lab: %s after %.1f s\n", s.name, time.Since(begin).Seconds())
	}
	return nil
}

// build makes the images; those of another lab are the same.
func (n *node) build() error {
	if lab == nil {
		return buildImages(n.dir)
	}
	var faults []error
	for _, archive := range []string{"app.tar", "base.tar"} {
		faults = append(faults, os.Link(lab.file(archive), n.file(archive)))
	}
	return errors.Join(faults...)
}

// choose takes free ports and a network that no interface has. Two labs that start in the
// same moment see each other's network not yet, so that each begins at another one.
func (n *node) choose() error {
	var open []net.Listener
	for range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		open = append(open, l)
	}
	for i, l := range open {
		*[]*int{&n.port, &n.etcd, &n.peer, &n.kubeletPort}[i] = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for i := range 40 {
		n.network = fmt.Sprintf("10.%d.0", 88+(os.Getpid()+i)%40)
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), n.network+".") }) {
			return nil
		}
	}
	return errors.New("no free network of 10.88.0.0/24 to 10.127.0.0/24")
}

// control starts etcd, the API server, the controller manager and the scheduler.
func (n *node) control() error {
	key, err := exec.Command("openssl", "genrsa", "-out", n.file("sa.key"), "2048").CombinedOutput()
	if err != nil {
		return fmt.Errorf("openssl: %w: %s", err, key)
	}
	tokens := strings.Join([]string{
		adminToken + `,admin,admin,"system:masters"`, kubeletToken + `,system:node:node-0,node-0,"system:nodes"`,
		readerToken + ",reader,reader", nobodyToken + ",nobody,nobody", listerToken + ",lister,lister", deployerToken + ",deployer,deployer",
	}, "\n")
	if err := errors.Join(os.WriteFile(n.file("tokens.csv"), []byte(tokens+"\n"), 0o600), n.kubeconfig("admin", adminToken)); err != nil {
		return err
	}
	etcd, peer := fmt.Sprintf("http://127.0.0.1:%d", n.etcd), fmt.Sprintf("http://127.0.0.1:%d", n.peer)
	if err := n.run("etcd", "etcd", "--data-dir", n.file("etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer); err != nil {
		return err
	}
	if err := n.run("apiserver", n.kubeall, "kube-apiserver", "--etcd-servers="+etcd, "--cert-dir="+n.file("certs"), fmt.Sprintf("--secure-port=%d", n.port),
		"--bind-address=127.0.0.1", "--service-account-issuer="+n.server(), "--service-account-key-file="+n.file("sa.key"),
		"--service-account-signing-key-file="+n.file("sa.key"), "--token-auth-file="+n.file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range="+n.services()+".0/24", "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP"); err != nil {
		return err
	}
	if err := n.until("the API server is ready", func() bool { return n.get("/readyz", nil) == nil }); err != nil {
		return err
	}
	config := "--kubeconfig=" + n.file("admin.kubeconfig")
	manager := append([]string{
		"kube-controller-manager", config, "--leader-elect=false", "--authentication-skip-lookup=true", "--bind-address=127.0.0.1", "--secure-port=0",
		"--service-account-private-key-file=" + n.file("sa.key"), "--root-ca-file=" + n.file("certs/apiserver.crt"), "--concurrent-gc-syncs=4",
	}, n.manager...)
	err = errors.Join(
		n.run("manager", n.kubeall, manager...),
		n.run("scheduler", n.kubeall, "kube-scheduler", config, "--leader-elect=false", "--authentication-skip-lookup=true", "--bind-address=127.0.0.1", "--secure-port=0"))
	if err != nil {
		return err
	}
	return n.until("there are service accounts", func() bool {
		return n.get("/api/v1/namespaces/default/serviceaccounts/default", nil) == nil
	})
}

// containers starts containerd with a bridge of its own and the image of the tests.
func (n *node) containers() error {
	for _, args := range [][]string{{"link", "add", n.bridge, "type", "bridge"}, {"addr", "add", n.network + ".1/24", "dev", n.bridge}, {"addr", "add", n.services() + ".1/32", "dev", n.bridge}, {"link", "set", n.bridge, "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	if err := n.admit(); err != nil {
		return err
	}
	cni := fmt.Sprintf(`{"cniVersion":"0.4.0","name":%[1]q,"plugins":[{"type":"bridge","bridge":%[1]q,"isGateway":true,"ipMasq":false,
	"ipam":{"type":"host-local","dataDir":%[2]q,"routes":[{"dst":"%[4]s.0/24"}],"ranges":[[{"subnet":"%[3]s.0/24","rangeStart":"%[3]s.10","gateway":"%[3]s.1"}]]}},{"type":"loopback"}]}`,
		n.bridge, n.file("ipam"), n.network, n.services())
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`, n.file("containerd"), n.file("state"), n.file("containerd.sock"), appImage, n.file("cni"))
	if err := errors.Join(os.WriteFile(n.file("cni/10-bridge.conflist"), []byte(cni), 0o600), os.WriteFile(n.file("containerd.toml"), []byte(config), 0o600)); err != nil {
		return err
	}
	if err := n.run("containerd", "containerd", "-c", n.file("containerd.toml")); err != nil {
		return err
	}
	if err := n.until("containerd answers", func() bool { return n.ctr("version") == nil }); err != nil {
		return err
	}
	return errors.Join(n.ctr("images", "import", n.file("app.tar")), n.ctr("images", "import", n.file("base.tar")))
}

// kubelet starts the node and gives it two GPUs, which nothing uses.
func (n *node) kubelet() error {
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://%s
podLogsDir: %s
address: %s.1
port: %d
healthzPort: 0
imageGCHighThresholdPercent: 100 # images of the tests stay on a disk that is nearly full
evictionHard: {memory.available: "100Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
resolvConf: /dev/null
clusterDNS: [%s.1]
clusterDomain: cluster.local
makeIPTablesUtilChains: false
maxPods: %d
`, n.file("containerd.sock"), n.file("podlogs"), n.network, n.kubeletPort, n.network, cmp.Or(n.room, 110))
	if err := os.WriteFile(n.file("kubelet.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	if err := n.run("kubelet", n.kubeall, "kubelet", "--kubeconfig="+n.file("admin.kubeconfig"), "--config="+n.file("kubelet.yaml"), "--root-dir="+n.file("kubelet"),
		"--cert-dir="+n.file("kubelet/pki"), "--hostname-override=node-0", "--node-ip="+n.network+".1"); err != nil {
		return err
	}
	if err := n.until("the node is ready", n.nodeReady); err != nil {
		return err
	}
	return n.send("PATCH", "/api/v1/nodes/node-0/status", "application/merge-patch+json",
		[]byte(`{"status":{"capacity":{"nvidia.com/gpu":"8"},"allocatable":{"nvidia.com/gpu":"8"}}}`))
}

func (n *node) nodeReady() bool {
	var one struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	return n.get("/api/v1/nodes/node-0", &one) == nil && slices.ContainsFunc(one.Status.Conditions, func(c struct{ Type, Status string }) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

// run starts a process, whose output goes into a file.
func (n *node) run(name, program string, args ...string) error {
	out, err := os.Create(n.file("log/" + name))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, n.dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin:/usr/bin:/bin", "TMPDIR="+n.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	n.processes = append(n.processes, p)
	go func() { _ = cmd.Wait(); close(p.done) }()
	return nil
}

// process returns one that runs, by its name.
func (n *node) process(name string) *os.Process {
	for _, p := range n.processes {
		if p.name == name {
			return p.cmd.Process
		}
	}
	panic("nothing is called " + name)
}

// until waits for a condition, and no longer than a minute, or until a process ended.
func (n *node) until(what string, met func() bool) error {
	ended := ""
	if !polltest.Within(time.Minute, func() bool {
		for _, p := range n.processes {
			select {
			case <-p.done:
				ended = p.name
			default:
			}
		}
		return ended != "" || met()
	}) {
		return fmt.Errorf("after a minute it is not so that %s", what)
	}
	if ended != "" {
		return fmt.Errorf("%s ended before %s", ended, what)
	}
	return nil
}

func (n *node) ctr(args ...string) error { _, err := n.ctrOutput(args...); return err }

func (n *node) ctrOutput(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"-a", n.file("containerd.sock"), "-n", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ctr %v: %w: %s", args, err, out)
	}
	return string(out), err
}

// tails returns the ends of all logs, for a start that failed.
func (n *node) tails() string {
	var b strings.Builder
	for _, p := range n.processes {
		text, _ := os.ReadFile(n.file("log/" + p.name))
		fmt.Fprintf(&b, "--- %s\n%s\n", p.name, text[max(0, len(text)-1500):])
	}
	return b.String()
}
