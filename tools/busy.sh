#!/usr/bin/env bash
# Runs a command beside four processes that each keep a processor busy, and stops
# them when it ends. Wrong usage: exit 2.
set -euo pipefail
(($#)) || { echo "busy.sh: want a command" >&2; exit 2; }

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for _ in 1 2 3 4; do
	bash -c 'while :; do :; done' &
	busy+=($!)
done
"$@"
