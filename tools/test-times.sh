#!/usr/bin/env bash
# Reads what go test ./... has printed, names each package that took over 120 s, and fails
# if one took over 240 s, or if the file has the time of no package: test-times.sh FILE
set -euo pipefail
(($# == 1)) || { echo "test-times.sh: want the output of go test" >&2; exit 2; }

awk -v warn=120 -v bound=240 '
	$1 == "ok" || $1 == "FAIL" && NF >= 3 {
		seconds = $3
		if (sub(/s$/, "", seconds) == 0) next
		packages++
		if (seconds + 0 > warn) printf "%s took %d s, over %d s\n", $2, seconds, warn
		if (seconds + 0 > bound) slow++
	}
	END {
		if (!packages) { print "no package has a time" > "/dev/stderr"; exit 1 }
		printf "%d packages with a time, %d of them over %d s\n", packages, slow, bound
		exit slow > 0
	}' "$1"
