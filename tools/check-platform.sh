#!/usr/bin/env bash
# Builds and vets everything, tests too, for one system: check-platform.sh GOOS/GOARCH.
set -euo pipefail
cd "$(dirname "$0")/.."

export GOOS=${1%/*} GOARCH=${1#*/} CGO_ENABLED=0
echo "building and vetting for $GOOS/$GOARCH"
go build ./...
go vet ./...
