// Package serverlog reads the part of a server's logs that was written during one
// attempt at a trial.
package serverlog

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/secret"
)

// patience bounds CatchUp: a log that is late is still a log.
const patience = 5 * time.Second

// most bounds what is read or kept of each log, in bytes.
const most = 16 << 20

// Logs are those of one server, from a mark on. They are used by one goroutine.
type Logs struct {
	server  *serving.Server
	profile *engine.Profile
	from    map[string]int64 // where each log stood at the mark, by its path
	load    map[string]int64 // where it stood as the load began
}

// New returns the logs from their beginning.
func New(s *serving.Server, p *engine.Profile) *Logs { return &Logs{server: s, profile: p} }

// Mark moves the mark to where the logs stand now.
func (l *Logs) Mark(ctx context.Context) {
	l.CatchUp(ctx)
	l.from = l.sizes()
}

// Begin notes where the logs stand as the load begins.
func (l *Logs) Begin() { l.load = l.sizes() }

func (l *Logs) sizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, f := range l.files() {
		if st, err := os.Stat(f.path); err == nil {
			sizes[f.path] = st.Size()
		}
	}
	return sizes
}

// CatchUp brings our copies of the logs of servers elsewhere up to date. It takes
// 5 s at most.
func (l *Logs) CatchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if kept, ok := l.server.Deployment.(backends.Logged); ok {
		kept.CatchUp(ctx)
		return
	}
	for _, role := range l.server.Roles {
		if role.LogPath == nil {
			continue
		}
		for n := range role.Replicas {
			if log, err := l.server.Host(role.Name, n).Logs(ctx); err == nil {
				_ = log.Close()
			}
		}
	}
}

// A file is the log of a replica of a role, or of a container that was found.
type file struct {
	path     string
	source   loglines.Source
	found    bool // its lines begin with a time
	previous bool // the container's own log has it too
}

// files returns all logs of the server.
func (l *Logs) files() (all []file) {
	if kept, ok := l.server.Deployment.(backends.Logged); ok {
		for _, k := range kept.Logs() {
			all = append(all, file{k.Path, loglines.Source{Role: k.Role, Pod: k.Pod, Container: k.Container}, true, k.Previous})
		}
		return all
	}
	for _, role := range l.server.Roles {
		for n := range role.Replicas {
			if role.LogPath != nil {
				all = append(all, file{path: role.LogPath(n), source: loglines.Source{Role: role.Name, Pod: fmt.Sprintf("%s-%d", role.Name, n), Container: role.Name}})
			}
		}
	}
	return all
}

// Copy writes the logs one after another, without secrets: of each the last 16 MiB
// at most.
func (l *Logs) Copy(w io.Writer, mask secret.Mask) error {
	for _, path := range l.server.LogPaths() {
		if err := copyFrom(w, path, l.from[path], mask); err != nil {
			return err
		}
	}
	return nil
}

// copyFrom copies a log from an offset on. A log that is not there is empty.
func copyFrom(w io.Writer, path string, offset int64, mask secret.Mask) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		offset = max(offset, st.Size()-most) // the end says why it ended
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	_, err = mask.Copy(w, io.LimitReader(f, most))
	return err
}
