package docker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends/host"
)

// nameVar is in the environment of every process that was started inside
// somebody else's container: its unit's.
const nameVar = "SWEEP_DOCKER_POD"

// surveyScript prints what runs in a container and who listens there, for
// parseSurvey. It needs sh, cat, grep, tr and ls. Its argument is "all" for the
// sockets of all processes, with the commands of those that have any, else only for the
// sockets of those that carry our name.
const surveyScript = `
for f in /proc/net/tcp /proc/net/tcp6; do
	[ -r $f ] && echo "@tcp" && grep " 0A " $f
done
echo "@stat"
cat /proc/[0-9]*/stat 2>/dev/null
ours=$(grep -l ` + nameVar + `= /proc/[0-9]*/environ 2>/dev/null)
for f in $ours; do
	p=${f#/proc/}; p=${p%/environ}
	echo "@environ $p"
	tr '\n\0' ' \n' <$f 2>/dev/null; echo
done
all=$1
set --
[ "$all" = all ] && set -- /proc/[0-9]*/fd
[ "$all" = all ] || for f in $ours; do set -- "$@" "${f%/environ}/fd"; done
fds=$(ls -l "$@" /proc/self/fd 2>/dev/null) # with self, there are two at least: each has its name before it
echo "@fd"
printf '%s\n' "$fds"
[ "$all" = all ] || exit 0
set -f
IFS='
'
for l in $fds; do
	case $l in
	/proc/*/fd:) p=${l#/proc/}; p=${p%/fd:} ;;
	*"socket:["*)
		[ "$p" ] && echo "@cmdline $p" && tr '\n\0' '  ' </proc/$p/cmdline 2>/dev/null; echo
		p=
	esac
done
true
`

// A survey is what ran in a container at one moment.
type survey struct {
	listening map[int][]string       // the inodes of the sockets that listen, by port
	processes map[int]*insideProcess // by pid, as the container numbers them
}

// An insideProcess is one process of a container.
type insideProcess struct {
	pid, parent, group, session int
	start                       uint64 // with pid, one process for good
	command                     string // "" if it was not asked
	environ                     map[string]string
	sockets                     []string // inodes
	follows                     bool     // it, or who has started it, only reads the log for us
}

// token names the process for killScript.
func (p *insideProcess) token() string { return fmt.Sprintf("%d:%d", p.pid, p.start) }

// look surveys a container.
func (b *Backend) look(ctx context.Context, id string, all bool) (survey, error) {
	argument := ""
	if all {
		argument = "all"
	}
	out, err := b.exec(ctx, id, client.ExecCreateOptions{Cmd: []string{"/bin/sh", "-c", surveyScript, "sweep-look", argument}})
	if err != nil {
		return survey{}, fmt.Errorf("look into the container: %w", err)
	}
	return parseSurvey(out)
}

// parseSurvey reads what surveyScript prints. Processes come and go while it
// runs: what is incomplete is left out.
func parseSurvey(out []byte) (survey, error) {
	s := survey{listening: map[int][]string{}, processes: map[int]*insideProcess{}}
	var part string
	var about *insideProcess
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, host.MaxOutput)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "@"); ok {
			name, pid, _ := strings.Cut(name, " ")
			n, _ := strconv.Atoi(pid)
			part, about = name, s.processes[n]
			continue
		}
		switch part {
		case "tcp":
			if port, inode, ok := parseListener(line); ok && !slices.Contains(s.listening[port], inode) {
				s.listening[port] = append(s.listening[port], inode)
			}
		case "stat":
			if p, ok := parseStat(line); ok {
				s.processes[p.pid] = p
			}
		}
		if dir, ok := strings.CutSuffix(line, "/fd:"); ok && part == "fd" {
			pid, _ := strconv.Atoi(strings.TrimPrefix(dir, "/proc/"))
			about = s.processes[pid]
		}
		if about == nil {
			continue
		}
		switch part {
		case "environ":
			if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "SWEEP_") {
				about.environ[name] = value
			}
		case "fd":
			if _, inode, ok := strings.Cut(line, "-> socket:["); ok {
				about.sockets = append(about.sockets, strings.TrimSuffix(inode, "]"))
			}
		case "cmdline":
			about.command = cmp.Or(about.command, strings.TrimSpace(line))
		}
	}
	if err := lines.Err(); err != nil {
		return survey{}, err
	}
	if len(s.processes) == 0 {
		return survey{}, fmt.Errorf("look into the container: no process in %q", firstLine(out))
	}
	return s, nil
}

func firstLine(out []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return string(line[:min(len(line), 200)])
}

// parseListener reads one line of /proc/net/tcp: sl local rem st tx:rx tr:when
// retrnsmt uid timeout inode. State 0A listens.
func parseListener(line string) (port int, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return 0, "", false
	}
	i := strings.LastIndexByte(f[1], ':')
	n, err := strconv.ParseUint(f[1][i+1:], 16, 16)
	return int(n), f[9], i >= 0 && err == nil
}

// parseStat reads /proc/<pid>/stat; a command may hold spaces and brackets.
func parseStat(line string) (*insideProcess, bool) {
	head, _, ok := strings.Cut(line, " ")
	i := strings.LastIndex(line, ") ")
	if !ok || i < 0 {
		return nil, false
	}
	f := strings.Fields(line[i+2:]) // from field 3 on
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return nil, false // a zombie holds no port, and waits for its parent in the container
	}
	p := &insideProcess{environ: map[string]string{}}
	var errs [5]error
	p.pid, errs[0] = strconv.Atoi(head)
	p.parent, errs[1] = strconv.Atoi(f[1])
	p.group, errs[2] = strconv.Atoi(f[2])
	p.session, errs[3] = strconv.Atoi(f[3])
	p.start, errs[4] = strconv.ParseUint(f[19], 10, 64)
	return p, errs == [5]error{}
}

// of returns the processes of a unit, in the order of their pids: those that
// carry its name, their descendants, and everybody in a session that one of
// them leads.
func (s survey) of(name string) []*insideProcess {
	mine := map[int]bool{}
	sessions := map[int]bool{}
	for changed := true; changed; {
		changed = false
		for pid, p := range s.processes {
			if mine[pid] || p.environ[nameVar] != name && !mine[p.parent] && !sessions[p.session] {
				continue
			}
			mine[pid], changed = true, true
			if q := s.processes[p.parent]; p.environ[followVar] != "" || q != nil && q.follows {
				p.follows = true
			}
			if p.session == pid {
				sessions[pid] = true
			}
		}
	}
	out := make([]*insideProcess, 0, len(mine))
	for _, pid := range slices.Sorted(maps.Keys(mine)) {
		out = append(out, s.processes[pid])
	}
	return out
}

// leader returns the pid of the first process of a unit, its bootstrap; 0 if it has
// ended.
func (s survey) leader(unit string) int {
	for _, p := range leaders(s.of(unit)) {
		if !p.follows {
			return p.pid
		}
	}
	return 0
}

// ports returns those that processes listen on, which have to come from a survey
// with their sockets.
func (s survey) ports(processes []*insideProcess) []int {
	held := map[string]bool{}
	for _, p := range processes {
		for _, inode := range p.sockets {
			held[inode] = true
		}
	}
	var ports []int
	for port, inodes := range s.listening {
		if slices.ContainsFunc(inodes, func(i string) bool { return held[i] }) {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// holder says who listens on a port, in words. The survey has to be of all.
func (s survey) holder(port int) string {
	for _, pid := range slices.Sorted(maps.Keys(s.processes)) {
		if p := s.processes[pid]; slices.Contains(s.ports([]*insideProcess{p}), port) {
			return fmt.Sprintf("process %d (%s)", p.pid, cmp.Or(p.command, "of an unknown command"))
		}
	}
	return "a process that cannot be seen"
}

// firstInUse returns the first of the ports on which anybody listens; 0 is none.
func (s survey) firstInUse(ports []int) int {
	for _, p := range ports {
		if len(s.listening[p]) > 0 {
			return p
		}
	}
	return 0
}

// killScript sends a signal to processes pid:start that are still the ones
// that they were, and to the groups that they lead.
const killScript = `
sig=$1; shift
start() { shift 19; echo "$1"; }
group() { echo "$3"; }
for t; do
	p=${t%%:*}
	read -r l 2>/dev/null <"/proc/$p/stat" || continue
	l=${l##*") "}
	[ "$(start $l)" = "${t#*:}" ] || continue
	if [ "$sig" = KILL ] && [ "$(group $l)" = "$p" ]; then kill -s KILL -- "-$p" 2>/dev/null; fi
	kill -s "$sig" "$p" 2>/dev/null
done
true
`

// signal sends a signal to exactly these processes of a container.
func (b *Backend) signal(ctx context.Context, id, sig string, processes []*insideProcess) error {
	if len(processes) == 0 {
		return nil
	}
	cmd := []string{"/bin/sh", "-c", killScript, "sweep-kill", sig}
	for _, p := range processes {
		cmd = append(cmd, p.token())
	}
	_, err := b.exec(ctx, id, client.ExecCreateOptions{Cmd: cmd})
	if err != nil {
		return fmt.Errorf("SIG%s to %d processes: %w", sig, len(processes), err)
	}
	return nil
}
