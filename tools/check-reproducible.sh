#!/usr/bin/env bash
# Builds the commit twice, in folders of different names and once without what was
# compiled before, and fails if the two programs differ in a byte.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git clone --quiet . "$tmp/a"
git clone --quiet . "$tmp/another folder"
echo "building $(git rev-parse --short HEAD) twice"
export CGO_ENABLED=0
(cd "$tmp/a" && go build -trimpath -o "$tmp/one" ./cmd/sweep)
(cd "$tmp/another folder" && GOCACHE="$tmp/cache" go build -trimpath -o "$tmp/two" ./cmd/sweep)
sha256sum "$tmp/one" "$tmp/two"
cmp "$tmp/one" "$tmp/two"
