package signs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/kubeapi"
)

// matches reports whether a sign is of a fact.
func (s *sign) matches(f Fact) bool {
	reason := s.reason == ""
	for one := range strings.SplitSeq(s.reason, "|") {
		stem, open := strings.CutSuffix(one, "*")
		reason = reason || one == f.reason || open && strings.HasPrefix(f.reason, stem)
	}
	return s.in == f.in && reason && (s.message == "" || regexp.MustCompile(s.message).MatchString(f.message))
}

// of returns the sign of a fact, nil for none.
func of(f Fact) *sign {
	for i := range signs {
		if signs[i].matches(f) {
			return &signs[i]
		}
	}
	return nil
}

// Class returns the class of a fact that may be a failure, "" for another.
func Class(f Fact) string {
	if s := of(f); s != nil {
		return s.class
	}
	return ""
}

// Ends reports whether a fact is of the pod's end, which nothing but another pod helps.
func (f Fact) Ends() bool { return f.in == inPod || f.in == inTarget }

// failure returns an error as the failure that a sign is.
func (s *sign) failure(own bool, err error) *backends.Failure {
	if s.err != nil && !errors.Is(err, s.err) {
		err = fmt.Errorf("%w: %w", s.err, err)
	}
	hint := s.hint
	if own && s.own != "" {
		hint = s.own
	}
	return &backends.Failure{Class: s.class, Hint: hint, Err: err}
}

// Denied makes a refusal by the access rules one of a provider's.
func Denied(err error) error {
	if _, ok := errors.AsType[*kubeapi.Denied](err); ok {
		return fmt.Errorf("%w: %w", backends.ErrRefused, err)
	}
	return err
}

// Refusal returns the error of a create that was refused, nil for none. own says whether what was to
// be made is of a user's own manifests.
func Refusal(own bool, what string, err error) error {
	if err == nil {
		return nil
	}
	at, ok := errors.AsType[*kubeapi.StatusError](err)
	if !ok {
		return fmt.Errorf("%s: %w", what, Denied(err))
	}
	f := Refused(at.Reason, at.Message)
	if s := of(f); s != nil {
		return s.failure(own, fmt.Errorf("%s: %.500s", what, f))
	}
	if at.Code >= 400 && at.Code < 500 {
		return fmt.Errorf("%w: %s: %w", backends.ErrSpec, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// A Judge holds the facts of one pod against the signs. It looks at no clock of its own.
type Judge struct {
	What string // "pod NAME"
	// Own says that the pod is of a user's own manifests.
	Own bool
	// Pending is how long a node and its volumes may be waited for, and room in a quota.
	Pending time.Duration

	since map[spell]time.Time
}

// A spell is what time is counted of: the texts of one reason change from one try to the
// next, and some releases do not repeat the cause while they wait. What may last for another
// time is another one.
type spell struct {
	in              place
	reason          string
	after, ownAfter time.Duration
	waits           bool
}

func (s *sign) spell() spell { return spell{s.in, s.reason, s.after, s.ownAfter, s.waits} }

// Judge returns the failure that the facts are by now, nil for none. Each call has all facts of
// the moment: what is not there any more begins anew.
func (j *Judge) Judge(facts []Fact, now time.Time) error {
	here, since := found(facts), map[spell]time.Time{}
	for s := range here {
		begun, before := j.since[s.spell()]
		if !before {
			begun = now
		}
		since[s.spell()] = begun
	}
	j.since = since
	return j.first(here, func(s *sign) bool {
		after := s.after
		switch {
		case s.waits:
			after = j.Pending
		case j.Own && s.ownAfter > 0:
			after = s.ownAfter
		}
		return now.Sub(since[s.spell()]) >= after
	})
}

// AtLast returns the failure that the facts are if nobody waits any longer, nil for none.
func (j *Judge) AtLast(facts []Fact) error {
	return j.first(found(facts), func(*sign) bool { return true })
}

// found returns the facts that have a sign.
func found(facts []Fact) map[*sign]Fact {
	here := map[*sign]Fact{}
	for _, f := range facts {
		if s := of(f); s != nil {
			here[s] = f
		}
	}
	return here
}

// first returns the failure of the most telling sign that is ripe.
func (j *Judge) first(here map[*sign]Fact, ripe func(*sign) bool) (err error) {
	for i := range signs {
		s := &signs[i]
		if f, ok := here[s]; ok && ripe(s) {
			what := j.What
			if f.of != "" {
				what = "container " + f.of + " of " + what
			}
			return s.failure(j.Own, fmt.Errorf("%s: %.500s", what, f))
		}
	}
	return nil
}
