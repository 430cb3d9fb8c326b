#!/bin/sh
# One night of the plan {{.Name}}. Made by sweep schedule.
set -u

# A night that is still at work is not joined by the next one. --close: what a night
# starts does not hold the lock. This is done before cd, since $0 may be relative.
if [ "${SWEEP_NIGHT:-}" != {{sh .Name}} ]; then
	SWEEP_NIGHT={{sh .Name}} exec flock --nonblock --close --conflict-exit-code 6 {{sh .Lock}} /bin/sh "$0"
fi
cd {{sh .Dir}} || exit 1

# Keys and secrets of the plan, one NAME=VALUE a line; for its owner alone (chmod 600).
if [ -e ./sweep.env ]; then
	set -a
	. ./sweep.env
	set +a
fi

night=runs/{{.Name}}-$(date -u +%Y%m%dT%H%M%SZ)
# --max-time ends the measuring; timeout ends what does not end by itself, and after
# {{.Grace}} the run is killed: then its pods are left to the timer of sweep gc.
timeout --preserve-status --kill-after={{.GraceS}}s {{.LimitS}}s \
	{{sh .Exe}} run --yes --max-time {{.MaxTime}}{{if .MaxCost}} --max-cost {{.MaxCost}}{{end}}{{range .Flags}} {{sh .}}{{end}} -o "$night" {{sh .Plan}}
code=$?

if [ -e "$night/journal.jsonl" ]; then
	{{sh .Exe}} night gate --history {{sh .History}} "$night"
	judged=$?
	# A regression is said before a missed objective, and after everything else.
	case $code,$judged in
	*,0) ;;
	0,* | 99,*) code=$judged ;;
	esac
	{{sh .Exe}} report "$night" || true
fi
{{sh .Exe}} runs prune --keep {{.Keep}} --yes runs || true
{{- if .Notify}}

if [ "$code" -ne 0 ]; then
	{{.Notify}} {{sh .Name}} "exit $code" "$night/report.html"
fi
{{- end}}
exit "$code"
