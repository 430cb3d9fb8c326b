package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/command/protocol"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
)

// A remote is access to one unit.
type remote struct {
	b    *Backend
	name string
	made protocol.Instance
	role *provision.Replica
	host host.Host
}

var _ provision.TermsUpdater = (*remote)(nil)

func (r *remote) Host(int) host.Host { return r.host }
func (r *remote) Close()             {}

// UpdateTerms adds what was not known before the unit was made.
func (r *remote) UpdateTerms(t *backends.Terms) {
	t.GPU, t.ImageDigest = cmp.Or(t.GPU, r.made.GPU), cmp.Or(t.ImageDigest, r.made.ImageDigest)
}

// maxLine bounds one line of attach, in bytes.
const maxLine = 4 << 20

// Follow implements [provision.Remote]: attach runs until it has said how the
// replica has ended.
func (r *remote) Follow(ctx context.Context, _ int, offset int64, w io.Writer) error {
	request := protocol.Attach{Version: protocol.Version, ID: r.made.ID, Name: r.name, Offset: offset}
	said := &lines{of: r, log: w}
	err := r.b.run(ctx, protocol.OpAttach, request, said)
	if ctx.Err() != nil || said.end != nil {
		return said.end
	}
	return fmt.Errorf("%w: %w", provision.ErrBroken, errors.Join(errors.New("attach has ended before the server"), err))
}

// lines takes what attach prints, line by line.
type lines struct {
	of   *remote
	log  io.Writer
	rest []byte // of a line that is not whole
	end  error  // why nothing more is to come
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for l.end == nil {
		line, after, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole && len(l.rest) > maxLine {
			l.end = fmt.Errorf("attach: a line of more than %d MiB", maxLine>>20)
		}
		if !whole {
			break
		}
		l.rest, l.end = after, l.of.line(line, l.log)
	}
	return len(p), l.end
}

// line takes one line of attach. Its error is the end of the unit.
func (r *remote) line(text []byte, w io.Writer) error {
	var l protocol.Line
	if err := parse(text, &l); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if _, err := w.Write(l.Log); err != nil {
		return err
	}
	switch {
	case l.Error != nil:
		_, err := problem(l.Error)
		return fmt.Errorf("attach: %w", err)
	case l.Exit == nil:
		return nil
	}
	return backends.ShellExit(r.role.Role.Name, r.role.Place.Replica, l.Exit.Code, l.Exit.OOM)
}
