#!/usr/bin/env bash
# Runs go test, and the tests that failed once more, by themselves: real engines, daemons
# and clusters keep each other waiting. What fails again is an error, and at once so are a
# data race, a panic and a package that does not build. Wrong usage: exit 2.
#
#	again.sh go test FLAGS... ./PACKAGE...
set -euo pipefail
[[ ${1-} == go && ${2-} == test ]] || { echo "again.sh: want go test and its arguments" >&2; exit 2; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
rc=0
"$@" 2>&1 | tee "$log" || rc=$?
((rc)) || exit 0
tests=$(sed -n 's/^--- FAIL: \([[:alnum:]_]*\) .*/\1/p' "$log" | sort -u | paste -sd '|')
mapfile -t packages < <(sed -n 's/^FAIL\t\([^[:space:]]*\)\t[0-9.]*s$/\1/p' "$log")
if [[ -z $tests || ${#packages[@]} -eq 0 ]] || grep -qE '^(panic:|WARNING: DATA RACE|FAIL[[:space:]].*\[)' "$log"; then
	exit "$rc"
fi
flags=()
for word; do
	[[ $word == ./* ]] || flags+=("$word")
done
printf '\n== again, by themselves: %s\n' "$tests"
"${flags[@]}" -run "^($tests)\$" "${packages[@]}"
printf '\n== FAILED ONCE, passed by themselves: %s\n' "$tests"
