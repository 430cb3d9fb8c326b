package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/kubernetes/stack/logs"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/lines"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/rundir"
)

// timeline shows the steps of one request.
func (a *app) timeline(ctx context.Context, c *cli.Command) error {
	request := c.String("request")
	if request == "" {
		return &usage{errors.New("--timeline needs --request ID: the x-request-id of the router, or the id of a server's answer")}
	}
	var told loglines.Timeline
	var err error
	if c.IsSet("kube") {
		told, err = a.kubeTimeline(ctx, c, request)
	} else {
		told, err = a.fileTimeline(c, request)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return a.json().Encode(told)
	}
	if len(told.Steps) == 0 && told.Named == 0 && told.Dropped == 0 {
		return &hinted{fmt.Errorf("no line of the logs names the request %q", plaintext.Word(request)), missingHint(told)}
	}
	page := a.page()
	printTimeline(page, told)
	return page.Err()
}

func missingHint(told loglines.Timeline) string {
	if len(told.Missing) == 0 {
		return "is it the id of the router or of a server, and do the logs go back so far?"
	}
	return "is it the id of the router or of a server, and do the logs go back so far? " + told.Missing[0].Says + ": " + told.Missing[0].Why
}

// kubeTimeline reads the logs of a stack as they are now.
func (a *app) kubeTimeline(ctx context.Context, c *cli.Command, request string) (loglines.Timeline, error) {
	s, err := a.stackLogs(ctx, c, 0)
	if err != nil {
		return loglines.Timeline{}, err
	}
	s.options.Once, s.options.Say = true, a.sayOf
	told, err := s.reader.Tell(request, func(story *loglines.Story) error {
		for _, one := range s.wanted() {
			story.Reads(one.Source())
		}
		var mu sync.Mutex // of the story
		err := logs.Follow(ctx, s.api, s.stack, s.options, func(l logs.Line) error {
			mu.Lock()
			defer mu.Unlock()
			if !l.Previous { // its own log has it too
				story.Add(l.From.Source(), loglines.Stamp{Time: l.Time}, l.Text)
			}
			return nil
		})
		s.options.Say = nil // it was said
		return errors.Join(err, context.Cause(ctx))
	})
	if err != nil {
		return loglines.Timeline{}, refusedByKube(err, "probe", s.stack.Namespace)
	}
	return told, nil
}

// fileTimeline reads the logs of a run directory, or files that --save kept.
func (a *app) fileTimeline(c *cli.Command, request string) (loglines.Timeline, error) {
	none := loglines.Timeline{}
	profile, err := logEngine(cmp.Or(c.String("engine"), "llm-d"))
	if err != nil {
		return none, err
	}
	dir := c.Args().First()
	if dir == "" {
		if dir, err = a.latestRun(); err != nil {
			return none, &usage{err}
		}
	}
	paths, err := launchLogs(dir)
	if err == nil && len(paths) == 0 {
		paths, err = filepath.Glob(filepath.Join(escapeGlob(dir), "*.log"))
	}
	if err != nil {
		return none, &usage{err}
	}
	if len(paths) == 0 {
		return none, &usage{fmt.Errorf("%s has no logs: want a run directory, or one that sweep logs --kube --save wrote", dir)}
	}
	reader := loglines.NewReader(&profile.Logs)
	near, err := a.dated(reader, dir, paths)
	if err != nil {
		return none, err
	}
	return reader.Tell(request, func(story *loglines.Story) error {
		for _, path := range paths {
			if strings.Contains(filepath.Base(path), ".previous-") { // the container's own log has it
				continue
			}
			if err := readInto(story, reader, path, near); err != nil {
				return err
			}
		}
		return nil
	})
}

// escapeGlob makes a path a pattern for itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// datedLines is how many lines of each log are searched for a date.
const datedLines = 1000

// dated returns about when the logs were written, for lines without a year: as a run began, if
// it is a run's directory, or a time that a line says with its year, as files of one stack are of
// one time. Of logs that say none it is half a year before the newest file was changed, so that no
// line is after that. A copy may have changed it: dated reports that it went by it.
func (a *app) dated(reader *loglines.Reader, dir string, paths []string) (near time.Time, err error) {
	if run, err := rundir.Read(dir); err == nil && !run.Manifest.CreatedAt.IsZero() {
		return run.Manifest.CreatedAt, nil
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return near, err
		}
		in := lines.NewReader(f, lines.Max)
		for range datedLines {
			line, ok := in.Next()
			if !ok {
				break
			}
			if at, _ := timeOf(reader, string(line), time.Time{}); at.Year() > 1 {
				return at.Time, f.Close()
			}
		}
		st, err := f.Stat()
		if err = errors.Join(err, in.Err(), f.Close()); err != nil {
			return near, err
		}
		if st.ModTime().After(near) {
			near = st.ModTime()
		}
	}
	a.say("no line of the logs says its year: they are taken to be of the year until %s, when the newest file was changed", near.UTC().Format(time.DateOnly))
	return near.AddDate(0, 0, -180), nil
}

// timeOf returns the time of a line and the line without the stamp of its container's log. near
// is about when it was written.
func timeOf(reader *loglines.Reader, text string, near time.Time) (at loglines.Stamp, rest string) {
	when, after, _ := strings.Cut(text, " ")
	if stamp, err := loglines.ParseStamp(time.RFC3339Nano, when); err == nil {
		return stamp, after
	}
	return reader.OwnTime(text, near), text
}

// readInto reads a log file into a story. A line without a time has that of the one before.
func readInto(story *loglines.Story, reader *loglines.Reader, path string, near time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	source := sourceOf(filepath.Base(path))
	story.Reads(source)
	at := loglines.Stamp{}
	in := lines.NewReader(f, lines.Max)
	for line, ok := in.Next(); ok; line, ok = in.Next() {
		if in.Rest {
			continue
		}
		own, text := timeOf(reader, strings.TrimRight(string(line), "\r\n"), near)
		if !own.IsZero() {
			at = own
		}
		story.Add(source, at, text)
	}
	return in.Err()
}

// sourceOf says whose log a file is: of a container, or of a replica of a role.
func sourceOf(name string) loglines.Source {
	if c, ok := logs.ParseFileName(name); ok {
		return c.Source()
	}
	name = strings.TrimSuffix(name, ".log")
	role, replica, _ := strings.Cut(name, "-")
	// The replicas of one number stand for what a pod holds.
	return loglines.Source{Role: role, Pod: replica, Container: role}
}

// printTimeline writes the steps of a request by their times.
func printTimeline(page *draw.Document, told loglines.Timeline) {
	start, end, whole := extent(told.Steps)
	if len(told.Steps) > 0 {
		took := "in"
		if whole {
			took = "in at most"
		}
		page.Text(fmt.Sprintf("request %s: %s %s %.4f s, from %s UTC", plaintext.Word(told.Request), humanize.Plural(len(told.Steps), "step"), took, end.Sub(start).Seconds(), start.UTC().Format("2006-01-02 15:04:05.0000")))
	} else {
		page.Text(fmt.Sprintf("request %s: no line that names it is a step that is known", plaintext.Word(told.Request)))
	}
	page.Blank()
	guessed := false
	var rows [][]string
	for _, s := range told.Steps {
		mark := " "
		if s.Of > 0 {
			mark, guessed = "~", true
		}
		var values []string
		for _, v := range s.Values {
			values = append(values, v.Name+"="+v.Value)
		}
		if s.Of > 1 {
			values = append(values, fmt.Sprintf("(one of %d lines that fit)", s.Of))
		}
		text := s.Says
		if len(values) > 0 {
			text += ": " + plaintext.Line(strings.Join(values, " "))
		}
		when := fmt.Sprintf("%8.4f", s.Time.Sub(start).Seconds())
		if s.WholeSecond {
			when = when[:len(when)-4] + "____"
		}
		rows = append(rows, []string{mark + " " + when, s.Pod + "/" + s.Container, text})
	}
	page.Rows(rows...)
	page.Blank()
	var missing []draw.Item
	for _, m := range told.Missing {
		missing = append(missing, draw.Items([]string{m.Says + ": " + m.Why})...)
	}
	page.Section("not in the logs", missing)
	if guessed {
		page.Paragraph("~ the line names no request: it fits by its pod, its time and what it says.")
	}
	if whole {
		page.Paragraph("A time that ends in .____ is of a line with whole seconds: its place within the second is not known. Lines of one log are in its order.")
	}
	if told.Named > 0 {
		page.Paragraph(fmt.Sprintf("Further lines that name the request: %d.", told.Named))
	}
	if told.Dropped > 0 {
		page.Paragraph(fmt.Sprintf("Lines that did not fit into memory: %d. Some of them may be of the request.", told.Dropped))
	}
}

// extent returns between which times the steps of a request were, and whether a line has whole
// seconds only. It then begins with a whole second.
func extent(steps []loglines.TimelineStep) (start, end time.Time, whole bool) {
	for _, s := range steps {
		last := s.Time
		if s.WholeSecond {
			last, whole = last.Add(time.Second), true
		}
		if start.IsZero() || s.Time.Before(start) {
			start = s.Time
		}
		if last.After(end) {
			end = last
		}
	}
	if whole {
		start = start.Truncate(time.Second)
	}
	return start, end, whole
}
