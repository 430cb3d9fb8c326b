#!/usr/bin/env bash
# Makes the generated files again and fails if one of them changes.
set -euo pipefail
cd "$(dirname "$0")/.."

files=(schemas docs result/col)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for f in "${files[@]}"; do
	mkdir -p "$before/$(dirname "$f")"
	cp -R "$f" "$before/$f"
done
go generate ./...
for f in "${files[@]}"; do
	diff -ru "$before/$f" "$f" || { echo "check-generated: $f was not current: commit the output of go generate ./..." >&2; exit 1; }
done
