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
# Debian would start its service on port 22.
if [[ $(id -u) == 0 && ! -e /usr/sbin/policy-rc.d ]]; then
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod +x /usr/sbin/policy-rc.d
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
debian "${missing[@]}"
