package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/backends/kubernetes/stack/logs"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/plaintext"
)

func logsKubeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kube", Usage: "follow a stack on Kubernetes: `NAMESPACE[/[KIND/]NAME]`"},
		kubeContextFlag(),
		&cli.StringFlag{Name: "since", Usage: "with --kube, begin so long ago or then: `10m`, 2026-11-25T10:00:00Z or all; default: 1m, and all with --save or --timeline"},
		&cli.StringSliceFlag{Name: "role", Usage: "with --kube, only this `ROLE`, sidecar, epp or container; may be repeated"},
		&cli.BoolFlag{Name: "all", Usage: "with --kube, show the lines that say nothing as well"},
		&cli.StringFlag{Name: "save", Usage: "with --kube, keep all lines in files in `DIR`, one for each container"},
		&cli.BoolFlag{Name: "timeline", Usage: "show the steps of one request, from --kube or from the files in DIR"},
		&cli.StringFlag{Name: "request", Usage: "with --timeline, the `ID` of the request, as the router or a server has it"},
		&cli.StringFlag{Name: "engine", Usage: "read lines as the logs of this `ENGINE`; default: by the stack's labels, llm-d for a DIR"},
		&cli.BoolFlag{Name: "json", Usage: "with --timeline, print as JSON"},
	}
}

// defaultSince is from when on a live view begins, unless it is said.
const defaultSince = time.Minute

// A stackLogs is the logs of a stack and how they are read.
type stackLogs struct {
	api      *kubeapi.Client
	stack    *stack.Stack
	patterns *engine.Profile
	reader   *loglines.Reader
	options  logs.Options
}

// logsKube shows the logs of a stack that runs on Kubernetes, as they grow.
func (a *app) logsKube(ctx context.Context, c *cli.Command) error {
	since := defaultSince
	if c.IsSet("save") {
		since = 0
	}
	s, err := a.stackLogs(ctx, c, since)
	if err != nil {
		return err
	}
	v := &logView{app: a, reader: s.reader, all: c.Bool("all")}
	order := logs.NewOrder(v.show)
	take := order.Add
	var files *logs.Files
	if dir := c.String("save"); dir != "" {
		fx, err := a.effects()
		if err != nil {
			return err
		}
		if err := fx.MkdirAll(effect.LaunchMkdir, dir); err != nil {
			return &usage{err}
		}
		files = logs.NewFiles(fx, dir)
		take = func(l logs.Line) error { return errors.Join(files.Add(l), order.Add(l)) }
	}
	running, _, stop := signals(ctx, a.say)
	defer stop()
	a.say("following the logs of %s/%s, %s; ctrl-C ends it", plaintext.Word(s.stack.Namespace), plaintext.Word(s.stack.Name), humanize.Plural(len(s.wanted()), "container"))
	s.options.Say = a.sayOf
	keeping, end := context.WithCancel(ctx)
	var ordered sync.WaitGroup
	ordered.Go(func() { order.Keep(keeping) })
	err = logs.Follow(running, s.api, s.stack, s.options, take)
	end()
	ordered.Wait()
	if files != nil {
		err = errors.Join(err, files.Close())
	}
	if v.noise > 0 {
		a.say("%s of noise left out; --all shows them", humanize.Plural(v.noise, "line"))
	}
	if err == nil && running.Err() != nil {
		return interrupted(running)
	}
	return refusedByKube(err, "probe", s.stack.Namespace)
}

// stackLogs finds a stack and decides what of its logs is read.
func (a *app) stackLogs(ctx context.Context, c *cli.Command, since time.Duration) (*stackLogs, error) {
	from, err := sinceFlag(c.String("since"), since, time.Now())
	if err != nil {
		return nil, &usage{err}
	}
	api, found, err := a.kubeStack(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &stackLogs{api: api, stack: found, options: logs.Options{Since: from}}
	if s.patterns, err = logEngine(cmp.Or(c.String("engine"), engineOfStack[found.Kind], "vllm")); err != nil {
		return nil, err
	}
	s.reader = loglines.NewReader(&s.patterns.Logs)
	return s, s.choose(c.StringSlice("role"))
}

// engineOfStack are the engines whose roles a kind of stack has.
var engineOfStack = map[string]string{"llm-d": "llm-d", "kserve": "llm-d", "dynamo": "dynamo-disagg"}

// logEngine returns the profile whose patterns are used.
func logEngine(name string) (*engine.Profile, error) {
	p, ok := engine.Lookup(name)
	if !ok {
		return nil, &usage{fmt.Errorf("--engine: there is no %q, want one of %s", name, strings.Join(engine.Names(), ", "))}
	}
	return p, nil
}

// sinceFlag returns the time that --since says.
func sinceFlag(text string, byDefault time.Duration, now time.Time) (time.Time, error) {
	switch text {
	case "all":
		return time.Time{}, nil
	case "":
		if byDefault == 0 {
			return time.Time{}, nil
		}
		return now.Add(-byDefault), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("--since: %q: want a duration such as 10m, a time such as 2026-11-25T10:00:00Z, or all", text)
}

// choose keeps the logs of some roles. A role is one of the stack, one of the engine, or
// a container's name.
func (s *stackLogs) choose(roles []string) error {
	if len(roles) == 0 {
		return nil
	}
	is := func(role string, c *logs.Container) bool {
		return role == c.Role || role == c.Name || role == s.patterns.Logs.Containers[c.Name]
	}
	for _, role := range roles {
		if !slices.ContainsFunc(s.all(), func(c *logs.Container) bool { return is(role, c) }) {
			var there []string
			for _, c := range s.all() {
				there = append(there, c.Role, c.Name)
			}
			slices.Sort(there)
			return &usage{fmt.Errorf("--role: the stack has no %q, want one of %s", role, strings.Join(slices.Compact(there), ", "))}
		}
	}
	s.options.Want = func(c *logs.Container) bool {
		return slices.ContainsFunc(roles, func(role string) bool { return is(role, c) })
	}
	return nil
}

// all returns the containers that the stack has now.
func (s *stackLogs) all() (list []*logs.Container) {
	for i := range s.stack.Roles {
		r := &s.stack.Roles[i]
		for j := range r.Pods {
			for k := range r.Pods[j].Containers {
				list = append(list, &logs.Container{Role: r.Name, Pod: r.Pods[j].Name, UID: r.Pods[j].UID, Name: r.Pods[j].Containers[k].Name})
			}
		}
	}
	return list
}

// wanted returns those of them whose logs are read.
func (s *stackLogs) wanted() []*logs.Container {
	return slices.DeleteFunc(s.all(), func(c *logs.Container) bool { return s.options.Want != nil && !s.options.Want(c) })
}

// sayOf says what happens to a log.
func (a *app) sayOf(c *logs.Container, text string) {
	if c != nil {
		text = c.String() + ": " + text
	}
	a.say("sweep: %s", text)
}

// A logView shows lines side by side.
type logView struct {
	*app
	reader *loglines.Reader
	all    bool
	noise  int
	day    string // of the last line
}

// show prints a line, unless it says nothing, and the date before the first line of a day.
func (v *logView) show(l logs.Line) error {
	if l.Previous { // its own log has it too
		return nil
	}
	if !v.all && v.reader.Noise(l.From.Source(), l.Text) {
		v.noise++
		return nil
	}
	text := l.Text
	if l.Cut > 0 {
		text += fmt.Sprintf(" [and %d bytes]", l.Cut)
	}
	if day := l.Time.UTC().Format(time.DateOnly); day != v.day {
		v.day = day
		if _, err := fmt.Fprintf(v.out, "==> %s UTC <==\n", day); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(v.out, "%s %s %s\n", l.Time.UTC().Format("15:04:05.000"), l.From, plaintext.Line(text))
	return err
}
