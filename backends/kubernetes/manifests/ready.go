package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/kubeapi"
)

// spec and status are what readiness is read from.
type spec struct {
	Replicas *int64 `json:"replicas"`
}

type status struct {
	Observed   *int64              `json:"observedGeneration"`
	Replicas   int64               `json:"replicas"`
	Ready      int64               `json:"readyReplicas"`
	Updated    *int64              `json:"updatedReplicas"`
	Desired    int64               `json:"desiredNumberScheduled"` // of a DaemonSet
	NumReady   int64               `json:"numberReady"`
	Phase      string              `json:"phase"`
	Reason     string              `json:"reason"`
	Message    string              `json:"message"`
	State      string              `json:"state"` // of a DynamoGraphDeployment
	Conditions []kubeapi.Condition `json:"conditions"`
}

func (s *status) condition(kind string) (kubeapi.Condition, bool) {
	i := slices.IndexFunc(s.Conditions, func(c kubeapi.Condition) bool { return c.Type == kind })
	if i < 0 {
		return kubeapi.Condition{}, false
	}
	return s.Conditions[i], true
}

// tooLate is the reason of a Deployment that was not ready within progressDeadlineSeconds.
const tooLate = "ProgressDeadlineExceeded"

// A readiness is how a kind says that it is ready, and that it will never be.
type readiness struct {
	replicas bool                // as many are ready as are wanted, all of the newest revision
	daemon   bool                // one for each node
	state    string              // of status.state
	wants    string              // a condition that is true
	fails    []kubeapi.Condition // the most telling first
}

// readinessOf returns the table of kinds. A kind that is not in it is ready if its condition
// Ready or Available is true, and at once if it has none of them.
func readinessOf(kind string) (readiness, bool) {
	switch kind {
	case "Deployment":
		return readiness{replicas: true, wants: "Available", fails: []kubeapi.Condition{
			{Type: "ReplicaFailure", Status: "True"}, {Type: "Progressing", Status: "False", Reason: tooLate},
		}}, true
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		return readiness{replicas: true, fails: []kubeapi.Condition{{Type: "ReplicaFailure", Status: "True"}}}, true
	case "DaemonSet":
		return readiness{daemon: true}, true
	case "LeaderWorkerSet":
		return readiness{replicas: true, wants: "Available"}, true
	case "Pod":
		return readiness{wants: "Ready"}, true
	case "Job", "JobSet":
		return readiness{wants: "Complete|Completed", fails: []kubeapi.Condition{{Type: "Failed", Status: "True"}}}, true
	case "DynamoGraphDeployment":
		return readiness{state: "successful", wants: "Ready"}, true
	}
	return readiness{wants: "Ready|Available"}, false
}

// A conditionError is a condition that says that an object has failed.
type conditionError struct{ is kubeapi.Condition }

func (e *conditionError) Error() string { return e.is.Reason + ": " + e.is.Message }

// waits says what an object is not ready for, "" for nothing. The error says that it will
// never be.
func (o *object) waits(have *live) (string, error) {
	r, known := readinessOf(o.Kind)
	s := &have.Status
	if s.Observed != nil && *s.Observed < have.Metadata.Generation {
		return "its controller has not seen it yet", nil
	}
	for _, f := range r.fails {
		if c, ok := s.condition(f.Type); ok && c.Status == f.Status && (f.Reason == "" || f.Reason == c.Reason) {
			return "", &conditionError{c}
		}
	}
	switch {
	case o.Kind == "Pod" && s.Phase == "Failed":
		return "", fmt.Errorf("the pod has failed: %s", strings.Trim(s.Reason+": "+s.Message, ": "))
	case o.Kind == "Pod" && s.Phase == "Succeeded":
		return "", nil
	case o.Kind == "DynamoGraphDeployment" && s.State == "failed":
		c, _ := s.condition("Ready")
		return "", fmt.Errorf("its operator says that it has failed: %s", strings.Trim(c.Reason+": "+c.Message, ": "))
	case known && r.replicas && s.Observed == nil && o.Kind != "LeaderWorkerSet":
		return "its controller has not seen it yet", nil
	}
	if r.replicas {
		want := int64(1)
		if have.Spec.Replicas != nil {
			want = *have.Spec.Replicas
		}
		switch updated := s.Updated; {
		case s.Ready < want:
			return fmt.Sprintf("%d of %d replicas are ready", s.Ready, want), nil
		case updated != nil && *updated < want:
			return fmt.Sprintf("%d of %d replicas are of its newest revision", *updated, want), nil
		case want == 0:
			return "", nil
		}
	}
	if r.daemon && (s.Observed == nil || s.NumReady < s.Desired) {
		return fmt.Sprintf("%d of %d pods are ready", s.NumReady, s.Desired), nil
	}
	if r.state != "" && s.State != r.state {
		return fmt.Sprintf("its state is %q", s.State), nil
	}
	return wanted(r.wants, s, known), nil
}

// wanted says which of the conditions, divided by |, is not true.
func wanted(kinds string, s *status, known bool) string {
	missing := ""
	if kinds == "" {
		return ""
	}
	for kind := range strings.SplitSeq(kinds, "|") {
		c, ok := s.condition(kind)
		switch {
		case ok && c.Status == "True":
			return ""
		case ok:
			missing = strings.Trim(fmt.Sprintf("condition %s is %s: %s: %s", kind, c.Status, c.Reason, c.Message), ": ")
		case known && missing == "":
			missing = "condition " + kind + " is not there yet"
		}
	}
	return missing
}

// Await returns when all objects are ready. An object or a pod of one that will never be
// ready ends the wait with a [backends.Failure]. When ctx ends, the error says what is not
// ready, and is a failure if that has a class.
func (r *Release) Await(ctx context.Context, launch string) error {
	var waiting []string
	var objects []unready // that were not ready when all were last seen
	var pods []pod
	// An object that is a pod has the pod's UID, and is judged apart.
	by, ofObjects, told := judges{}, judges{}, &warnings{in: r.in, seen: map[string]warned{}}
	for {
		now, err := r.unready(ctx, ofObjects, told, time.Now())
		if err == nil && len(now) == 0 {
			return nil
		}
		switch {
		case err == nil:
			waiting, objects = nil, now
			for _, o := range now {
				waiting = append(waiting, o.why)
			}
		case ctx.Err() == nil:
			waiting = []string{err.Error()}
		}
		// What a pod says tells more than that its object has failed.
		seen, unseen := podsOf(ctx, r.in, launch)
		if unseen == nil {
			pods = seen
		}
		for i := range seen { // nothing ends for what is not seen
			if why := by.broken(&seen[i], told.ofPod(ctx, &seen[i]), time.Now()); why != nil {
				why.Err = fmt.Errorf("%w%s", why.Err, r.lastLines(ctx, &seen[i]))
				return why
			}
		}
		if f, failed := err.(*backends.Failure); failed { //nolint:errorlint // made by unready
			if c, ok := errors.AsType[*conditionError](f); ok && c.is.Reason == tooLate {
				return by.late(pods, objects, told, f)
			}
			return f
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("%w: not ready: %s%s", context.Cause(ctx), strings.Join(waiting, "; "), r.states(ctx, pods))
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return by.late(pods, objects, told, err)
			}
			return err
		case <-time.After(lookEvery):
		}
	}
}

// late returns the failure of a launch that was not ready in time, ours or a Deployment's: what a
// pod or an object has waited for is its class.
func (j judges) late(pods []pod, objects []unready, told *warnings, err error) error {
	facts := func(p *pod) []signs.Fact { return append(p.facts(), told.last(p)...) }
	of := func(facts func(*pod) []signs.Fact) (why error) {
		for i := 0; i < len(pods) && why == nil; i++ {
			p := &pods[i]
			why = j.of(p.Metadata.UID, "pod "+p.Metadata.Name).AtLast(facts(p))
		}
		return why
	}
	why := of(func(p *pod) []signs.Fact { return p.standing(facts(p)) })
	for i := 0; i < len(objects) && why == nil; i++ {
		if o := objects[i]; o.refused != nil {
			why = j.of(o.uid, o.name).AtLast([]signs.Fact{*o.refused})
		}
	}
	if why == nil { // then what no other pod came for in time
		why = of(facts)
	}
	f, ok := errors.AsType[*backends.Failure](why)
	if !ok {
		return err
	}
	return &backends.Failure{Class: f.Class, Hint: f.Hint, Err: fmt.Errorf("%w; %w", f.Err, err)}
}

// An unready is an object that is not ready yet.
type unready struct {
	name, uid string
	why       string
	refused   *signs.Fact // why the API server does not make its pods; nil: it does
}

// unready returns the objects that are not ready.
func (r *Release) unready(ctx context.Context, by judges, told *warnings, now time.Time) (list []unready, err error) {
	for _, o := range r.objects {
		have, err := look(ctx, r.in, o.at)
		if err != nil {
			return nil, err
		}
		if have == nil || have.Metadata.UID != o.uid {
			return nil, &backends.Failure{Class: "host", Err: fmt.Errorf("%s was deleted by somebody", o)}
		}
		why, failed := o.waits(have)
		is := unready{name: o.String(), uid: o.uid, why: fmt.Sprintf("%s: %s", o, why)}
		if why != "" || failed != nil {
			is.refused = told.refused(ctx, o, failed)
		}
		var facts []signs.Fact // none: what was refused before, and is made by now, begins anew
		if f := is.refused; f != nil {
			facts = append(facts, *f)
			is.why, failed = is.name+": "+f.String(), nil
		}
		if err := by.of(o.uid, is.name).Judge(facts, now); err != nil {
			return nil, err
		}
		if failed != nil {
			return nil, &backends.Failure{Class: "host", Err: fmt.Errorf("%s: %w", o, failed)}
		}
		if why != "" || is.refused != nil {
			list = append(list, is)
		}
	}
	return list, nil
}
