package ssh

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// A sighting is what one look at the host has found.
type sighting struct {
	boot string
	home string // the workdir, absolute; "" where there is none
	pods []*found
	live map[string][]string // pid@start by name, marked and known to be a pod's
}

// found is a pod's folder.
type found struct {
	name          string
	gone, started bool
	marks         map[string]string
	ports         []int
	processes     map[int]string // pid@start by number
	boots         map[int]string
}

func (s sighting) pod(name string) *found {
	for _, p := range s.pods {
		if p.name == name {
			return p
		}
	}
	return nil
}

// parseSighting reads what sw_look and sw_show print. Lines that it does not
// know say nothing.
func parseSighting(out []byte) sighting {
	s := sighting{live: map[string][]string{}}
	pod := &found{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields := strings.Fields(value)
		switch {
		case key == "boot":
			s.boot = value
		case key == "home":
			s.home = value
		case key == "pod":
			pod = &found{name: value, marks: map[string]string{}, processes: map[int]string{}, boots: map[int]string{}}
			if _, ok := backends.ParseName(value); ok {
				s.pods = append(s.pods, pod)
			}
		case key == "gone":
			pod.gone = true
		case key == "started":
			pod.started = true
		case key == "mark" && pod.marks != nil:
			name, value, _ := strings.Cut(value, "=")
			pod.marks[name] = value
		case key == "port":
			if port, err := strconv.Atoi(value); err == nil {
				pod.ports = append(pod.ports, port)
			}
		case key == "process" && len(fields) == 4 && pod.processes != nil:
			if n, err := strconv.Atoi(fields[0]); err == nil {
				pod.processes[n] = fields[1] + "@" + fields[2]
				pod.boots[n] = fields[3]
			}
		case key == "live" && len(fields) >= 3:
			s.live[fields[0]] = append(s.live[fields[0]], fields[1]+"@"+fields[2])
		}
	}
	return s
}

// look asks for one pod, or for all where name is "". known are processes that
// an earlier look has found to be the pod's.
func (l *link) look(ctx context.Context, workdir, name string, known ...string) (sighting, error) {
	out, err := l.read(ctx, "sw_look "+folder(workdir)+" "+words(append([]string{name}, known...)...))
	if err != nil {
		return sighting{}, err
	}
	return parseSighting(out), nil
}

// List implements [backends.Backend]: the pods of this workdir that have a
// living process, and those that have only that. Whose a folder is, its marks
// say; of a process without one its name does.
func (b *Backend) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	l, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close()
	s, err := l.look(ctx, b.c.Workdir, "")
	if err != nil {
		return nil, err
	}
	var list []backends.Listed
	for name := range s.live {
		n, ok := backends.ParseName(name)
		if !ok {
			continue
		}
		item := backends.Listed{
			Ref:   backends.Ref{Kind: Kind, RunID: n.Run, ID: name + "@" + b.address(), Name: name, Details: b.at()},
			Owner: n.Owner, Status: "running", Expires: n.Expires,
		}
		mine := n.Owner == backends.OwnerTag(owner)
		if p := s.pod(name); p != nil && p.marks[backends.MarkOwner] != "" {
			item.Owner, item.RunID, item.Pod = p.marks[backends.MarkOwner], p.marks[backends.MarkRun], p.marks[backends.MarkPod]
			item.Details[detailDir] = s.home + "/" + name
			mine = item.Owner == owner && mine
		}
		if owner == "" || mine {
			list = append(list, item)
		}
	}
	return list, nil
}

// Terminate implements [backends.Backend]. A ref without an ID, of a start of
// which nobody knows whether it happened, uses up its name on the host: if the
// start is still on its way, it fails.
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) error {
	name, err := b.podName(ref)
	if err != nil {
		return err
	}
	grace, _ := time.ParseDuration(ref.Details[detailGrace]) // 0 where it is not known
	l, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.end(ctx, b.workdirOf(ref), name, max(grace, 2*time.Second), ref.ID == "", nil); err != nil {
		return fmt.Errorf("pod %s: %w", name, err)
	}
	return nil
}

// workdirOf is where a pod's folder is: the plan may name another by now.
func (b *Backend) workdirOf(ref backends.Ref) string {
	dir := ref.Details[detailDir]
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		return dir[:i]
	}
	return b.c.Workdir
}

// shortPause is between two looks at a pod that ends.
const shortPause = 50 * time.Millisecond

// end ends every process of a pod, sees that there is none in two looks, and
// removes its folder. SIGTERM first; SIGKILL when grace or ctx is over. unclear
// says that the pod's start may still be on its way. last, which may be nil, is
// called when the processes are gone and the folder is not.
func (l *link) end(ctx context.Context, workdir, name string, grace time.Duration, unclear bool, last func(context.Context)) error {
	hurried := ctx // over when there is no time left to ask nicely
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace+settle,
		fmt.Errorf("its processes are still there after SIGKILL, or the host does not answer (%v)", grace+settle))
	defer cancel()
	defer context.AfterFunc(hurried, func() {
		time.AfterFunc(10*time.Second, cancel)
	})()
	target := folder(workdir) + " " + quote(name)
	keep := "0"
	if unclear {
		keep = "1"
	}
	// The bootstrap needs a moment beyond the grace that it gives.
	final := time.Now().Add(grace + 3*time.Second)
	absent, asked, removed := 0, false, false
	var known []string // those that lose their parents are still the pod's
	for pause := shortPause; ; pause = min(2*pause, 10*shortPause) {
		s, err := l.look(ctx, workdir, name, known...)
		if err != nil {
			return err
		}
		if known = s.live[name]; len(known) == 0 {
			pause = shortPause
		}
		switch {
		case len(s.live[name]) > 0:
			absent = 0
			over := hurried.Err() != nil || time.Now().After(final)
			if asked && !over {
				break
			}
			call := "sw_ask " + quote(name)
			if over {
				call = "sw_kill " + words(append([]string{name}, known...)...)
			}
			if _, err := l.repeat(ctx, effect.SSHStop, call); err != nil {
				return err
			}
			asked = true
		case absent < 1:
			absent++
		case !removed:
			if last != nil {
				last(ctx)
				last = nil
			}
			if _, err := l.repeat(ctx, effect.SSHStop, "sw_remove "+target+" "+keep); err != nil {
				if f := asFailure(err); f == nil || f.status != exitAlive {
					return err
				}
				absent = 0
				break
			}
			// What was started between the last look and now has found its
			// folder gone, or shows up.
			removed, absent = true, 0
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
