#!/usr/bin/env bash
# Builds and vets everything, tests too, for one system: check-platform.sh GOOS/GOARCH.
set -euo pipefail
cd "$(dirname "$0")/.."

# As a release is built, so that its build finds all compiled.
export GOOS=${1%/*} GOARCH=${1#*/} CGO_ENABLED=0 GOFLAGS=-trimpath
echo "building and vetting for $GOOS/$GOARCH"
go build ./...
go vet ./...
