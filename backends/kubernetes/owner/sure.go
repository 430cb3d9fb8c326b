package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Insist is [Namespace.Extend] until the API server has answered, for [Namespace.Patience]:
// what got no answer may have been carried out.
func (n Namespace) Insist(ctx context.Context, o *Owner, lease time.Duration) error {
	return n.insist(ctx, func(ctx context.Context) error { return n.Extend(ctx, o, lease) })
}

// TakeOver is a first sign of life for an owner of [Namespace.Find], in place of the end
// that it had. After an error it has that end again, or the error says that this is not
// known.
func (n Namespace) TakeOver(ctx context.Context, o *Owner, lease time.Duration) error {
	err := n.Insist(ctx, o, lease)
	if err == nil || answered(err) || o.seen.IsZero() {
		return err
	}
	// With ctx over too: its end may be why there was no answer.
	back := n.insist(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return n.move(ctx, o, int64(o.Ends.Sub(o.starts)/time.Second))
	})
	if back != nil {
		return errors.Join(err, fmt.Errorf("job %s: whether it still ends at %s, or %v after it was asked last, is not known: %w", o.Name, o.Ends.UTC().Format(time.RFC3339), lease, back))
	}
	return err
}

// insist makes a call, which may be made twice, until it is answered. A call is waited for
// whatever becomes of ctx: the API server may carry out what was given up, and then after a
// later one.
func (n Namespace) insist(ctx context.Context, call func(context.Context) error) error {
	for begun := time.Now(); ; {
		err := call(context.WithoutCancel(ctx))
		if err == nil || answered(err) || time.Since(begun) >= cmp.Or(n.Patience, startPatience) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// answered says whether an error is an answer: nothing was carried out, or it is gone.
func answered(err error) bool {
	_, fault := errors.AsType[*effect.Fault](err)
	return fault || errors.Is(err, ErrLost) || kubeapi.Refused(err)
}
