package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/command/protocol"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
)

const maxAnswer = 4 << 20 // in bytes

// call runs the program once. A create without a clear answer is
// [provision.ErrUnsure].
func (b *Backend) call(ctx context.Context, op string, grace time.Duration, request any) (protocol.Answer, error) {
	least := map[string]time.Duration{protocol.OpCreate: 5 * time.Minute, protocol.OpFind: time.Minute, protocol.OpDelete: 2 * time.Minute}[op]
	limit := cmp.Or(b.c.Timeout, least) + grace
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	out := &bounded.Buffer{Max: maxAnswer, Full: func() error { return fmt.Errorf("more than %d MiB of output", maxAnswer>>20) }}
	err := b.run(ctx, op, request, out)
	var a protocol.Answer
	broken := parse(out.Bytes(), &a)
	if broken == nil && a.Version != protocol.Version {
		broken = fmt.Errorf("its answer has version %d of the protocol, not %d", a.Version, protocol.Version)
	}
	nothing := errors.Is(err, effect.ErrNotStarted) // was made, for certain
	switch {
	case broken == nil && a.Error != nil:
		nothing, err = problem(a.Error)
	case err == nil && broken != nil:
		err = broken
	case err == nil && op == protocol.OpCreate && (a.Instance == nil || a.Instance.ID == ""):
		err = errors.New("its answer has no instance with an id")
	}
	switch {
	case err == nil:
		return a, nil
	case op == protocol.OpCreate && !nothing:
		err = fmt.Errorf("%w: %w", provision.ErrUnsure, err)
	}
	return protocol.Answer{}, fmt.Errorf("%s %s: %w", filepath.Base(b.c.Program), op, err)
}

// run runs the program once; out gets what it prints.
func (b *Backend) run(ctx context.Context, op string, request any, out io.Writer) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var in io.Reader = bytes.NewReader(text)
	point := effect.CommandRead
	switch op {
	case protocol.OpCreate:
		point, in = effect.CommandCreate, &sending{in, b.fx}
	case protocol.OpDelete:
		point = effect.CommandDelete
	}
	return b.fx.Run(ctx, point, effect.CommandKill, []string{b.c.Program, op}, in, out)
}

// sending is a request of which it matters when the program has all of it.
type sending struct {
	io.Reader
	fx *effect.Effects
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if fault := s.fx.Do(effect.CommandSent, func() error { return nil }); fault != nil {
			return n, fault
		}
	}
	return n, err
}

// problem returns what the program says went wrong; known says that it has a class.
func problem(p *protocol.Problem) (known bool, _ error) {
	class, known := map[string]error{
		"capacity": backends.ErrCapacity, "refused": backends.ErrRefused, "not_found": backends.ErrNotFound,
		"spec": backends.ErrSpec, "taken": provision.ErrTaken, "unsure": provision.ErrUnsure, "failed": nil,
	}[p.Class]
	switch {
	case !known:
		return false, fmt.Errorf("its error has the unknown class %.40q: %s", p.Class, p.Message)
	case class == nil:
		return true, errors.New(p.Message)
	}
	return true, fmt.Errorf("%w: %s", class, p.Message)
}

// parse reads exactly one object, of which every key is known.
func parse(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("its answer is not one of the protocol: %w: %.80q", err, text)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("its answer goes on after its end: %.80q", text)
	}
	return nil
}
