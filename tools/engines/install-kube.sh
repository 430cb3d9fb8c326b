#!/usr/bin/env bash
# Makes .engines/kube: one binary of Kubernetes 1.34 (API server, controller manager,
# scheduler, kubelet and kube-proxy) and the CRDs of the Gateway API. Installs Debian's
# etcd, containerd and CNI plugins, which the tests start for themselves. The build takes 7
# minutes of CPU and 2 GiB of memory. Its binary is kept in ~/.cache/sweep-engines, by what
# it was built from, and every later checkout takes it from there. 0.15 GB.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
version=v1.34.4
from=(tools/kube/go.mod tools/kube/go.sum tools/kube/main.go tools/engines/install-kube.sh)

missing=()
command -v etcd >/dev/null || missing+=(etcd-server)
command -v containerd >/dev/null || missing+=(containerd)
command -v runc >/dev/null || missing+=(runc)
[[ -x /usr/lib/cni/bridge ]] || missing+=(containernetworking-plugins)
command -v iptables >/dev/null || missing+=(iptables)
command -v ip >/dev/null || missing+=(iproute2)
if ((${#missing[@]})); then
	[[ ${1:-} != --check ]] || exit 1
	debian_stopped "${missing[@]}"
fi
begin "${1:-}" kube "${from[@]}"

mkdir -p .engines/kube/crds
# Without optimisation it starts as fast and is built in two thirds of the time.
at=k8s.io/component-base/version
build=(-trimpath '-gcflags=all=-N -l'
	-ldflags "-s -w -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=34")
export CGO_ENABLED=0
kept=$(cache_folder kube "$(fingerprint tools/kube/go.mod tools/kube/go.sum tools/kube/main.go)" \
	"$(go env -C tools/kube GOVERSION GOOS GOARCH GOAMD64 GOARM64 GOFLAGS GOEXPERIMENT)" "${build[@]}")
if cache_load "$kept" .engines/kube/kubeall; then
	say "took Kubernetes from $kept"
else
	go build -C tools/kube "${build[@]}" -o "$PWD/.engines/kube/kubeall" .
	cache_store "$kept" .engines/kube/kubeall
fi

# A Go module as well, which Go's checksum database holds to its content.
dir=$(cd / && go mod download -json sigs.k8s.io/gateway-api@v1.4.1 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
for kind in gateways httproutes gatewayclasses; do
	install -m 644 "$dir/config/crd/standard/gateway.networking.k8s.io_$kind.yaml" .engines/kube/crds/
done
finish kube "${from[@]}"
