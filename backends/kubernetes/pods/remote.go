package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/kubelog"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// A remote is the access to one pod.
type remote struct {
	p    provider
	unit *provision.Unit
	uid  string
	host *podHost
	lost <-chan struct{} // closed when the cluster has ended the deployment; nil: nobody says so
	why  func() error    // after lost

	stop     context.CancelFunc
	watchers sync.WaitGroup

	mu      sync.Mutex
	now     *pod // as last seen, nil before
	ended   bool // the pod is gone
	changed chan struct{}
	trouble error  // why it cannot be looked at
	gpu     string // of its node, "" if that is not known
	seen    kubelog.Seen
}

var (
	_ provision.Remote       = (*remote)(nil)
	_ provision.TermsUpdater = (*remote)(nil)
)

// Attach watches a pod. Those of one role start side by side: the last of them waits until
// all run, and finds how each is reached. One that will not run is an error that says why.
func (p provider) Attach(ctx context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	r := &remote{p: p, unit: u, uid: i.ID, changed: make(chan struct{})}
	all := []*remote{r}
	l, ok := u.Data.(*launch)
	if ok {
		r.lost, r.why = l.lost, func() error { return l.why }
		all = l.attached(r)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.watchers.Go(func() { r.watch(life) })
	// The first failure ends the wait for the others, which may still be without a node.
	group, waiting := errgroup.WithContext(ctx)
	for _, one := range all {
		group.Go(func() error { return one.up(waiting) })
	}
	err := group.Wait()
	if err == nil && ok && u.Name == l.final {
		err = l.near(ctx)
	}
	if err != nil {
		r.keepLog(ctx)
		r.Close()
		return nil, err
	}
	return r, nil
}

// up returns when the pod runs and it is known how it is reached.
func (r *remote) up(ctx context.Context) error {
	err := r.await(ctx)
	if err == nil {
		err = r.reach(ctx)
	}
	if err != nil && r.unit.Replicas[0].Role.Replicas > 1 {
		return fmt.Errorf("%s: %w", r.unit.Replicas[0].Name(), err)
	}
	return err
}

// Close implements [provision.Remote].
func (r *remote) Close() {
	r.stop()
	r.watchers.Wait()
}

// Host implements [provision.Remote].
func (r *remote) Host(int) host.Host { return r.server() }

// server returns the server in the pod; nil before it is known how it is reached.
func (r *remote) server() *podHost {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.host
}

// UpdateTerms implements [provision.TermsUpdater].
func (r *remote) UpdateTerms(t *backends.Terms) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.GPU == "" {
		t.GPU = r.gpu
	}
	if r.now == nil {
		return
	}
	if digest := r.now.digest(); digest != "" {
		of := digest
		if len(r.unit.Spec.Roles) > 1 {
			of = r.unit.Replicas[0].Role.Name + "=" + digest
		}
		t.ImageDigest = joined(t.ImageDigest, of)
	}
}

// joined adds a text to a list of texts, once.
func joined(list, text string) string {
	if slices.Contains(strings.Fields(list), text) {
		return list
	}
	return strings.TrimSpace(list + " " + text)
}

// watch keeps what is known of the pod up to date, until ctx ends or the pod is gone.
func (r *remote) watch(ctx context.Context) {
	for ctx.Err() == nil {
		at, err := r.p.look(ctx, r.unit.Name)
		switch {
		case kubeapi.NotFound(err) || err == nil && at.Meta.UID != r.uid:
			r.set(nil, true, nil)
			return
		case err != nil:
			r.set(nil, false, err)
		default:
			r.set(at, false, nil)
			err = r.follow(ctx, at.Meta.Version)
			if r.hasEnded() {
				return
			}
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(r.p.b.every.again):
			}
		}
	}
}

// follow takes the changes of the pod after a version, as long as the API tells them.
func (r *remote) follow(ctx context.Context, version string) error {
	begun := time.Now()
	err := r.p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Watch(ctx, r.p.b.path("pods", ""), r.unit.Name, version, func(c kubeapi.Change) error {
			var at pod
			if err := json.Unmarshal(c.Object, &at); err != nil {
				return err
			}
			if at.Meta.UID == r.uid {
				r.set(&at, c.Type == "DELETED", nil)
			}
			return nil
		})
	})
	if err == nil && time.Since(begun) < r.p.b.every.again {
		err = errors.New("the watch of the pod ends at once")
	}
	return err
}

// set notes what was seen. What was last seen of a pod stays when it is gone, or cannot
// be seen.
func (r *remote) set(at *pod, gone bool, trouble error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at != nil {
		r.now = at
	}
	r.ended, r.trouble = gone, trouble
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *remote) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// A sight is what is known of the pod at one moment.
type sight struct {
	pod     *pod // nil: it was never seen
	gone    bool
	trouble error
	changed <-chan struct{}
}

func (r *remote) sight() sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sight{r.now, r.ended, r.trouble, r.changed}
}

// judge returns why a pod that ran has ended or its node is lost, nil if neither is so by now. A
// node that is heard again, or whose pod cannot be looked at, is no longer unheard: if it is
// so later, that time begins anew.
func (s *sight) judge(j *signs.Judge, now time.Time) error {
	var facts []signs.Fact
	ends := s.pod.server().Terminated != nil || s.pod.Status.Phase == "Failed" || s.gone
	if ends || s.trouble == nil && signs.Unheard(&s.pod.Status) {
		facts = s.pod.facts()
	}
	return j.Judge(facts, now)
}

// await returns when the container runs, or why it will not.
func (r *remote) await(ctx context.Context) error {
	what := "pod " + r.unit.Name
	j := &signs.Judge{What: what, Pending: r.p.b.config.Pending}
	for {
		s := r.sight()
		var facts []signs.Fact
		if s.pod != nil {
			at := s.pod.server()
			if at.Running != nil && s.pod.Status.IP != "" && !s.gone {
				return nil
			}
			facts = s.pod.facts()
			if s.pod.Status.Phase == "Pending" {
				facts = append(facts, r.events(ctx)...)
			}
			if err := j.Judge(facts, time.Now()); err != nil {
				return r.p.explain(ctx, s.pod, err)
			}
			if at.Terminated != nil {
				return r.exit(s.pod)
			}
		}
		if s.gone {
			return r.end(ctx, s.pod)
		}
		select {
		case <-s.changed:
		case <-r.lost:
			return r.why()
		case <-ctx.Done():
			last := s.trouble
			if len(facts) > 0 {
				last = fmt.Errorf("it is %s", facts[0])
			}
			return fmt.Errorf("%s does not run: %w", what, errors.Join(context.Cause(ctx), last))
		case <-time.After(time.Second): // a sign may have lasted too long by now
		}
	}
}

// exit returns the end of the container of a pod. One that was told to end, and not by us, has
// not ended by itself, whatever its status is.
func (r *remote) exit(at *pod) error {
	t, replica := at.server().Terminated, r.unit.Replicas[0]
	if oom := t.Reason == "OOMKilled"; at.Meta.Deleted == nil || oom {
		return backends.ShellExit(replica.Role.Name, replica.Place.Replica, t.ExitCode, oom)
	}
	return r.deleted()
}

func (r *remote) deleted() error {
	return &backends.Failure{Class: "deleted", Hint: "somebody has deleted it, or its Job", Err: fmt.Errorf("pod %s was deleted", r.unit.Name)}
}

// end returns why a pod is gone, or does not go, that nobody of ours has deleted.
func (r *remote) end(ctx context.Context, at *pod) error {
	what := "pod " + r.unit.Name
	facts := r.events(ctx)
	if at != nil {
		facts = append(at.facts(), facts...)
	}
	if err := (&signs.Judge{What: what}).Judge(facts, time.Now()); err != nil {
		return r.p.explain(ctx, at, err)
	}
	return r.deleted()
}

// events returns what the cluster reports about the pod, as far as that may be read. They explain
// what the pod does not say: none is no fault.
func (r *remote) events(ctx context.Context) []signs.Fact {
	var list signs.Events
	err := r.p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Get(ctx, r.p.b.path("events", "")+"?"+signs.EventsOf(r.uid), &list)
	})
	if err != nil {
		return nil
	}
	return signs.Troubles(list.Items)
}

// Follow implements [provision.Remote].
func (r *remote) Follow(ctx context.Context, _ int, _ int64, w io.Writer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{}) // closed when the log is read to its end
	var readers sync.WaitGroup
	defer readers.Wait()
	readers.Go(func() {
		defer close(over)
		r.read(reading, w)
	})
	end := r.overs(ctx)
	if end == nil {
		stop()
		return nil
	}
	select { // the last lines
	case <-over:
	case <-ctx.Done():
	case <-time.After(lastLines):
	}
	stop()
	return end
}

// lastLines is how long the log of a container that has ended is waited for.
const lastLines = 5 * time.Second

// overs returns how the server ended; nil if ctx did before.
func (r *remote) overs(ctx context.Context) error {
	j := &signs.Judge{What: "pod " + r.unit.Name}
	var leaving <-chan time.Time // from when the pod is being deleted: when it should have gone
	for {
		s := r.sight()
		if s.pod != nil {
			at := s.pod.server()
			if err := s.judge(j, time.Now()); err != nil {
				return r.p.explain(ctx, s.pod, err)
			}
			if at.Terminated != nil {
				return r.exit(s.pod)
			}
			if s.pod.Status.Phase == "Failed" {
				return fmt.Errorf("pod %s failed: %s", r.unit.Name, signs.Text(s.pod.Status.Reason, s.pod.Status.Message))
			}
			if s.pod.Meta.Deleted != nil && leaving == nil {
				leaving = time.After(time.Duration(s.pod.Meta.Grace)*time.Second + r.p.b.every.leave)
			}
		}
		if s.gone {
			return r.end(ctx, s.pod)
		}
		var again <-chan time.Time // a node that is not heard may have been so for too long by now
		if s.pod != nil && signs.Unheard(&s.pod.Status) {
			again = time.After(r.p.b.every.again)
		}
		select {
		case <-s.changed:
		case <-again:
		case <-leaving: // the kubelet of a lost node ends nothing
			return r.end(ctx, r.sight().pod)
		case <-r.lost:
			return r.why()
		case <-ctx.Done():
			return nil
		}
	}
}

// read copies the log of the container until it is complete or ctx ends. It opens it
// again where it breaks off, and leaves out the lines that come again.
func (r *remote) read(ctx context.Context, w io.Writer) {
	for ctx.Err() == nil {
		s := r.sight()
		started := s.pod != nil && (s.pod.server().Running != nil || s.pod.server().Terminated != nil)
		if started {
			ended := s.gone || s.pod.server().Terminated != nil
			err := r.readOnce(ctx, w, !ended)
			if ended && (err == nil || s.gone) {
				return
			}
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
		case <-time.After(r.p.b.every.again):
		}
	}
}

// readOnce reads the log from where it was read to.
func (r *remote) readOnce(ctx context.Context, w io.Writer, follow bool) error {
	query := url.Values{"container": {container}, "timestamps": {"true"}}
	if since := r.seen.Reopen(); !since.IsZero() {
		query.Set("sinceTime", since.UTC().Format(time.RFC3339))
	}
	if follow {
		query.Set("follow", "true")
	}
	return r.p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		body, err := api.Stream(ctx, r.p.b.path("pods", r.unit.Name)+"/log?"+query.Encode())
		if err != nil {
			return err
		}
		defer body.Close()
		for lines := kubelog.NewScanner(body); ; {
			l, err := lines.Next()
			last := errors.Is(err, io.EOF)
			switch {
			case err != nil && !last:
				return err
			case last && len(l.Text) == 0 && l.At.IsZero():
				return nil
			case l.At.IsZero():
				return fmt.Errorf("the kubelet says: %.200s", l.Text)
			case !l.Ends && follow:
				return errors.New("the log broke off in a line") // which comes again
			}
			if r.seen.Add(l.At, l.Hash) {
				if _, err := w.Write(append(l.Text, '\n')); err != nil {
					return err
				}
			}
			if last {
				return nil
			}
		}
	})
}

// keepLog writes what the container of a pod that did not come up has said: nobody will
// be able to read it afterwards.
func (r *remote) keepLog(ctx context.Context) {
	replica := r.unit.Replicas[0]
	if replica.Role.LogPath == nil {
		return
	}
	s := r.sight()
	if s.pod == nil || s.pod.server().Terminated == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLines)
	defer cancel()
	file, err := r.p.b.fx.Create(effect.LogCreate, replica.Role.LogPath(replica.Place.Replica))
	if err != nil {
		return
	}
	_ = r.readOnce(ctx, file, false) // what there is; its end stands in the error already
	_ = file.Close()
}
