package manifests

import (
	"context"
	"errors"
	"time"

	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

const (
	// eventsEvery is the time between two looks at the events of one object.
	eventsEvery = 5 * time.Second
	// eventsPatience bounds one look at them: nothing else is seen of a launch meanwhile.
	eventsPatience = 2 * time.Second
)

// warnings are what the cluster reports about pods and objects that do not say it
// themselves: a volume that cannot be mounted, pods that a quota refuses. Who may not list
// events has none.
type warnings struct {
	in     owner.Namespace
	seen   map[string]warned // by UID
	denied bool
}

// A warned is what was reported about one of them at a time.
type warned struct {
	at    time.Time
	facts []signs.Fact
}

// of returns the warnings of an object. They stay for a moment, as they are no news, and longer
// if the API server does not say what they are by then.
func (w *warnings) of(ctx context.Context, uid string) []signs.Fact {
	last := w.seen[uid]
	if w.denied || uid == "" || !last.at.IsZero() && time.Since(last.at) < eventsEvery {
		return last.facts
	}
	var list signs.Events
	ctx, cancel := context.WithTimeout(ctx, eventsPatience)
	defer cancel()
	err := w.in.Effects.Call(ctx, effect.KubeRead, func(ctx context.Context) error {
		return w.in.API.Get(ctx, kubeapi.Collection("v1", w.in.Name, "events")+"?"+signs.EventsOf(uid), &list)
	})
	if err != nil {
		_, w.denied = errors.AsType[*kubeapi.Denied](err)
		w.seen[uid] = warned{time.Now(), last.facts}
		return last.facts
	}
	w.seen[uid] = warned{time.Now(), signs.Troubles(list.Items)}
	return w.seen[uid].facts
}

// ofPod returns the facts of a pod: what it says of itself, and before it runs the warnings.
func (w *warnings) ofPod(ctx context.Context, p *pod) []signs.Fact {
	facts := p.facts()
	if p.starts() {
		facts = append(facts, w.of(ctx, p.Metadata.UID)...)
	}
	return facts
}

// last returns the warnings of a pod that were last read, as long as it does not run.
func (w *warnings) last(p *pod) []signs.Fact {
	if !p.starts() {
		return nil
	}
	return w.seen[p.Metadata.UID].facts
}

// refused returns why the API server does not make the pods of an object, nil if it does. A
// condition says it of some kinds, an event of all.
func (w *warnings) refused(ctx context.Context, o *object, failed error) *signs.Fact {
	if c, ok := errors.AsType[*conditionError](failed); ok && c.is.Type == "ReplicaFailure" {
		if f := signs.Refused(c.is.Reason, c.is.Message); signs.Class(f) != "" {
			return &f
		}
		return nil
	}
	if failed != nil || o.Kind != "StatefulSet" && o.Kind != "DaemonSet" && o.Kind != "Job" {
		return nil
	}
	for _, f := range w.of(ctx, o.uid) {
		if signs.Class(f) != "" {
			return &f
		}
	}
	return nil
}
