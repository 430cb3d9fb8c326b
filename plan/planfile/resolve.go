package planfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result"
)

// resolve finds what a plan names: files, the user's configuration, the profiles
// of its engines, and the columns that its expressions read.
func (l *loader) resolve(p *plan.Plan) {
	if l.opts.Config != "" {
		l.config = l.readConfig(l.opts.Config)
	}
	l.findProfiles(p)
	l.compile(p)
	l.quality(p.Quality)
	for i, r := range l.loads {
		r.find(l, p)
		r.namedFiles(r.plan)
		if len(p.Loads) > 0 {
			p.Loads[i].Load = r.plan.Load
		}
	}
}

// namedFiles digests the files that a plan's load names. One that has no effect
// is not looked at.
func (l *loader) namedFiles(p *plan.Plan) {
	pr := &p.Load.Prompts
	if t := p.Load.Trace; t != nil && t.File != "" {
		t.FileRef = t.File
		t.File, t.FileSHA256 = l.digestFile(t.File, "load", "trace", "file")
	}
	if pr.PairsFile != "" && pr.Kind == plan.PromptsSynthetic && pr.Distribution == plan.Empirical && !p.Load.Trace.Lengths() {
		pr.PairsRef = pr.PairsFile
		pr.PairsFile, pr.PairsSHA256 = l.digestFile(pr.PairsFile, "load", "prompts", "pairs_file")
	}
	if pr.File != "" && pr.Kind != plan.PromptsSynthetic && pr.Kind != "inline" {
		pr.FileRef = pr.File
		pr.File, pr.FileSHA256 = l.digestFile(pr.File, "load", "prompts", "file")
	}
}

// quality reads the prompts that deployments answer, or what lm-eval has of them.
func (l *loader) quality(q *plan.Quality) {
	if q != nil && q.LMEval != nil {
		l.samples(q.LMEval)
	}
	if q == nil || q.File == "" {
		return
	}
	q.FileRef = q.File
	if q.File, q.FileSHA256 = l.digestFile(q.File, "quality", "file"); q.FileSHA256 == "" {
		return
	}
	set, err := quality.Open(q.File, q.Items)
	if err != nil {
		l.Report.Node(l.file.At("quality", "file"), "quality", "%v", err).Hint = "docs/quality.md has the keys of an item"
		return
	}
	q.Count, q.FileSHA256 = len(set.Items), set.SHA256
}

// samples reads what lm-eval logged of deployments.
func (l *loader) samples(e *plan.LMEval) {
	files := l.file.At("quality", "lm_eval", "files")
	if e.Metric == "" || files.Kind != syntax.List || len(files.Items) != len(e.Files) {
		return // which is reported
	}
	var tasks quality.Tasks
	for i := range e.Files {
		f, at := &e.Files[i], files.Items[i].Get("file")
		if f.File == "" || at == nil {
			continue
		}
		f.FileRef = f.File
		if f.File, f.SHA256 = l.digestAt(at, f.File); f.SHA256 == "" {
			continue
		}
		s, err := quality.OpenSamples(f.File, e.Metric, e.Filter)
		if err == nil {
			f.SHA256, err = s.SHA256, tasks.Add(f.File, s)
		}
		if err != nil {
			l.Report.Node(at, "quality", "%v", err).Hint = "docs/quality.md says how to run lm-eval"
		}
	}
}

// digestFile reads a file that a plan names once, for its digest: what is asked
// is part of what could change a measurement. It returns where the file is.
func (l *loader) digestFile(ref string, keys ...string) (file, sum string) {
	return l.digestAt(l.file.At(keys...), ref)
}

// digestAt is digestFile for a file that is named at a node.
func (l *loader) digestAt(at *syntax.Node, ref string) (file, sum string) {
	file = ref
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.dir, file)
	}
	f, err := input.Open(file, input.MaxData)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Report.Node(at, "file", "there is no file %s", ref).Hint = "the path is relative to the plan's folder"
		return file, ""
	case err != nil:
		l.Report.Node(at, "file", "%s cannot be read: %v", ref, input.Reason(err))
		return file, ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		l.Report.Node(at, "file", "%s cannot be read: %v", ref, input.Reason(err))
	}
	return file, hex.EncodeToString(h.Sum(nil))
}

// findProfiles finds the profile of each engine of the plan and of its matrix, by
// the engine's key. What is not found is for a rule to tell.
func (l *loader) findProfiles(p *plan.Plan) {
	l.profiles = make(map[string]*engine.Profile)
	find := func(key, name string) {
		if profile, ok := l.profile(name); ok {
			l.profiles[key] = profile
		}
	}
	for key, e := range p.Engines {
		find(key, cmp.Or(e.Profile, key))
	}
	if p.Matrix.Axis("engine") == nil {
		return
	}
	for _, n := range l.file.Values("engine") {
		if _, ok := p.Engines[n.Text]; !ok && n.Kind == syntax.String {
			find(n.Text, n.Text)
		}
	}
}

// roleNames returns the roles of the plan's engines that have several, each once.
func (l *loader) roleNames() []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
		if roles := l.profiles[key].Roles; len(roles) > 1 {
			for _, r := range roles {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// compile compiles the objectives over the columns of the plan, and the cells
// that it leaves out over its axes.
func (l *loader) compile(p *plan.Plan) {
	names := make([]string, 0, len(p.SLO))
	for _, s := range p.SLO {
		names = append(names, s.Name)
	}
	columns := make([]result.Column, 0, len(p.Matrix.Axes))
	for _, a := range p.Matrix.Axes {
		columns = append(columns, a.Describe())
	}
	l.columns = result.Columns(result.Extra{Axes: columns, SLOs: names, Roles: l.roleNames()})
	p.CompileSLOs(l.Report, l.columns, l.file.Objective)
	if n := l.file.Root.Get("matrix").Get("exclude"); n != nil {
		for _, item := range n.Items {
			if item.Kind == syntax.String { // anything else was reported
				l.excludes = append(l.excludes, plan.CompileFilter(l.Report, item, p.Matrix.Axes))
			}
		}
	}
}

// hasContent reports whether a YAML file has more than comments.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// readConfig reads the user's configuration; its prices are held against the
// catalogue by a rule.
func (l *loader) readConfig(path string) (c plan.Config) {
	text, err := input.ReadFile(path, syntax.MaxBytes)
	if errors.Is(err, input.ErrEmpty) || err == nil && !hasContent(text) {
		return c
	}
	if err != nil {
		unread(l.Report, path, "config", "the user's configuration", err)
		return c
	}
	if l.configNode = syntax.Parse(path, string(text), l.Report); l.configNode != nil {
		d := strict.Decoder{Report: l.Report}
		d.Decode(l.configNode, &c, "")
	}
	return c
}
