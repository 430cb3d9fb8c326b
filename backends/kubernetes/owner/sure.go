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
	_, err := n.insist(ctx, func(ctx context.Context) error { return n.Extend(ctx, o, lease) })
	return err
}

// TakeOver gives a first sign of life for an owner of [Namespace.Find], in place of the end
// that it had. After an error it has that end again, or the error says that this is not
// known. That keeps it for somebody else only if the caller dies: a run ends the pod that it
// could not take over, as its ledger owes it by then.
func (n Namespace) TakeOver(ctx context.Context, o *Owner, lease time.Duration) error {
	known, err := n.insist(ctx, func(ctx context.Context) error { return n.Extend(ctx, o, lease) })
	if err == nil || known || o.seen.IsZero() {
		return err
	}
	// With ctx over too: its end may be why there was no answer.
	_, back := n.insist(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return n.move(ctx, o, int64(o.Ends.Sub(o.starts)/time.Second))
	})
	if back != nil {
		return errors.Join(err, fmt.Errorf("job %s: whether it still ends at %s, or %v after it was asked last, is not known: %w", o.Name, o.Ends.UTC().Format(time.RFC3339), lease, back))
	}
	return err
}

// insist makes a call, which may be made twice, until it is answered. A call is waited for
// even if ctx ends: the API server may carry out what was given up, and then after a later
// one. known says whether it is known what was carried out: an answer to one call says
// nothing of an earlier one without an answer, unless it is success or [ErrLost]. What
// [kubeapi.Client] itself puts again, after an answer of 503 or 504, is one call here: if the
// second time is refused, so is the call, though the first may have been carried out.
func (n Namespace) insist(ctx context.Context, call func(context.Context) error) (known bool, err error) {
	known = true
	for begun := time.Now(); ; {
		err := call(context.WithoutCancel(ctx))
		switch {
		case err == nil || errors.Is(err, ErrLost):
			return true, err
		case answered(err):
			return known, err
		}
		known = false
		if time.Since(begun) >= cmp.Or(n.Patience, startPatience) {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, errors.Join(context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// answered reports whether an error is the answer that nothing was carried out.
func answered(err error) bool {
	_, fault := errors.AsType[*effect.Fault](err)
	return fault || kubeapi.Refused(err)
}
