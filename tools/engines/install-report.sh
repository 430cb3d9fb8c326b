#!/usr/bin/env bash
# Installs Chromium, and axe-core from npm into .engines/report: e2e:report opens reports
# with them. As root, with apt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=4.14.1
mode=${1:-}
command -v chromium >/dev/null || {
	[[ $mode != --check ]] || exit 1
	debian chromium
}
begin "$mode" report "${BASH_SOURCE[0]}"
mkdir -p .engines/report
command -v npm >/dev/null || debian npm
npm pack --silent --pack-destination .engines/report "axe-core@$version" >/dev/null
tar -xzf ".engines/report/axe-core-$version.tgz" -C .engines/report --strip-components 1 package/axe.min.js
rm ".engines/report/axe-core-$version.tgz"
finish report "${BASH_SOURCE[0]}"
