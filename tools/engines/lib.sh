# Shared by the install scripts of this folder, which source it. They run in
# the repository's root and put everything under .engines, which git ignores.
#
#   install-X.sh           makes .engines/X, or does nothing if it is up to date
#   install-X.sh --check   exits 0 only if it is up to date (Taskfile's status)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf 'engines: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# fingerprint FILE... names the state that an installation was made from.
fingerprint() { cat "$@" | sha256sum | cut -d' ' -f1; }

# current NAME FILE... succeeds if .engines/NAME was completely made from
# these files. The stamp is written last, so a broken installation has none.
current() {
	local stamp=".engines/$1/.stamp"
	shift
	[[ -f $stamp && $(<"$stamp") == "$(fingerprint "$@")" ]]
}

# begin MODE NAME FILE... ends the script if there is nothing to do, and
# otherwise clears the way for a new .engines/NAME.
begin() {
	local mode=$1 name=$2
	shift 2
	if current "$name" "$@"; then
		[[ $mode == --check ]] || say "$name is up to date"
		exit 0
	fi
	[[ $mode != --check ]] || exit 1
	[[ -z $mode ]] || die "usage: ${0##*/} [--check]"
	say "installing $name into .engines/$name"
	rm -rf ".engines/$name"
	mkdir -p .engines
}

# finish NAME FILE... records that .engines/NAME is complete.
finish() {
	local name=$1
	shift
	fingerprint "$@" >".engines/$name/.stamp"
	say "$name is ready"
}

# cache_folder NAME TEXT... prints the folder outside the checkout that keeps what is built
# from TEXT, such as hashes and flags, for every checkout of this user.
cache_folder() {
	local name=$1
	shift
	printf '%s/sweep-engines/%s-%s\n' "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}" "$name" \
		"$(printf '%s\n' "$@" | sha256sum | cut -c1-16)"
}

# cache_store DIR FILE keeps a copy of FILE in DIR, a cache_folder. It is whole or not
# there. The same of older versions goes after a month without use. A cache that cannot be
# written is none.
cache_store() {
	local all part
	all=$(dirname "$1")
	mkdir -p "$all" 2>/dev/null && part=$(mktemp -d "$all/.part.XXXXXX" 2>/dev/null) || return 0
	if cp "$2" "$part/" && chmod 755 "$part" && mv -T "$part" "$1" 2>/dev/null; then
		find "$all" -mindepth 1 -maxdepth 1 -name "$(basename "${1%-*}")-*" -mtime +30 -exec rm -rf {} +
	else
		rm -rf "$part"
	fi
}

# cache_load DIR FILE makes FILE a copy of the one in DIR, if DIR has it.
cache_load() {
	[[ -s $1/$(basename "$2") ]] && cp "$1/$(basename "$2")" "$2" && { touch "$1" 2>/dev/null || true; }
}

# debian PACKAGE... installs Debian packages that are missing.
debian() {
	say "installing with apt: $*"
	command -v apt-get >/dev/null || die "please install the equivalent of Debian's $* and try again"
	[[ $(id -u) == 0 ]] || die "please run: apt-get install $*"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# debian_stopped is debian for packages whose services Debian would start.
debian_stopped() {
	if [[ $(id -u) == 0 && ! -e /usr/sbin/policy-rc.d ]]; then
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod +x /usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	debian "$@"
}

# python prints a Python of at least 3.11 that can make virtual environments.
# $PYTHON overrides the choice.
python() {
	local p
	for p in "${PYTHON:-}" python3.11 python3 /usr/bin/python3 python3.12 python3.13; do
		[[ -n $p ]] || continue
		if "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			command -v "$p"
			return
		fi
	done
	return 1
}

# venv NAME makes an empty virtual environment .engines/NAME.
venv() {
	local p
	if ! p=$(python); then
		debian python3 python3-venv
		p=$(python) || die "no Python of at least 3.11 with the venv module; set PYTHON to one"
	fi
	"$p" -m venv ".engines/$1"
}

# pip NAME ARG... runs the pip of .engines/NAME.
pip() {
	local name=$1
	shift
	".engines/$name/bin/python" -m pip --disable-pip-version-check --no-input "$@" >&2
}

# shared_library NAME PACKAGE installs PACKAGE where the loader finds no NAME.
shared_library() {
	PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -qF "$1" || debian "$2"
}
