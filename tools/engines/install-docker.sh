#!/usr/bin/env bash
# Makes .engines/docker/rootfs.tar: the root file system of an image with
# llama.cpp's server in it, for the tests against Docker, which mount the model
# of install-llamacpp.sh into its containers. Installs Debian's docker.io, whose
# daemon the tests start for themselves, and debootstrap. 0.35 GB, about a
# minute and a half. Needs root, as the daemon does.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
from=(tools/engines/requirements-llamacpp.txt tools/engines/llama_serve.py tools/engines/install-docker.sh)

missing=()
command -v dockerd >/dev/null || missing+=(docker.io)
command -v iptables >/dev/null || missing+=(iptables)
command -v ip >/dev/null || missing+=(iproute2)
command -v debootstrap >/dev/null || missing+=(debootstrap)
if ((${#missing[@]})); then
	[[ ${1:-} != --check ]] || exit 1
	debian "${missing[@]}"
fi
[[ -s .engines/docker/rootfs.tar ]] || rm -f .engines/docker/.stamp
begin "${1:-}" docker "${from[@]}"
[[ $(id -u) == 0 ]] || die "please run this as root: debootstrap and dockerd need it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/rootfs

debootstrap --variant=minbase --include=python3,libgomp1,ca-certificates bookworm "$root" >"$work/log" 2>&1 ||
	{ tail -n 20 "$work/log" >&2; die "debootstrap failed"; }

# The wheel for the Python of the image, whatever ours is.
host=$(python) || die "no Python of at least 3.11; set PYTHON to one"
inside=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
grep -A 20 '^xllamacpp' tools/engines/requirements-llamacpp.txt >"$work/requirements.txt"
"$host" -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check --no-input install -q --require-hashes --no-deps \
	--only-binary=:all: --python-version "$inside" --target "$root/opt/llamacpp" -r "$work/requirements.txt" >&2
cp tools/engines/llama_serve.py "$root/opt/llama_serve.py"

# What no server reads.
rm -rf "$root"/var/cache/apt "$root"/var/lib/apt/lists "$root"/usr/share/{doc,man,locale,info} "$root"/var/log/*
mkdir -p "$root/var/cache/apt" "$root/models"
PYTHONPATH=/opt/llamacpp chroot "$root" python3 -c 'import xllamacpp'

mkdir -p .engines/docker
tar -C "$root" --numeric-owner -cf .engines/docker/rootfs.tar.part --exclude=./dev --exclude=./proc --exclude=./sys .
mv .engines/docker/rootfs.tar.part .engines/docker/rootfs.tar

finish docker "${from[@]}"
