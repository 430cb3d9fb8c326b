#!/usr/bin/env bash
# Installs systemd's checker and cron, with which e2e:schedule tries nightly runs. As
# root, with apt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
missing=()
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v cron >/dev/null || missing+=(cron)
[[ ${#missing[@]} -gt 0 ]] || exit 0
[[ ${1:-} != --check ]] || exit 1
debian "${missing[@]}"
