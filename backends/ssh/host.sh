# What sweep runs on an SSH host. It arrives on the stdin of a /bin/sh, functions
# first and one call of them in the last line, so that a connection that is lost
# on the way leaves a shell with nothing to do. It needs a POSIX shell, /proc,
# setsid, and the awk, cat, grep, rm, tail, tr and wc of any Linux.
#
# A unit is one server of a pod. The first is called by the pod's NAME, any other
# NAME.ROLE.N. It is a folder of that name in the workdir with
#
#	marks   one NAME=VALUE a line: whose it is
#	ports   those that it was given, one a line
#	pid     of its first process, start in clock ticks, boot
#	log     what it said
#	status  how it ended, as a shell has it; oom behind it where that was it
#	gone    the pod's name is used up
#
# and every process of it has the unit's name in its environment as SWEEP_SSH_POD.
# The name is random, so that this is proof; a pid alone never is.
umask 077

sw_say() { printf '%s\n' "$*"; }

# sw_fail STATUS TEXT...: 90 is a mistake in what was asked for, 91 a port that is
# taken, 92 a name that is, 93 a unit that is not empty, 95 one that is none.
sw_fail() { sw_status=$1; shift; sw_say "$*" >&2; exit "$sw_status"; }

# sw_in WORKDIR: goes there.
sw_in() {
	mkdir -p -- "$1" && cd -- "$1" || sw_fail 90 "workdir $1 cannot be used"
	[ -w . ] || sw_fail 90 "workdir $1 cannot be written to"
}

# sw_stat PID: sets state, session and start; fails if there is none. The
# command's name may hold anything, so fields count from behind it.
sw_stat() {
	sw_line=
	{ IFS= read -r sw_line <"/proc/$1/stat"; } 2>/dev/null
	sw_fields=${sw_line##*) }
	[ "$sw_fields" != "$sw_line" ] || return 1
	set -- $sw_fields
	[ $# -ge 20 ] || return 1
	state=$1 session=$4 start=${20}
}

# sw_marked PREFIX: NAME PID START SESSION of every living process with a name
# that begins so. grep finds candidates, the exact line decides.
sw_marked() {
	grep -lF "SWEEP_SSH_POD=$1" /proc/[0-9]*/environ 2>/dev/null | while IFS= read -r sw_file; do
		pid=${sw_file#/proc/} pid=${pid%/environ}
		name=$(tr '\0' '\n' 2>/dev/null <"$sw_file" | sed -n '/^SWEEP_SSH_POD=sw-[a-z0-9][A-Za-z0-9._-]*$/{s/^SWEEP_SSH_POD=//p;q;}')
		case $name in "$1"*) ;; *) continue ;; esac
		sw_stat "$pid" || continue
		[ "$state" != Z ] && sw_say "$name $pid $start $session"
	done
} 2>/dev/null

# sw_members UNIT PID@START...: PID START ROOT of every living process of a unit. A server that
# writes its title over its environment has lost its mark; it is known as the
# descendant of a marked process, or by a session that only such are in, or from
# an earlier look. ROOT is 1 for those whose parent is none of them; they come
# first.
sw_members() {
	sw_found=$(
		sw_marked "$1" | awk -v name="$1" '$1 == name { print $2 }'
		shift
		for sw_known; do
			sw_stat "${sw_known%@*}" && [ "$start" = "${sw_known#*@}" ] && sw_say "${sw_known%@*}"
		done
	)
	[ -n "$sw_found" ] || return 0
	cat /proc/[0-9]*/stat 2>/dev/null | SW_FOUND=$sw_found awk '
		{
			pid = $1; sub(/^.*\) /, "")
			if ($1 != "Z" && NF >= 20) { parent[pid] = $2; session[pid] = $4; start[pid] = $20 }
		}
		END {
			n = split(ENVIRON["SW_FOUND"], found, "\n")
			for (i = 1; i <= n; i++) if (found[i] in start) { ours[found[i]] = 1; shared[session[found[i]]] = 1 }
			for (more = 1; more; ) {
				more = 0
				for (p in start) if (!(p in ours) && ((parent[p] in ours) || (session[p] in shared))) {
					ours[p] = 1; shared[session[p]] = 1; more = 1
				}
			}
			for (p in ours) if (!(parent[p] in ours)) print p, start[p], 1
			for (p in ours) if (parent[p] in ours) print p, start[p], 0
		}'
}

# sw_tools: what a host has to have, and what is good to have.
sw_tools() {
	for tool in setsid awk cat grep head rm sed sleep tail tr wc; do
		command -v "$tool" >/dev/null 2>&1 || sw_fail 90 "there is no $tool"
	done
	[ -r "/proc/$$/stat" ] && [ -r "/proc/$$/environ" ] || sw_fail 90 "there is no /proc to be read"
	for tool in python3 nvidia-smi; do
		command -v "$tool" >/dev/null 2>&1 && sw_say "has $tool"
	done
	return 0
}

# sw_survey WORKDIR: what a launch has to know.
sw_survey() {
	sw_tools
	sw_in "$1"
	sw_say "home $(pwd -P)"
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$2 ~ /:[0-9A-F]+$/ { sub(/^.*:/, "", $2); print "used", $2 }'
	awk '{ print "range", $1 }' /proc/sys/net/ipv4/ip_local_port_range 2>/dev/null
	cat sw-*/ports 2>/dev/null | awk '{ print "given", $1 }'
	return 0
}

# sw_free PORT...: fails if one is taken. A port that only has connections
# from here counts too: a server could not listen on it.
sw_free() {
	sw_taken=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v ports="$*" '
		BEGIN { n = split(ports, p, " "); for (i = 1; i <= n; i++) hex[sprintf(":%04X", p[i])] = p[i] }
		(substr($2, length($2) - 4) in hex) && $4 != "06" { print hex[substr($2, length($2) - 4)] }' | head -n 1)
	[ -z "$sw_taken" ] || sw_fail 91 "port $sw_taken is in use"
}

# sw_leader is the first process of a session. It writes down who it is before
# it starts anything: where its folder is gone, or its pod's name is used up, so is
# its reason to be.
sw_leader='
d=$1 gone=$2; shift 2
trap : TERM INT HUP
IFS= read -r s <"/proc/$$/stat" || exit 1
set_start() { start=${20}; }
set_start ${s##*) }
printf "%s %s %s\n" "$$" "$start" "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown)" >"$d/pid.new" && mv "$d/pid.new" "$d/pid" || exit 1
[ ! -e "$gone" ] || exit 1
killed() { cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control /proc/vmstat 2>/dev/null | awk "\$1 == \"oom_kill\" { n += \$2 } END { print n + 0 }"; }
before=$(killed)
"$@"
code=$? oom=
[ "$code" != 137 ] || [ "$(killed)" = "$before" ] || oom=oom
printf "%s %s\n" "$code" "$oom" >"$d/status.new" 2>/dev/null && mv "$d/status.new" "$d/status"
exit "$code"'

# sw_exec ARGV...: detaches the process of the unit.
sw_exec() {
	export SWEEP_SSH_POD SWEEP_SSH_DIR
	setsid /bin/sh -c "$sw_leader" sweep-ssh "$SWEEP_SSH_DIR" "$sw_gone" "$@" </dev/null >>"$SWEEP_SSH_DIR/log" 2>&1 &
}

# sw_start WORKDIR UNIT MARKS PORT...: starts what sw_process starts. mkdir is what
# makes a name used once.
sw_start() {
	sw_in "$1"
	SWEEP_SSH_POD=$2 SWEEP_SSH_DIR=$(pwd -P)/$2 sw_gone=$(pwd -P)/${2%%.*}/gone
	sw_marks=$3
	shift 3
	sw_free "$@"
	find . -maxdepth 2 -path './sw-*/gone' -mtime +1 2>/dev/null | while IFS= read -r sw_old; do rm -rf -- "${sw_old%/gone}"; done
	[ ! -e "$sw_gone" ] && mkdir -- "$SWEEP_SSH_POD" 2>/dev/null || sw_fail 92 "the name of $SWEEP_SSH_DIR is used up"
	sw_say "$sw_marks" >"$SWEEP_SSH_POD/marks" || sw_fail 94 "$SWEEP_SSH_DIR cannot be written to"
	for port; do sw_say "$port"; done >"$SWEEP_SSH_POD/ports"
	( sw_process ) || { # whoever has lost the connection learns of it by the status
		sw_status=$?
		sw_say "$sw_status" >"$SWEEP_SSH_DIR/status"
		exit "$sw_status"
	}
	sw_tries=0
	while [ ! -e "$SWEEP_SSH_DIR/pid" ]; do
		sw_tries=$((sw_tries + 1))
		[ "$sw_tries" -lt 200 ] || sw_fail 94 "it did not start: $(tail -c 500 "$SWEEP_SSH_DIR/log")"
		sleep 0.05 2>/dev/null || sleep 1
	done
	sw_say "home $(pwd -P)"
	sw_show "$SWEEP_SSH_POD"
}

# sw_show NAME...: what the folders here say.
sw_show() {
	for name; do
		[ -d "$name" ] && [ -O "$name" ] || continue
		sw_say "unit $name"
		[ ! -e "$name/gone" ] || sw_say "gone"
		[ ! -r "$name/marks" ] || sed 's/^/mark /' "$name/marks"
		[ ! -r "$name/pid" ] || sw_say "process $(cat "$name/pid")"
	done
}

# sw_look WORKDIR PREFIX: every unit with a name that begins so: its folder, and
# its marked processes.
sw_look() {
	if cd -- "$1" 2>/dev/null; then
		sw_say "home $(pwd -P)"
		sw_show "$2"*
	fi
	sw_marked "$2" | sed 's/^/live /'
}

# sw_kill UNIT PID@START...: SIGKILL to every process of the unit, looked up now. The roots
# last: by them the others are known.
sw_kill() {
	sw_members "$@" | sed '1!G;h;$!d' | while read -r pid old root; do
		sw_stat "$pid" && [ "$start" = "$old" ] && kill -s KILL "$pid" 2>/dev/null
	done
	return 0
}

# sw_ask UNIT: SIGTERM to the groups of the unit's roots, which see to the others.
sw_ask() {
	sw_members "$1" | while read -r pid old root; do
		[ "$root" = 1 ] && sw_stat "$pid" && [ "$start" = "$old" ] || continue
		if [ "$session" = "$pid" ]; then
			kill -s TERM -- "-$pid" 2>/dev/null
		else
			kill -s TERM "$pid" 2>/dev/null
		fi
	done
	return 0
}

# sw_remove WORKDIR UNIT: the folder of a unit that has no process. A name that is
# used up stays. What a version before has called NAME-N was process N of a pod.
sw_remove() {
	[ -z "$(sw_members "$2")" ] || sw_fail 93 "$2 still has processes"
	for sw_place in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do # where the bootstrap keeps its state
		for sw_d in "$sw_place/.sweep-$2" "$sw_place/.sweep-$2.files" "$sw_place/.sweep-$2-"*; do [ ! -O "$sw_d" ] || rm -rf -- "$sw_d"; done
	done
	cd -- "$1" 2>/dev/null || return 0
	[ ! -e "$2" ] || [ -O "$2" ] || sw_fail 94 "$2 belongs to somebody else"
	if [ -e "$2/gone" ]; then
		for sw_d in "$2"/*; do [ "$sw_d" = "$2/gone" ] || rm -rf -- "$sw_d" || sw_fail 94 "$sw_d cannot be removed"; done
	else
		rm -rf -- "$2" || sw_fail 94 "$2 cannot be removed"
	fi
}

# sw_forbid WORKDIR POD: uses up the name, so that a start under it that is still on
# its way fails, for each unit of the pod.
sw_forbid() {
	sw_in "$1"
	mkdir -- "$2" 2>/dev/null
	[ -d "$2" ] && [ -O "$2" ] && : >"$2/gone" || sw_fail 94 "$2 cannot be written to"
}

# sw_environ WORKDIR UNIT: the environment that a unit was started with.
sw_environ() {
	cd -- "$1" && read -r pid old boot <"$2/pid" || sw_fail 95 "$2 has no process that could be taken over"
	sw_stat "$pid" && [ "$start" = "$old" ] && cat "/proc/$pid/environ"
}

# sw_watch WORKDIR: answers "UNIT OFFSET" on stdin with a line
# "UNIT STATE STATUS BYTES [oom]" and so many bytes of the log from there. STATE is
# up, exited or lost. It ends with its stdin.
sw_watch() {
	cd -- "$1" || sw_fail 90 "$1 is gone"
	while read -r unit offset; do
		sw_state=lost sw_code=0 sw_oom=
		if read -r pid old boot <"$unit/pid"; then
			sw_stat "$pid" && [ "$start" = "$old" ] && [ "$state" != Z ] && sw_state=up
		elif [ -d "$unit" ] && [ ! -e "$unit/gone" ]; then
			sw_state=up # its start is still on its way
		fi 2>/dev/null
		if read -r sw_code sw_oom <"$unit/status"; then sw_state=exited; else sw_code=0; fi 2>/dev/null
		size=0
		[ "$offset" -lt 0 ] || size=$(wc -c <"$unit/log") 2>/dev/null || size=0
		size=$((size - offset))
		[ "$offset" -ge 0 ] && [ "$size" -ge 0 ] || size=0
		[ "$size" -le 262144 ] || size=262144
		sw_say "$unit $sw_state $sw_code $size $sw_oom"
		[ "$size" -eq 0 ] || tail -c "+$((offset + 1))" "$unit/log" | head -c "$size"
	done
}

# sw_run ARGV...: a command that ends when our side hangs up, with all that it
# has started. stdin is how we notice.
sw_run() {
	exec 3<&0
	setsid "$@" 3<&- </dev/null &
	pid=$!
	{ while read -r sw_line; do :; done; kill -s KILL -- "-$pid"; } <&3 >/dev/null 2>&1 &
	watcher=$!
	exec 3<&-
	wait "$pid"
	code=$?
	kill -s KILL "$watcher" 2>/dev/null
	exit "$code"
}

printf '\n%s\n' sweep-on-ssh
