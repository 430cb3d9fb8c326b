#!/usr/bin/env bash
# Builds everything for one system, and vets it with its tests: check-platform.sh GOOS/GOARCH.
set -euo pipefail
cd "$(dirname "$0")/.."

# As a release is built, so that its build finds all compiled.
export GOOS=${1%/*} GOARCH=${1#*/} CGO_ENABLED=0 GOFLAGS=-trimpath
echo "building for $GOOS/$GOARCH"
go build ./...
# Vet sees on amd64 all that it would see on another architecture that no file names.
if [[ $GOARCH == amd64 ]] || git grep -qE "^//go:build .*$GOARCH" -- '*.go' || [[ $(git ls-files "*_$GOARCH.go" "*_${GOARCH}_test.go") ]]; then
	echo "vetting for $GOOS/$GOARCH"
	go vet ./...
fi
