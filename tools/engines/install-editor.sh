#!/usr/bin/env bash
# Makes .engines/editor: the YAML language server that editors run, which e2e:editor
# asks about plans. Needs Node.js 20 or newer with npm; 21 MB, seconds.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=(tools/engines/editor/package.json tools/engines/editor/package-lock.json tools/engines/install-editor.sh)
begin "${1:-}" editor "${from[@]}"

command -v npm >/dev/null || die "please install Node.js 20 or newer, with npm"
mkdir -p .engines/editor
cp "${from[@]:0:2}" .engines/editor/
npm ci --prefix .engines/editor --no-audit --no-fund --ignore-scripts >&2

finish editor "${from[@]}"
