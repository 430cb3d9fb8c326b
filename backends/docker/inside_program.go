package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/lines"
	"sweep.dev/sweep/internal/netguard"
)

// An insideProgram is one replica that runs in somebody else's container.
type insideProgram struct {
	place   *insidePlace
	replica *provision.Replica
	host    *containerHost
	exec    string // Docker's id of what was started
}

// ports returns those that it is known to use.
func (r *insideProgram) ports() []int {
	return append(slices.Sorted(maps.Values(r.replica.Place.Ports)), r.replica.Place.Port)
}

func (p inside) hostOf(place *insidePlace, r *provision.Replica) *containerHost {
	h := &containerHost{
		b: p.b, id: place.id, network: place.network, address: place.network.port(r.Place.Port), ports: r.Place.Ports, user: p.b.config.User,
	}
	if r.Role.LogPath != nil {
		h.log = r.Role.LogPath(r.Place.Replica)
	}
	return h
}

// An insideRemote is access to one replica.
type insideRemote struct {
	*insideProgram
	b    *Backend
	unit string
}

// Attach implements [provision.Provider].
func (p inside) Attach(_ context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	program, ok := i.Data.(*insideProgram)
	if !ok {
		return nil, fmt.Errorf("%s was started by another process: %w", i.Unit, host.ErrNotSupported)
	}
	return &insideRemote{program, p.b, u.Name}, nil
}

func (r *insideRemote) Host(int) host.Host { return r.host }
func (r *insideRemote) Close()             {}

// followVar marks the process that reads the log for us: it is none of the
// engine's.
const followVar = "SWEEP_DOCKER_FOLLOW"

// followScript prints a file from a byte on, as it grows, until a process has
// ended. The process is the parent of what we watch, so that the reader ends
// with the engine even if sweep is gone.
const followScript = `
f=$1; from=$2; p=$3
: >>"$f"
tail -c "+$from" -f "$f" &
t=$!
while kill -0 "$p" 2>/dev/null; do sleep 1; done
sleep 1
kill "$t" 2>/dev/null
true
`

// Follow implements [provision.Remote].
func (r *insideRemote) Follow(ctx context.Context, _ int, offset int64, w io.Writer) error {
	s, err := r.b.look(ctx, r.place.id, false)
	switch {
	case err != nil && !r.b.down(ctx, r.place.id):
		return fmt.Errorf("%w: %w", provision.ErrBroken, err)
	case err == nil:
		if leader := s.leader(r.unit); leader != 0 {
			// The next look shows how it ended.
			return fmt.Errorf("%w: %w", provision.ErrBroken, r.read(ctx, leader, offset, w))
		}
	}
	if ctx.Err() != nil && r.exec == "" {
		return nil
	}
	r.rest(ctx, offset, w)
	return r.ended(ctx)
}

// read copies the log until the process that leads the unit has ended.
func (r *insideRemote) read(ctx context.Context, leader int, offset int64, w io.Writer) error {
	return r.b.fx.Call(ctx, effect.DockerExec, func(ctx context.Context) error {
		made, err := r.b.api.ExecCreate(ctx, r.place.id, client.ExecCreateOptions{
			User: r.b.config.User, AttachStdout: true, Env: []string{nameVar + "=" + r.unit, followVar + "=1"},
			Cmd: []string{"/bin/sh", "-c", followScript, "sweep-follow", insideLog(r.unit), strconv.FormatInt(offset+1, 10), strconv.Itoa(leader)},
		})
		if err != nil {
			return err
		}
		stream, err := r.b.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
		if err != nil {
			return err
		}
		defer stream.Close()
		stop := context.AfterFunc(ctx, stream.Close) // it has its own connection, which knows no context
		defer stop()
		_, err = stdcopy.StdCopy(w, io.Discard, stream.Reader)
		return err
	})
}

// restPatience bounds the copy of a log's last lines.
const restPatience = 5 * time.Second

// rest copies what the reader has not seen of a log that is complete.
func (r *insideRemote) rest(ctx context.Context, offset int64, w io.Writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restPatience)
	defer cancel()
	text, err := r.b.exec(ctx, r.place.id, client.ExecCreateOptions{
		User: r.b.config.User, Cmd: []string{"tail", "-c", "+" + strconv.FormatInt(offset+1, 10), insideLog(r.unit)},
	})
	if err == nil {
		_, _ = w.Write(text) // a log that cannot be written must not end a run
	}
}

// ended returns how the replica has ended; nil if ctx has ended first.
func (r *insideRemote) ended(ctx context.Context) error {
	var state container.State
	if res, err := r.b.api.ExecInspect(ctx, r.exec, client.ExecInspectOptions{}); err == nil {
		state.ExitCode = res.ExitCode
	}
	if c, err := r.b.inspect(ctx, r.place.id); err == nil && c.State != nil {
		state.OOMKilled = c.State.OOMKilled && !r.place.oom // the mark stays on the container for good
	}
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	return exit(r.replica.Role.Name, r.replica.Place.Replica, state)
}

// ready waits for the line that the configuration names, in the output of the
// role that requests go to, and then as long as it says.
func (i Inside) ready(ctx context.Context, spec backends.Spec, d backends.Deployment, line *regexp.Regexp) error {
	up, stop := backends.WhileUp(ctx, d)
	defer stop()
	if line != nil {
		if err := awaitLine(up, spec, d, line); err != nil {
			if d.Err() != nil {
				return fmt.Errorf("before its ready line: %w", d.Err())
			}
			return fmt.Errorf("no line of its output matches %q: %w", line, err)
		}
	}
	if i.Soak <= 0 {
		return nil
	}
	select {
	case <-time.After(i.Soak):
		return nil
	case <-up.Done():
		return fmt.Errorf("while it was left alone: %w", context.Cause(up))
	}
}

// awaitLine reads the log of the role that requests go to until a whole line of it
// matches.
func awaitLine(ctx context.Context, spec backends.Spec, d backends.Deployment, line *regexp.Regexp) error {
	for _, role := range spec.Roles {
		if !isEntry(spec, role) {
			continue
		}
		log, err := d.Host(role.Name, 0).Logs(ctx)
		if err != nil {
			return err
		}
		defer log.Close()
		found := &lines.Watch{Pattern: line}
		for !found.Found {
			if _, err := io.Copy(found, log); err != nil { // what is there by now
				return err
			}
			select {
			case <-time.After(lookEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	return errors.New("no role has the requests")
}

// scrapePatience bounds the last look at the metrics.
const scrapePatience = 5 * time.Second

// metrics returns where the metrics of a replica may be.
func (r *insideProgram) metrics() []string {
	base := r.host.URL()
	if r.replica.Role.MetricsPort != "" {
		base = "http://" + r.host.Addr(r.replica.Role.MetricsPort)
	}
	var urls []string
	for _, path := range r.replica.Role.MetricsPaths {
		urls = append(urls, base+path)
	}
	return urls
}

// metricsFile returns where its last metrics are kept: beside its log.
func (r *insideProgram) metricsFile() string {
	role := r.replica.Role
	return filepath.Join(filepath.Dir(r.host.log), layout.LastMetrics(role.Name, r.replica.Place.Replica, role.Replicas))
}

// scrape keeps the last metrics of a replica: the counters go with the process,
// and the container stays.
func (r *insideProgram) scrape(ctx context.Context, fx *effect.Effects) {
	if r.exec == "" || r.host.log == "" {
		return
	}
	c := netguard.Client(r.host.Dial, 0)
	defer c.CloseIdleConnections()
	for _, url := range r.metrics() {
		// Nothing here is worth an error: it may have ended, or never have been ready.
		body, err := fetch(ctx, c, url)
		if err != nil {
			continue
		}
		if f, err := fx.Create(effect.LogCreate, r.metricsFile()); err == nil {
			_, _ = f.Write(body) // a file that cannot be written must not hold up the end
			_ = f.Close()
		}
		return
	}
}

func fetch(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return input.ReadStream(url, resp.Body, exposition.MaxBody)
}
