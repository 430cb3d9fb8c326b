package executor

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/answering"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// answers is what a deployment answered to the plan's quality prompts, for its rows.
type answers struct {
	columns result.Row
	notes   []result.Finding
}

// readQuality reads the prompts that deployments answer, or what they answered to others.
func (r *run) readQuality() error {
	q := r.config.Plan.Quality
	switch {
	case q == nil:
		return nil
	case q.LMEval != nil:
		return r.readSamples(q.LMEval)
	}
	set, err := quality.Open(q.File, q.Items)
	if err != nil {
		return err
	}
	if set.SHA256 != q.FileSHA256 {
		return fmt.Errorf("quality: %s has changed since the plan was read", q.File)
	}
	r.quality = set
	return nil
}

// readSamples reads what lm-eval logged of deployments.
func (r *run) readSamples(l *plan.LMEval) error {
	r.samples = make(map[string]*quality.Samples, len(l.Files))
	for _, f := range l.Files {
		s, err := quality.OpenSamples(f.File, l.Metric, l.Filter)
		if err != nil {
			return err
		}
		if s.SHA256 != f.SHA256 {
			return fmt.Errorf("quality: %s has changed since the plan was read", f.File)
		}
		r.samples[f.File] = s
	}
	return nil
}

// described gives what is known of the deployment's answers, and of the launch that is up, to
// its trials.
func (d *deployment) described() {
	d.up.Columns = maps.Clone(d.fingerprintRow)
	if d.answers == nil {
		return
	}
	d.up.Notes = d.answers.notes
	if d.up.Columns == nil {
		d.up.Columns = result.Row{}
	}
	maps.Copy(d.up.Columns, d.answers.columns)
}

// answer makes the deployment answer the plan's quality prompts, on the server that is
// up, unless it has done so before: in this run, or in one that is resumed. It is false
// if the server or the run ended meanwhile; the next server is asked then. The error is
// ours.
func (d *deployment) answer(ctx context.Context) (answered bool, err error) {
	q := d.config.Plan.Quality
	if q == nil || d.answers != nil {
		return true, nil
	}
	if q.LMEval != nil {
		return true, d.logged(q.LMEval)
	}
	list, err := d.recalled(q.Digest())
	if err != nil {
		return false, err
	}
	if list == nil {
		if list = d.ask(ctx); list == nil {
			return false, nil
		}
		if err := d.keep(list, quality.FromSweep, ""); err != nil {
			return false, err
		}
	}
	d.answers = &answers{}
	d.answers.columns, d.answers.notes = answering.Row(list)
	d.described()
	return true, nil
}

// logged takes the answers that lm-eval has of the deployment. One without a file has no
// score.
func (d *deployment) logged(l *plan.LMEval) error {
	d.answers = &answers{}
	f := l.FileOf(d.of.Cells[0])
	if f == nil {
		d.run.Emit(event.Event{
			Type: event.Notice, Deployment: d.of.ID, Launch: d.up.Server.Launch, Label: d.label,
			Text: d.label + ": its quality is not known, as no file of quality.lm_eval is of it",
		})
		return nil
	}
	s := d.run.samples[f.File]
	if err := d.keep(s.List, quality.FromLMEval, s.Set); err != nil {
		return err
	}
	d.answers.columns = answering.Scores(s.List)
	d.described()
	return nil
}

// recalled returns the answers of an earlier launch to the same prompts; nil for none, and
// if some of them are unknown.
func (d *deployment) recalled(digest string) (list []quality.Answer, err error) {
	err = d.config.Dir.Quality(d.of.ID, func(r io.Reader) error {
		a, err := quality.ReadAnswers(r)
		if err == nil && a.Digest == digest && quality.Whole(a.List) {
			list = a.List
		}
		return nil // what cannot be read is asked again
	})
	return list, err
}

// ask puts the prompts to the server that is up. Its answers are nil if the run or the
// server ended meanwhile.
func (d *deployment) ask(ctx context.Context) []quality.Answer {
	q, s := d.config.Plan.Quality, d.up.Server
	d.run.Emit(event.Event{Type: event.StepStarted, Deployment: d.of.ID, Launch: s.Launch, Label: d.label, Step: "answer quality prompts"})
	d.run.Emit(event.Event{
		Type: event.Notice, Deployment: d.of.ID, Launch: s.Launch, Label: d.label,
		Text: fmt.Sprintf("%s: answers %s, each twice", d.label, humanize.Plural(q.Count, "quality prompt")),
	})
	asking, cancel := serving.WithLimit(ctx, "timeouts.trial", d.config.Plan.Timeouts.Trial)
	defer cancel()
	asking, stop := backends.WhileUp(asking, s.Deployment)
	defer stop()
	client := ask.New(s.Host(d.profile.EntryRole(), 0), d.authorize, d.run.mask, d.Asked)
	defer client.Close()
	list := answering.Ask(asking, answering.Server{
		API: &d.profile.API, Model: d.of.Server.Served, Mask: d.run.mask,
		Post: func(ctx context.Context, path string, body any) ([]byte, error) {
			return client.PostWithin(ctx, d.config.Plan.Timeouts.Request, path, body)
		},
	}, q, d.run.quality)
	if !quality.Whole(list) { // connections break a moment before the end of a server is seen
		news := time.NewTimer(untilSeen)
		defer news.Stop()
		select {
		case <-s.Done():
		case <-ctx.Done():
		case <-news.C:
		}
	}
	if ctx.Err() != nil || s.Gone() {
		return nil
	}
	return list
}

// untilSeen is how long the news of a server's end may take to come here, as in package
// attempt.
const untilSeen = 5 * time.Second

// keep writes answers into the folder of the launch that gave them. set is that of
// answers of lm-eval.
func (d *deployment) keep(list []quality.Answer, source quality.Source, set string) error {
	q := d.config.Plan.Quality
	a := quality.Answers{
		Header: quality.Header{Deployment: d.of.ID, Label: d.label, Server: map[string]string{}, Baseline: q.Axes(), Digest: q.Digest(), Set: set, Source: source},
		List:   list,
	}
	for _, s := range d.of.Cells[0].Settings {
		if s.Axis.Server {
			a.Server[s.Axis.Name] = fmt.Sprint(s.Value)
		}
	}
	return d.config.Dir.WriteQuality(d.of.ID, d.up.Server.Launch, a.Write)
}

// authorize adds what the server wants, and the headers of the deployment's load.
func (d *deployment) authorize(h http.Header) {
	d.up.Server.Authorize(h)
	for name, value := range d.of.Cells[0].Load.Headers {
		h.Set(name, value.Reveal())
	}
}
