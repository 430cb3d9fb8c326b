#!/usr/bin/env bash
# Installs OpenSSH's server and key generator, which the tests start for
# themselves. Nothing is left running.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin

missing=()
command -v sshd >/dev/null || missing+=(openssh-server)
command -v ssh-keygen >/dev/null || missing+=(openssh-client)
if ((${#missing[@]} == 0)); then
	[[ ${1:-} == --check ]] || say "sshd is there"
	exit 0
fi
[[ ${1:-} != --check ]] || exit 1
debian_stopped "${missing[@]}"
