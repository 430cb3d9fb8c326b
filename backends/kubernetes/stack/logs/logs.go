// Package logs follows the logs of a stack on Kubernetes: of every container of every pod,
// init containers included.
//
// A log is read with the timestamps of the container runtime, and read on from the last
// one after a connection broke, so that no line is lost and none comes twice. When a
// container was restarted, what its last run printed is read as well, before the kubelet
// forgets it. Pods that join the stack are followed too.
//
// [Follow] hands each line to a function; [Files] has one that keeps a file for each
// container.
package logs

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/kubeapi"
)

// Bounds.
const (
	maxContainers = 500              // that are followed at once
	maxPrevious   = 50_000           // lines that are read of a run that is over
	shortPause    = time.Second / 4  // before a broken log is asked for again
	longPause     = 10 * time.Second // the same, after many failures
)

// A Container is one whose log is read.
type Container struct {
	Role string // of the stack: prefill, decode, router
	Pod  string
	UID  string // of the pod
	Name string
}

func (c *Container) String() string { return c.Role + "/" + c.Pod + "/" + c.Name }

// Source returns where the lines of the log are from.
func (c *Container) Source() loglines.Source {
	return loglines.Source{Role: c.Role, Pod: c.Pod, Container: c.Name}
}

// A Line is one line of a log.
type Line struct {
	From *Container
	Time time.Time // of the container runtime
	Text string    // at most [MaxLine] bytes, without the end of the line
	Cut  int       // bytes of the line that are not in Text
	// Run is how often the container had been restarted before it printed this.
	Run int
	// Previous says that the line was read from a run that was over already. It stands
	// in the container's own log too, unless that has it already.
	Previous bool
}

// Options say what is read.
type Options struct {
	// Since leaves out what was printed before; the zero time leaves out nothing.
	Since time.Time
	// Want says which containers are read; nil is all.
	Want func(*Container) bool
	// Once reads what there is, and ends.
	Once bool
	// Say gets what happens to a log: a restart, a connection that broke. It is
	// called by several goroutines at once. It may be nil.
	Say func(from *Container, text string)
}

// Follow reads the logs of a stack until the context ends, which is no error, or with Once
// until all is read. It calls take for each line, in a container's order, from one
// goroutine for each container; an error of take ends it.
//
// It fails with a [kubeapi.Denied] if the user may not read logs or list pods.
func Follow(ctx context.Context, api *kubeapi.Client, s *stack.Stack, o Options, take func(Line) error) error {
	f := &follower{
		api: api, stack: s, options: o, take: take, roles: map[string]string{},
		path: "/api/v1/namespaces/" + url.PathEscape(s.Namespace) + "/pods",
	}
	f.pods = newPodList(api, f.path, o.Once, func(text string) { f.say(nil, "%s", text) })
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.fail = stop
	f.know(s)
	var list sync.WaitGroup
	list.Go(func() { f.pods.keep(inner) })
	err := f.run(inner)
	if err == nil {
		f.readers.Wait() // only Once comes here before something ended it
	}
	if cause := context.Cause(inner); cause != nil && ctx.Err() == nil {
		err = cause // what the first reader failed with
	}
	stop(nil)
	f.readers.Wait()
	list.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A follower is one call of Follow.
type follower struct {
	api     *kubeapi.Client
	stack   *stack.Stack
	options Options
	take    func(Line) error
	path    string // of the namespace's pods
	pods    *podList
	fail    context.CancelCauseFunc // ends everything
	readers sync.WaitGroup

	// Of the goroutine of run alone.
	roles map[string]string // of the stack's pods, by UID
}

func (f *follower) say(c *Container, format string, args ...any) {
	if f.options.Say != nil {
		f.options.Say(c, fmt.Sprintf(format, args...))
	}
}

// know takes over which pods have which role.
func (f *follower) know(s *stack.Stack) {
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			f.roles[s.Roles[i].Pods[j].UID] = s.Roles[i].Name
		}
	}
}

// run starts a goroutine for each container of each pod of the stack, now and later.
func (f *follower) run(ctx context.Context) error {
	started, strangers := map[string]bool{}, map[string]bool{}
	var again time.Time // when the stack may be looked for anew
	for snapshot := (*snapshot)(nil); ; {
		var err error
		if snapshot, err = f.pods.after(ctx, snapshot); err != nil {
			return err
		}
		unknown := false
		for uid := range snapshot.pods {
			unknown = unknown || (f.roles[uid] == "" && !strangers[uid])
		}
		if unknown && time.Now().After(again) {
			again = time.Now().Add(longPause)
			// A stack that has no name of its own, or is not there for a moment, keeps the
			// pods that it had.
			if s, err := stack.Discover(ctx, f.api, f.stack.Namespace, f.stack.Name); err == nil {
				f.know(s)
				for uid := range snapshot.pods {
					strangers[uid] = f.roles[uid] == ""
				}
			}
		}
		maps.DeleteFunc(started, func(key string, _ bool) bool {
			uid, _, _ := strings.Cut(key, "/")
			return snapshot.pods[uid] == nil
		})
		for uid, p := range snapshot.pods {
			for _, name := range p.order {
				c := &Container{Role: f.roles[uid], Pod: p.name, UID: uid, Name: name}
				key := uid + "/" + name
				if c.Role == "" || started[key] || f.options.Want != nil && !f.options.Want(c) {
					continue
				}
				if len(started) == maxContainers {
					return fmt.Errorf("the stack has more than %d containers: choose a role", maxContainers)
				}
				started[key] = true
				one := &reader{follower: f, c: c}
				f.readers.Go(func() {
					if err := one.read(ctx); err != nil {
						f.fail(err)
					}
				})
			}
		}
		if f.options.Once {
			return nil
		}
	}
}

// logPath returns the path of a container's log.
func (f *follower) logPath(c *Container, query url.Values) string {
	query.Set("container", c.Name)
	query.Set("timestamps", "true")
	return f.path + "/" + url.PathEscape(c.Pod) + "/log?" + query.Encode()
}
