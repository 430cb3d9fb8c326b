package runpod

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpodapi"
)

// A watch is what was seen of one pod so far, and finds out when something is
// wrong with it. It looks at no clock of its own.
type watch struct {
	id       string
	gpus     int
	ports    []int // private, that have to be mapped; none where the proxy is used
	settled  bool  // was ready: a container that starts again has lost what it was
	pull     time.Duration
	lag      time.Duration // how long a new pod may be unknown
	created  time.Time
	appeared bool // in a list
	absent   int  // lists in a row without it, since
	uptime   int
	restarts int
	portless time.Time // since when the container has run without our port
}

// Reasons that a launch branches on.
var errNoPort = errors.New("the host has no public TCP port")

// portPatience is how long a container may run before its port is mapped.
const portPatience = time.Minute

// maxRestarts of a container are one too many: RunPod starts one that ends
// again and again, and every start costs money.
const maxRestarts = 2

// look takes one listing. ready says that the container runs and its port is
// known. An error is the pod's end.
func (w *watch) look(p runpodapi.Pod, listed bool, now time.Time) (ready bool, err error) {
	if !listed {
		return false, w.missing(now)
	}
	w.appeared, w.absent = true, 0
	switch {
	case p.Status == runpodapi.StatusTerminated:
		return false, fmt.Errorf("pod %s was terminated by another user or program", w.id)
	case p.Status == runpodapi.StatusError:
		return false, fmt.Errorf("pod %s is in the state ERROR", w.id)
	case p.Status == runpodapi.StatusExited:
		return false, fmt.Errorf("the container of pod %s has exited", w.id)
	case p.GPU != nil && p.GPU.Count < w.gpus:
		return false, fmt.Errorf("%w: pod %s has %d of %d GPUs", backends.ErrCapacity, w.id, p.GPU.Count, w.gpus)
	case p.Runtime.Runs() && p.Runtime.GPUs != nil && len(p.Runtime.GPUs) < w.gpus:
		return false, fmt.Errorf("%w: the container of pod %s sees %d of %d GPUs", backends.ErrCapacity, w.id, len(p.Runtime.GPUs), w.gpus)
	case p.Status != runpodapi.StatusRunning || !p.Runtime.Runs():
		if now.Sub(w.created) > w.pull {
			return false, fmt.Errorf("the container of pod %s does not run after %v", w.id, w.pull)
		}
		return false, nil
	}
	if err := w.restarted(p.Runtime.Uptime); err != nil {
		return false, err
	}
	if w.settled {
		return true, nil
	}
	if w.settled, err = w.reachable(p, now); w.settled {
		w.restarts = 0 // those were part of its start
	}
	return w.settled, err
}

// missing judges a listing without the pod. One that was listed before is gone
// after two of them; one that never was may be late.
func (w *watch) missing(now time.Time) error {
	w.absent++
	switch {
	case w.appeared && w.absent < 2:
		return nil
	case w.appeared:
		return fmt.Errorf("pod %s is not listed any more: its host was lost, or another user ended it", w.id)
	case now.Sub(w.created) > w.lag:
		return fmt.Errorf("pod %s was created and never listed within %v", w.id, w.lag)
	}
	return nil
}

// restarted notes an uptime that has gone down.
func (w *watch) restarted(uptime *int) error {
	if uptime == nil {
		return nil
	}
	if *uptime < w.uptime {
		w.restarts++
	}
	w.uptime = *uptime
	if w.restarts > maxRestarts || w.restarts > 0 && w.settled {
		return fmt.Errorf("the container of pod %s was started again (%d times)", w.id, w.restarts)
	}
	return nil
}

// reachable reports whether all ports are mapped, and gives up on a host that does
// not do it.
func (w *watch) reachable(p runpodapi.Pod, now time.Time) (bool, error) {
	missing := slices.IndexFunc(w.ports, func(port int) bool {
		_, _, ok := p.Runtime.Mapped(port)
		return !ok
	})
	if missing < 0 {
		return true, nil
	}
	if w.portless.IsZero() {
		w.portless = now
	}
	if now.Sub(w.portless) > min(portPatience, w.lag) {
		return false, fmt.Errorf("pod %s: %w for %d", w.id, errNoPort, w.ports[missing])
	}
	return false, nil
}

// trouble are lines of a pod's system log that say why a container does not
// start, the most telling first.
var trouble = []struct {
	line        *regexp.Regexp
	class, hint string
}{
	{regexp.MustCompile(`(?i)no space left on device|disk quota exceeded`), "disk", "the image does not fit: a larger disk in backend.disk"},
	{regexp.MustCompile(`(?i)unsatisfied condition: cuda`), "driver", "the host's driver is too old for the image: set backend.min_cuda"},
	{regexp.MustCompile(`(?i)manifest unknown|not found: manifest|repository does not exist|pull access denied|unauthorized|invalid reference format`), "image", "the image cannot be pulled: its name, its tag, or backend.registry"},
	{regexp.MustCompile(`(?i)toomanyrequests|rate limit`), "registry", "the registry limits pulls: credentials in backend.registry"},
	{regexp.MustCompile(`(?i)layer does not exist|error creating container|error starting container|OCI runtime`), "host", "the host cannot start the container: another host may"},
}

// explain adds to the end of a pod what its system log says of it.
func (b *Backend) explain(ctx context.Context, id string, err error) error {
	lines := b.systemLog(ctx, id)
	for _, t := range trouble {
		if i := slices.IndexFunc(lines, t.line.MatchString); i >= 0 {
			return &backends.Failure{Class: t.class, Hint: t.hint, Err: fmt.Errorf("%w: %.300s", err, strings.TrimSpace(lines[i]))}
		}
	}
	return err
}
