// Package paired says what a run found whose plan has quality: how each deployment
// answered the prompts, and whether it answered worse than the baseline. The statistics
// are package quality's.
package paired

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/rundir"
)

// confidence is that of the interval of one score.
const confidence = 0.95

// A Paired is the answers of a run's deployments.
type Paired struct {
	Servers []Server // baselines first, then by label
	Sides   []Side   // each deployment that has a baseline, against it
	// Unread are the files of answers that cannot be read, with the reason.
	Unread []string
}

// A Server is one deployment.
type Server struct {
	Label string
	quality.Summary
	answers *quality.Answers
}

// Asked reports whether sweep asked for the answers: otherwise it is not known which prompts
// were refused.
func (s *Server) Asked() bool { return s.answers.Source == quality.FromSweep }

// A Side is one deployment against another: its baseline, or the same one of another run.
type Side struct {
	Server, Baseline *Server
	quality.Comparison
	Confidence float64 // of Low to High: all sides share the level
}

// Read reads the answers in a run directory; nil if there are none.
func Read(dir string) (*Paired, error) {
	root := os.DirFS(dir)
	names, err := fs.Glob(root, layout.AnyQuality)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	st, err := rundir.Read(dir)
	if errors.Is(err, rundir.ErrNoRun) {
		st, err = &rundir.State{}, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Paired{}
	latest := map[string]*quality.Answers{}
	for _, name := range names { // launches in their order
		a, err := read(root, name, st)
		if err != nil {
			p.Unread = append(p.Unread, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		latest[a.Deployment] = a
	}
	for _, a := range latest {
		p.Servers = append(p.Servers, Server{a.Label, quality.Summarize(a.List, confidence), a})
	}
	slices.SortFunc(p.Servers, func(x, y Server) int {
		return cmp.Or(rank(x.answers)-rank(y.answers), strings.Compare(x.Label, y.Label), strings.Compare(x.answers.Deployment, y.answers.Deployment))
	})
	p.compare()
	return p, nil
}

func read(root fs.FS, name string, st *rundir.State) (*quality.Answers, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	if err := st.Untouched(name, text); err != nil {
		return nil, err
	}
	return quality.ReadAnswers(bytes.NewReader(text))
}

// rank returns 0 for a baseline.
func rank(a *quality.Answers) int {
	if len(a.Baseline) > 0 && isBase(a, a) {
		return 0
	}
	return 1
}

// isBase reports whether the deployment b has the values that a is compared with, and a's
// own values of all other axes.
func isBase(a, b *quality.Answers) bool {
	if len(a.Server) != len(b.Server) || a.Digest != b.Digest {
		return false
	}
	for axis, own := range a.Server {
		want, ok := a.Baseline[axis]
		if !ok {
			want = own
		}
		if b.Server[axis] != want {
			return false
		}
	}
	return true
}

// compare holds each deployment against its baseline.
func (p *Paired) compare() {
	for i := range p.Servers {
		s := &p.Servers[i]
		if len(s.answers.Baseline) == 0 || isBase(s.answers, s.answers) {
			continue
		}
		if n := slices.IndexFunc(p.Servers, func(b Server) bool { return isBase(s.answers, b.answers) }); n >= 0 {
			p.Sides = append(p.Sides, Side{Server: s, Baseline: &p.Servers[n]})
		}
	}
	compare(p.Sides)
}

// compare compares the answers of each side.
func compare(sides []Side) {
	for i := range sides {
		s := &sides[i]
		s.Confidence = 1 - quality.Alpha/float64(len(sides))
		s.Comparison = quality.Compare(s.Baseline.answers.List, s.Server.answers.List, len(sides))
	}
}

// uncompared reports whether a deployment should be compared with a baseline, and is not.
func (p *Paired) uncompared(s *Server) bool {
	return len(s.answers.Baseline) > 0 && !isBase(s.answers, s.answers) && p.sideOf(s) == nil
}

// sideOf returns that of a deployment; nil for none.
func (p *Paired) sideOf(s *Server) *Side {
	for i := range p.Sides {
		if p.Sides[i].Server == s {
			return &p.Sides[i]
		}
	}
	return nil
}
