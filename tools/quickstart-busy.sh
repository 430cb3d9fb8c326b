#!/usr/bin/env bash
# Runs the quick start COUNT times and prints how many runs ended with 0 and the
# longest time. It ends with 1 if a run ended otherwise or took 30 s; the directories of
# such runs stay, since their rows say what went wrong. A hypervisor that takes the
# machine's processors away spoils runs rightly, so its share is printed too.
# tools/busy.sh runs it beside busy processes. Wrong usage: exit 2.
set -euo pipefail
count=${1:?quickstart-busy.sh: want a COUNT}

work=$(mktemp -d)
trap 'rm -rf "$work/sweep" "$work/out" "$work/err"; rmdir --ignore-fail-on-non-empty "$work"' EXIT
go build -o "$work/sweep" ./cmd/sweep

# ticks prints the processors' time in all and what the hypervisor took of it.
ticks() { awk '$1 == "cpu" { print $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9, $9 }' /proc/stat; }

good=0 longest=0
read -r all0 stolen0 < <(ticks)
for ((i = 1; i <= count; i++)); do
	code=0 from=$(date +%s%N)
	"$work/sweep" run -o "$work/run$i" plans/quickstart.yaml >"$work/out" 2>"$work/err" || code=$?
	took=$((($(date +%s%N) - from) / 1000000))
	((took > longest)) && longest=$took
	if ((code == 0)); then
		good=$((good + 1))
		rm -rf "$work/run$i"
	else
		echo "run $i ended with $code, see $work/run$i:"
		grep -E '^(SLO|INVALID|FAILED)' "$work/out" || tail -3 "$work/err"
	fi
done
read -r all stolen < <(ticks)
permille=$((1000 * (stolen - stolen0) / (all - all0)))
printf '%d of %d runs of the quick start ended with 0, the longest took %d.%d s; the hypervisor took %d.%d %% of the processors\n' \
	"$good" "$count" $((longest / 1000)) $((longest % 1000 / 100)) $((permille / 10)) $((permille % 10))
((good == count && longest < 30000))
