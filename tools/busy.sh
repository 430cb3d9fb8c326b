#!/usr/bin/env bash
# Runs a command beside BUSY (4) processes that each keep a processor busy, and stops
# them when it ends. Wrong usage: exit 2.
set -euo pipefail
(($#)) || { echo "busy.sh: want a command" >&2; exit 2; }

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < ${BUSY:-4}; i++)); do
	bash -c 'while :; do :; done' &
	busy+=($!)
done
"$@"
