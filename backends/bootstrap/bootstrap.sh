#!/bin/sh
# The first process of a rented container, or a detached one on a rented host.
# It starts the engine, which is "$@", and ends it when its time is over,
# whatever has become of whoever rented the place. It needs a POSIX sh and
# sleep; every other program makes it better where it is there.
#
# What it is told, by the environment:
#
#   SWEEP_NAME        unique to the pod; names the folder of its state
#   SWEEP_LIFETIME    seconds that the engine may run, from the first start on
#   SWEEP_EXPIRES     when the pod has to be gone, in seconds since the epoch
#   SWEEP_HEARTBEAT   seconds that it lives without a beat; 0 needs none
#   SWEEP_GRACE       seconds between SIGTERM and SIGKILL
#   SWEEP_HOLD        1: stay when the engine has ended by itself
#   SWEEP_LOG         a file for the engine's output, besides stdout
#   SWEEP_AGENT_PORT  where the agent listens; 0 is no agent
#   SWEEP_AGENT_HOST  the address of that
#   SWEEP_AGENT_PY    the agent's source
#   SWEEP_TOKEN       the key by which requests to the agent are signed
#   SWEEP_FILES       a folder, made for the files that the engine is configured
#                     with and removed at the end
#   SWEEP_FILE_0_NAME, SWEEP_FILE_0_TEXT
#                     the first of them; the next has a 1, and so on
#   SWEEP_REPLICAS    several engines as JSON; "$@" starts them then
#   SWEEP_END_0       how the pod asks its provider for its own end, in lines:
#                     method, URL, a header, body, which statuses say that it
#                     was done, and what that was. ${NAME} in the first three is
#                     a variable of the environment. SWEEP_END_1 is what it asks
#                     for where it is refused that
#   SWEEP_END_SECRETS variables in those that the engine does not get
#
# Nothing below redirects a special builtin (:, exec, trap): where that fails,
# a shell ends, and with it the switch.
set -u

# No secret stays in the environment: each goes to the one program that needs
# it. What the engine may see of the rest are the marks of the pod.
name=${SWEEP_NAME:-} lifetime=${SWEEP_LIFETIME:-} expires=${SWEEP_EXPIRES:-0}
heartbeat=${SWEEP_HEARTBEAT:-0} grace=${SWEEP_GRACE:-10} hold=${SWEEP_HOLD:-0}
log=${SWEEP_LOG:-} port=${SWEEP_AGENT_PORT:-0} host=${SWEEP_AGENT_HOST:-0.0.0.0}
source=${SWEEP_AGENT_PY:-} token=${SWEEP_TOKEN:-} files=${SWEEP_FILES:-}
end=${SWEEP_END_0:-} instead=${SWEEP_END_1:-} secrets=${SWEEP_END_SECRETS:-}
unset SWEEP_NAME SWEEP_LIFETIME SWEEP_HEARTBEAT SWEEP_GRACE SWEEP_HOLD SWEEP_LOG
unset SWEEP_AGENT_PORT SWEEP_AGENT_HOST SWEEP_AGENT_PY SWEEP_TOKEN SWEEP_FILES
unset SWEEP_END_0 SWEEP_END_1 SWEEP_END_SECRETS
newline='
'
# fill replaces each ${NAME} in $filled. It fails, and missing is the name, if
# one is empty or not what an id or a key is.
missing=''
fill() {
	whole=''
	while true; do
		case $filled in
		*'${'*'}'*) ;;
		*) break ;;
		esac
		whole=$whole${filled%%'${'*}
		filled=${filled#*'${'}
		missing=${filled%%'}'*}
		filled=${filled#*'}'}
		case $missing in
		'' | *[!A-Za-z0-9_]* | [0-9]*) return 1 ;;
		esac
		eval "value=\${$missing:-}"
		case $value in
		'' | *[!A-Za-z0-9._~+/=-]*) return 1 ;;
		esac
		whole=$whole$value
	done
	filled=$whole$filled missing=''
}
cannot=''
filled=$end
fill || cannot=$missing
end=$filled filled=$instead
[ -n "$cannot" ] || fill || cannot=$missing
instead=$filled
for secret in $secrets; do
	unset "$secret"
done

dir='' deadline=0 now=0 ticks=0 asked='' ending=''
engine='' reaped='' ended='' sink='' agent='' napper='' agent_since=0 agent_failed=0 beats_from=0

# say prints one line, here and in the engine's log. While the pod is ending
# nothing may wait for whoever reads stdout, or does not.
say() {
	if [ -n "$log" ]; then
		printf 'sweep-bootstrap: %s\n' "$*" 2>/dev/null >>"$log"
	fi
	if [ -n "$ending" ]; then
		printf 'sweep-bootstrap: %s\n' "$*" &
	else
		printf 'sweep-bootstrap: %s\n' "$*"
	fi
}

has() { command -v "$1" >/dev/null 2>&1; }

is_number() {
	case $1 in
	'' | *[!0-9]* | 0?* | ????????????*) return 1 ;;
	esac
}

# clock sets now to seconds of a clock that nobody sets: the machine's uptime,
# or the turns of the main loop if there is none.
clock() {
	if read -r now _ 2>/dev/null </proc/uptime; then
		now=${now%%.*}
	else
		now=$ticks
	fi
}

# nap waits, and a signal ends the waiting. To wait for a child is also what
# reaps every other one, which the first process of a container has to do.
nap() {
	sleep "$1" &
	napper=$!
	wait "$napper" || kill "$napper" 2>/dev/null
}

# ---- the lifetime

# by_wall sets wall to the seconds until SWEEP_EXPIRES, at most the lifetime.
by_wall() {
	wall=$lifetime
	[ "$expires" -gt 0 ] || return 0
	today=$(date +%s 2>/dev/null) && is_number "$today" || return 0
	if [ $((expires - today)) -lt "$wall" ]; then
		wall=$((expires - today))
	fi
}

# lifetime_left sets deadline on the uptime's scale. The first start is
# remembered on the container's own disk, so that a restart gets no new life.
# Without that memory, or across a reboot of the machine, the wall clock is
# asked, once.
lifetime_left() {
	boot=-
	read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
	clock
	was_boot='' was_start='' was_deadline='' was_left=''
	if [ -n "$dir" ]; then
		read -r was_boot was_start was_deadline was_left _ 2>/dev/null <"$dir/life"
	fi
	start=$now
	if is_number "$was_start" && is_number "$was_deadline" && is_number "$was_left"; then
		if [ "$was_boot" = "$boot" ] && [ "$now" -ge "$was_start" ]; then
			start=$was_start
			deadline=$was_deadline
		else
			by_wall
			[ "$was_left" -ge "$wall" ] || wall=$was_left
			deadline=$((now + wall))
			printf '%20d\n' 0 2>/dev/null >"$dir/beat"
			printf '%20d\n' 0 2>/dev/null >"$dir/keep"
		fi
	else
		by_wall
		deadline=$((now + wall))
	fi
	remember
}

remember() {
	[ -n "$dir" ] || return 0
	left=$((deadline - now))
	[ "$left" -gt 0 ] || left=0
	[ "$deadline" -gt 0 ] || deadline=0
	printf '%s %s %s %s\n' "$boot" "$start" "$deadline" "$left" 2>/dev/null >"$dir/life"
}

# ---- the engine

# launch becomes the engine, in a session of its own where that can be had. The
# mark finds its descendants when they have left that session. Our number is in it
# because one create may make two pods of a name, where both can see each other's
# processes.
launch() {
	SWEEP_SWITCH=$name.$$.
	export SWEEP_SWITCH
	if [ -n "${SWEEP_REPLICAS:-}" ]; then
		SWEEP_STATE=$dir
		export SWEEP_STATE
	fi
	if has setsid; then
		exec setsid "$@"
	elif has python3; then
		exec python3 -IS -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@"
	else
		exec "$@"
	fi
}

# write_files puts what the engine is configured with where its command line
# says that it is, and takes it out of the environment.
write_files() {
	[ -n "$files" ] || return 0
	if ! (umask 077 && mkdir "$files") 2>/dev/null; then
		[ -d "$files" ] && [ ! -L "$files" ] || return 1 # of an earlier start
	fi
	count=0 file='' text=''
	while true; do
		eval "file=\${SWEEP_FILE_${count}_NAME:-} text=\${SWEEP_FILE_${count}_TEXT:-}"
		case $file in
		'') return 0 ;;
		. | .. | *[!A-Za-z0-9._-]*) return 1 ;;
		esac
		(umask 077 && printf '%s' "$text" >"$files/$file") 2>/dev/null || return 1
		unset "SWEEP_FILE_${count}_NAME" "SWEEP_FILE_${count}_TEXT"
		count=$((count + 1))
	done
}

# drain copies the engine's output to the log and to stdout; when stdout breaks,
# the log goes on.
drain() {
	tee -a "$log" || cat >>"$log"
}

start_engine() {
	if [ -n "$dir" ]; then
		rm -f "$dir/exit" "$dir/out" "$dir"/start.* "$dir"/exit.* 2>/dev/null
	fi
	if [ -n "$log" ] && [ -n "$dir" ] && has tee && mkfifo "$dir/out" 2>/dev/null; then
		drain <"$dir/out" &
		sink=$!
		launch "$@" >"$dir/out" 2>&1 &
	else
		launch "$@" 2>&1 &
	fi
	engine=$!
	[ -z "$dir" ] || printf '%s\n' "$engine" 2>/dev/null >"$dir/engine"
}

# trim_log empties a log that would fill the disk. Offsets into it go on.
trim_log() {
	[ -n "$log" ] && [ -n "$dir" ] || return 0
	size=$(wc -c 2>/dev/null <"$log")
	size=${size##* }
	is_number "$size" && [ "$size" -gt 268435456 ] || return 0
	read_number base
	printf '' 2>/dev/null >"$log"
	printf '%s\n' $((number + size)) 2>/dev/null >"$dir/base"
}

# marked prints the environments of all processes that carry the engine's mark. A
# shell reads a byte at a time: a hundred large environments take it a second of
# processor. grep does it where it reads on after a NUL.
marked() {
	if printf 'a\000b' | grep -qF b 2>/dev/null; then
		grep -lF "SWEEP_SWITCH=$name.$$." /proc/[0-9]*/environ 2>/dev/null
		return
	fi
	for environ in /proc/[0-9]*/environ; do
		while IFS= read -r line || [ -n "$line" ]; do
			case $line in
			*"SWEEP_SWITCH=$name.$$."*) printf '%s\n' "$environ" && break ;;
			esac
		done 2>/dev/null <"$environ"
	done
}

# signal_marked sends a signal to all that carry the engine's mark and sets
# found to how many there were.
signal_marked() {
	found=0
	for process in $(marked); do
		process=${process#/proc/}
		if kill -s "$1" "${process%/environ}" 2>/dev/null; then
			found=$((found + 1))
		fi
	done
}

# signal_engine sends a signal to the engine's group, or to the engine alone
# where it could not get one. With the signal 0 it says whether that is there.
# The number of an engine that was waited for may be somebody else's by now.
signal_engine() {
	kill -s "$1" -- "-$engine" 2>/dev/null ||
		{ [ -z "$reaped" ] && kill -s "$1" "$engine" 2>/dev/null; }
}

# stop_engine ends the engine and all that it has started: SIGTERM, the grace,
# SIGKILL.
stop_engine() {
	[ -n "$engine" ] || return 0
	short=0.2
	sleep 0.01 2>/dev/null || short=1 # one that knows no parts of a second
	signal_engine TERM
	signal_engine CONT # one that is stopped takes no other signal, and would use up its grace
	clock
	until=$((now + grace))
	while signal_engine 0 && [ "$now" -lt "$until" ]; do
		nap "$short"
		ticks=$((ticks + 1))
		clock
	done
	if signal_engine 0; then
		say "the engine did not end within $grace s of SIGTERM: SIGKILL"
		signal_engine KILL
	fi
	for _ in 1 2 3; do
		signal_marked KILL
		[ "$found" -gt 0 ] || break
	done
	for _ in 1 2 3 4 5; do
		signal_engine 0 || break
		nap "$short"
	done
	for _ in 1 2 3 4 5; do # the last lines of the output
		if [ -z "$sink" ] || ! kill -s 0 "$sink" 2>/dev/null; then
			break
		fi
		nap "$short"
	done
	status=${ended:-137}
	if [ -z "$reaped" ] && ! kill -s 0 "$engine" 2>/dev/null; then
		wait "$engine" # which does not block: one that cannot even be killed is not waited for
		status=$?
	fi
	engine=''
	[ -z "$dir" ] || printf '%s\n' "$status" 2>/dev/null >"$dir/exit"
}

# engine_ended reports an engine that nobody has asked to end.
engine_ended() {
	wait "$engine"
	ended=$?
	reaped=1
	why=''
	if [ "$ended" -gt 128 ]; then
		why=" (signal $(kill -l "$((ended - 128))" 2>/dev/null))"
	fi
	say "engine exited with status $ended$why"
	stop_engine
	if [ "$hold" != 1 ]; then
		leave "$ended"
	fi
	say "the pod stays until it is ended or its time is over"
}

# ---- the agent

start_agent() {
	if ! has python3; then
		say "no python3: no agent and no heartbeat, the lifetime alone ends this pod"
		port=0
		return
	fi
	clock
	agent_since=$now
	SWEEP_TOKEN=$token SWEEP_DIR=$dir SWEEP_LOG=$log SWEEP_DEADLINE=$deadline \
		SWEEP_AGENT_HOST=$host SWEEP_AGENT_PORT=$port SWEEP_GRACE=$grace python3 -IS - <<-SOURCE 2>&1 &
		$source
	SOURCE
	agent=$!
}

check_agent() {
	if kill -s 0 "$agent" 2>/dev/null; then
		return
	fi
	wait "$agent"
	status=$?
	if [ $((now - agent_since)) -gt 60 ]; then
		agent_failed=0
	fi
	agent_failed=$((agent_failed + 1))
	if [ "$agent_failed" -ge 5 ]; then
		say "the agent ended with status $status, the fifth time: no heartbeat any more, the lifetime alone ends this pod"
		agent='' port=0
		return
	fi
	say "the agent ended with status $status: it is started again"
	start_agent
}

# read_number sets number to what a file of the state says, 0 if it does not.
read_number() {
	number=0
	read -r number _ 2>/dev/null <"$dir/$1"
	is_number "$number" || number=0
}

# beating says whether the pod may live on as far as heartbeats go.
beating() {
	[ "$port" != 0 ] || return 0
	read_number keep
	if [ "$heartbeat" -gt 0 ]; then
		limit=$number
		read_number beat
		[ "$number" -ge "$beats_from" ] || number=$beats_from
		[ "$limit" -ge $((number + heartbeat)) ] || limit=$((number + heartbeat))
	else
		limit=$number
	fi
	[ "$limit" -eq 0 ] || [ "$now" -lt "$limit" ]
}

# ---- the end

# take sets line to the next line of $lines, and takes it off.
take() {
	line=${lines%%"$newline"*}
	case $lines in
	*"$newline"*) lines=${lines#*"$newline"} ;;
	*) lines='' ;;
	esac
}

# ask sends one request to the provider and sets code to the answer's status,
# 000 if there was none, and did to what it was for, if that is done. The header
# is on no command line: it travels by stdin, by a variable or by a file that nobody
# else can read.
ask() {
	lines=$1 code=000 did=''
	take
	method=$line
	take
	url=$line
	take
	header=$line
	take
	body=$line
	take
	well=$line
	take
	words=$line
	if has curl; then
		set -- -q -K - -sS -X "$method" -o /dev/null -w '%{http_code}' --connect-timeout 10 --max-time 30 -A sweep-bootstrap/1
		if [ -n "$body" ]; then
			set -- "$@" -H 'Content-Type: application/json' --data "$body"
		fi
		code=$(printf 'header = "%s"\n' "$header" | curl "$@" "$url" 2>/dev/null)
	elif has python3; then
		code=$(
			SWEEP_END_HEADER=$header python3 -IS -c '
import os, sys, urllib.error, urllib.request
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None
method, url, body = sys.argv[1:]
name, _, value = os.environ["SWEEP_END_HEADER"].partition(": ")
headers = {name: value, "User-Agent": "sweep-bootstrap/1"}
if body:
    headers["Content-Type"] = "application/json"
request = urllib.request.Request(url, data=body.encode() or None, headers=headers, method=method)
try:
    print(urllib.request.build_opener(Stay).open(request, timeout=30).getcode())
except urllib.error.HTTPError as e:
    print(e.code)
' "$method" "$url" "$body" 2>/dev/null
		)
	elif [ -n "$dir" ] && wget --version >/dev/null 2>&1; then # not the small one of busybox
		(umask 077 && printf 'header = %s\nheader = Content-Type: application/json\nmax_redirect = 0\n' "$header" 2>/dev/null >"$dir/wgetrc")
		code=$(wget --config="$dir/wgetrc" -S -O /dev/null -t 1 -T 30 -U sweep-bootstrap/1 \
			--method="$method" --body-data="$body" "$url" 2>&1 | while read -r word number _; do
			case $word in HTTP/*) printf '%s' "$number" && break ;; esac
		done)
		rm -f "$dir/wgetrc"
	else
		code=none
	fi
	[ -n "$code" ] || code=000
	case " $well " in
	*" $code "*) did=$words ;;
	esac
}

# give_back asks the provider to end this pod, as long as the container lives; for
# less, where it may not end itself.
give_back() {
	[ -n "$end" ] || return 0
	if [ -n "$cannot" ]; then
		say "$cannot is missing or not what it should be: the pod cannot delete itself"
		return
	fi
	delay=1 refused=0
	while [ "$asked" != TERM ]; do
		ask "$end"
		case $did$code in
		401 | 403)
			if [ -n "$instead" ]; then
				say "the pod may not delete itself (HTTP $code): it asks for less"
				ask "$instead"
			fi
			;;
		esac
		case $did$code in
		401 | 403)
			refused=$((refused + 1))
			if [ "$refused" -ge 3 ]; then
				say "the pod may neither delete nor stop itself (HTTP $code)"
				stuck=1
				return
			fi
			;;
		none)
			say "no curl, python3 or wget: the pod cannot delete itself"
			return
			;;
		esac
		if [ -n "$did" ]; then
			say "the pod is $did (HTTP $code)"
			return
		fi
		say "the pod is not deleted yet (HTTP $code): trying again in $delay s"
		nap "$delay"
		delay=$((delay * 2))
		[ "$delay" -le 60 ] || delay=60
	done
}

# finish ends the pod for good: a container that its provider starts again finds
# that it is over.
finish() {
	ending=1
	[ -z "$dir" ] || printf '%s\n' "$1" 2>/dev/null >"$dir/over"
	say "$1: the pod ends"
	stop_engine
	stuck=''
	give_back
	# A provider that starts the container again whenever it ends is not asked
	# the same thing every second.
	[ -z "$stuck" ] || [ "$hold" != 1 ] || nap 60
	leave "$2"
}

# leave ends the container. As its first process it takes along what has neither
# the engine's group nor its mark.
leave() {
	[ -z "$agent" ] || kill "$agent" 2>/dev/null
	[ -z "$files" ] || rm -rf "$files" 2>/dev/null
	nap 0.2 2>/dev/null
	if [ "$$" = 1 ]; then
		kill -s KILL -- -1 2>/dev/null
	fi
	exit "$1"
}

# ---- main

trap 'asked=TERM' TERM INT
trap '[ -n "$asked" ] || asked=END' USR1
trap 'true' HUP PIPE # handled, not ignored: the engine would inherit that

for number in "$lifetime" "$expires" "$heartbeat" "$grace" "$port"; do
	if ! is_number "$number"; then
		say "\"$number\" is no number: the engine is not started"
		exit 2
	fi
done
case $name in
'' | .* | *[!A-Za-z0-9._-]*)
	say "SWEEP_NAME is not a name: the engine is not started"
	exit 2
	;;
esac
if [ $# -eq 0 ] || ! has sleep; then
	say "no command to start, or no sleep to count with: the engine is not started"
	exit 2
fi

for place in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
	dir=$place/.sweep-$name
	(umask 077 && mkdir "$dir") 2>/dev/null || [ -d "$dir" ] || continue
	if [ ! -L "$dir" ] && printf '' 2>/dev/null >"$dir/probe"; then
		break
	fi
done
if [ ! -e "$dir/probe" ]; then
	dir=''
	say "no place to write: no agent, and a restart is told by the wall clock"
	port=0
fi
if [ -z "$log" ] && [ "$port" != 0 ]; then
	log=$dir/log
fi

lifetime_left
clock
if [ -n "$dir" ] && [ -e "$dir/over" ]; then
	deadline=$now
	read -r why 2>/dev/null <"$dir/over"
	finish "it was over before this start ($why), the engine is not started" 124
elif [ "$now" -ge "$deadline" ]; then
	finish "the lifetime was over before this start, the engine is not started" 124
fi
if ! write_files; then
	say "the engine's files cannot be written to $files: the engine is not started"
	leave 2
fi
say "the engine starts, this pod ends in $((deadline - now)) s at the latest"
start_engine "$@"
beats_from=$now
[ "$port" = 0 ] || start_agent

while true; do
	nap 1
	ticks=$((ticks + 1))
	clock
	case $asked in
	TERM)
		say "SIGTERM: the engine ends"
		ending=1
		stop_engine
		leave 143
		;;
	END) finish "the pod was told to end" 0 ;;
	esac
	if [ "$now" -ge "$deadline" ]; then
		finish "the lifetime is over" 124
	fi
	if ! beating; then
		finish "no heartbeat for too long" 124
	fi
	if [ -n "$engine" ] && ! kill -s 0 "$engine" 2>/dev/null; then
		engine_ended
	fi
	[ -z "$agent" ] || check_agent
	if [ $((ticks % 30)) -eq 0 ]; then
		remember
		trim_log
	fi
done
