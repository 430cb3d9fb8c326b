package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
)

// answerPatience is how long a clean-up after a launch may take, beyond the grace
// and what the provider says of itself.
const answerPatience = 10 * time.Second

// An owing is a launch as its ledger has it.
type owing struct {
	layer  *Layer
	ledger backends.Ledger
	d      *deployment
	unsure bool // something may exist that no instance stands for
}

func (o *owing) record(ctx context.Context, a backends.Transition) error {
	a.Pod = o.d.spec.Pod
	if err := o.ledger.Record(ctx, a); err != nil {
		return fmt.Errorf("record of pod %s: %w", a.Pod, err)
	}
	return nil
}

// begin records what is about to be made. Where it fails, nothing was made.
func (o *owing) begin(ctx context.Context) error {
	name := o.d.pod
	intent := backends.Transition{
		State: backends.Intended, Kind: o.layer.Kind, Name: name.String(), At: o.d.at(), USDPerHour: o.d.quoted + o.d.storage,
	}
	if !o.layer.OneLife {
		intent.Expires = &name.Expires
	}
	err := o.record(ctx, intent)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), o.record(ctx, backends.Transition{State: backends.Gone}))
	}
	if err := o.record(ctx, backends.Transition{State: backends.Sent}); err != nil {
		return errors.Join(err, o.record(ctx, backends.Transition{State: backends.Gone}))
	}
	return nil
}

// make makes one unit, and looks for it where the answer was lost. A request is
// never sent twice.
func (o *owing) make(ctx context.Context, m *member) error {
	u := m.unit
	if o.d.moved { // addresses are known by now that were not before
		if err := o.layer.renderUnit(u); err != nil {
			return err
		}
	}
	i, err := o.layer.provider.Create(ctx, u)
	if i.ID == "" && errors.Is(err, ErrUnsure) {
		// Even if ctx is over: what exists has to be given back.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.layer.Late+answerPatience)
		defer cancel()
		found, lookErr := o.layer.await(look, u.Pod.String(), u.Name, o.layer.Late)
		if r, ok := o.layer.provider.(Retirer); ok && len(found) == 0 && lookErr == nil {
			r.Retire(u.Name)
			return fmt.Errorf("%w within %v: %w", ErrLost, o.layer.Late, err)
		}
		if len(found) == 0 {
			o.unsure = true
			return errors.Join(err, lookErr)
		}
		i, err = found[0], nil
	}
	if i.ID == "" {
		return err
	}
	i.Unit, i.Grace = u.Name, u.Spec.Grace
	m.instance = i
	o.d.learn(m)
	ref := o.d.Terms().Ref
	record := o.record(ctx, backends.Transition{State: backends.Created, Ref: &ref, USDPerHour: o.d.price()})
	if err := errors.Join(err, record); err != nil || ctx.Err() != nil {
		return err // nothing is started that is not written down
	}
	if s, ok := o.layer.provider.(Starter); ok {
		return s.Start(ctx, i)
	}
	return nil
}

// release ends what a failed launch has made, even if ctx is over. Where that
// fails, or something may exist that cannot be seen, the ledger still owes it.
func (o *owing) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), o.d.spec.Grace+o.layer.Settle+answerPatience,
		errors.New("what the launch has made was not seen to be gone in time"))
	defer cancel()
	if err := o.d.end(ctx); err != nil {
		return fmt.Errorf("pod %s: %w: %w", o.d.spec.Pod, ErrOwed, err)
	}
	if o.unsure {
		if _, ok := o.layer.provider.(Forbidder); !ok {
			return ErrOwed
		}
		ref := backends.Ref{Kind: o.layer.Kind, RunID: o.d.spec.RunID, Pod: o.d.spec.Pod, Name: o.d.pod.String(), Details: o.d.at()}
		ref.Details[detailGrace] = o.d.spec.Grace.String()
		if err := o.layer.Terminate(ctx, ref); err != nil {
			return fmt.Errorf("%w: %w", ErrOwed, err)
		}
		o.unsure = false
	}
	return o.record(ctx, backends.Transition{State: backends.Gone})
}
