#!/usr/bin/env bash
# Builds the release of the commit twice, in folders of different names, and this
# system's part once more without what was compiled before. It fails if a byte differs.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git clone --quiet . "$tmp/a"
git clone --quiet . "$tmp/another folder"
echo "building the release of $(git rev-parse --short HEAD) twice"
go build -C tools/release -o "$tmp/release" .
"$tmp/release" -C "$tmp/a" -o "$tmp/one"
"$tmp/release" -C "$tmp/another folder" -o "$tmp/two" >/dev/null
diff -r "$tmp/one" "$tmp/two"
GOCACHE=$tmp/cache "$tmp/release" -C "$tmp/another folder" -o "$tmp/three" -only "$(go env GOOS)/$(go env GOARCH)" >/dev/null
(cd "$tmp/one" && sha256sum --quiet -c "$tmp/three/SHA256SUMS")
cat "$tmp/one/SHA256SUMS"
