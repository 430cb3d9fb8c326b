package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/secret"
)

// A dimension is one axis, or several that are zipped: the index i of a
// dimension is the index i of each of its axes.
type dimension struct {
	axes []int // into Matrix.Axes
	n    int
}

// expand makes the cells and deployments of a plan that is right so far.
func (l *loader) expand(p *Plan) {
	dims := dimensions(p.Matrix)
	limit := cmp.Or(l.opts.MaxCells, DefaultMaxCells)
	if n := count(dims); n+len(p.Matrix.Include) > limit {
		d := l.Report.Node(l.key("matrix"), "too-many-cells", "the matrix has %s cells, and %d are allowed", amount(n+len(p.Matrix.Include)), limit)
		d.Hint = "counted before exclude; take values away, or raise the limit with --max-cells"
		return
	}
	l.trees = make(forester)
	p.cells = make([]Cell, 0, count(dims)+len(p.Matrix.Include))
	all := &servers{l: l, p: p, made: make(map[string]Server), met: make(map[string]bool)}
	l.product(p, all, dims)
	l.added(p, all)
	if len(p.cells) == 0 && l.Report.Len() == 0 {
		l.Report.Node(l.key("matrix", "exclude"), "no-cells", "every cell is excluded")
	}
	l.checkCells(p)
	l.checkCap(p)
	if l.Report.Len() > 0 {
		return
	}
	p.conditions = p.conditionsOf(p.Load)
	p.order = p.deployments()
}

// dimensions are the axes in the file's order, each zip at the place of its
// first axis.
func dimensions(m Matrix) []dimension {
	group := make(map[string]int)
	for i, z := range m.Zip {
		for _, name := range z {
			group[name] = i + 1
		}
	}
	var dims []dimension
	at := make(map[int]int)
	for i, a := range m.Axes {
		g := group[a.Name]
		if d, ok := at[g]; ok && g > 0 {
			dims[d].axes = append(dims[d].axes, i)
			continue
		}
		at[g] = len(dims)
		dims = append(dims, dimension{axes: []int{i}, n: len(a.Values)})
	}
	return dims
}

// count is the size of the product; it stops at the largest integer.
func count(dims []dimension) int {
	n := 1
	for _, d := range dims {
		if d.n > 0 && n > (math.MaxInt>>1)/d.n {
			return math.MaxInt >> 1
		}
		n *= d.n
	}
	return n
}

func amount(n int) string {
	if n >= math.MaxInt>>1 {
		return "more than 10^18"
	}
	return fmt.Sprint(n)
}

// product makes the cells of the matrix, the first axis changing slowest.
func (l *loader) product(p *Plan, all *servers, dims []dimension) {
	hits := make([]bool, len(l.excludes))
	index := make([]int, len(dims))
	for range count(dims) {
		settings := make([]Setting, len(p.Matrix.Axes))
		for d, dim := range dims {
			for _, a := range dim.axes {
				axis := &p.Matrix.Axes[a]
				settings[a] = Setting{Axis: axis, Value: axis.Values[index[d]]}
			}
		}
		if !l.excluded(p, settings, hits) {
			l.cell(p, all, settings)
		}
		for d := len(dims) - 1; d >= 0; d-- {
			if index[d]++; index[d] < dims[d].n {
				break
			}
			index[d] = 0
		}
	}
	// A matrix that a flag has narrowed may leave an exclude without work.
	narrowed := slices.ContainsFunc(p.set, func(s string) bool { return strings.HasPrefix(s, "matrix.") })
	for i, hit := range hits {
		if !hit && !narrowed {
			n := l.root.Get("matrix").Get("exclude").Items[i]
			l.Report.Node(n, "no-effect", "this exclude matches no cell").Hint = "names and values are compared as they are written in the axes"
		}
	}
}

func (l *loader) excluded(p *Plan, settings []Setting, hits []bool) bool {
	if len(l.excludes) == 0 {
		return false
	}
	env := p.axisEnv.values(settings)
	out := false
	for i, e := range l.excludes {
		ok, err := e.Run(env)
		if err != nil {
			l.Report.Node(l.root.Get("matrix").Get("exclude").Items[i], "expression", "%v", err)
			hits[i] = true
			continue
		}
		if ok {
			hits[i], out = true, true
		}
	}
	return out
}

// added makes the cells of include.
func (l *loader) added(p *Plan, all *servers) {
	have := make(map[string]bool, len(p.cells))
	for _, c := range p.cells {
		have[c.ID] = true
	}
	for i, values := range p.Matrix.Include {
		settings := make([]Setting, 0, len(p.Matrix.Axes))
		for i := range p.Matrix.Axes {
			a := &p.Matrix.Axes[i]
			v, ok := values[a.Name]
			if !ok {
				v = a.Values[0]
			}
			if _, isFloat := a.Values[0].(float64); isFloat {
				if n, ok := v.(int64); ok {
					v = float64(n)
				}
			}
			if fmt.Sprintf("%T", v) != fmt.Sprintf("%T", a.Values[0]) {
				l.Report.Node(l.included[i], "type", "%s is %v here and another type in the matrix", a.Name, v)
			}
			settings = append(settings, Setting{Axis: a, Value: v})
		}
		l.cell(p, all, settings)
		if id := p.cells[len(p.cells)-1].ID; have[id] {
			l.Report.Node(l.included[i], "duplicate", "this cell is in the matrix already")
		} else {
			have[id] = true
		}
	}
}

func (l *loader) cell(p *Plan, all *servers, settings []Setting) {
	c := Cell{Index: len(p.cells), Settings: settings}
	c.Server = all.get(settings)
	c.Load = l.load(p, settings, c.Server.Engine)
	c.ID = cellID(c, l.trees)
	p.cells = append(p.cells, c)
}

// load is the plan's load with the cell's values filled in.
func (l *loader) load(p *Plan, settings []Setting, engine string) Load {
	d := draft{load: p.Load}
	for _, s := range settings {
		if !s.Axis.Server {
			s.Axis.kind.put(&d, s.Value)
		}
	}
	ld := d.load
	if ld.RequestsPerWorker > 0 {
		ld.Requests = ld.RequestsPerWorker * ld.Concurrency
	}
	ignore := ld.Sampling.IgnoreEOS
	if ld.Output == "" {
		profile := l.profiles[engine]
		switch {
		case ignore != nil && *ignore:
			ld.Output = OutputExact
		case ignore != nil, len(ld.Sampling.Stop) > 0, profile == nil, !profile.API.IgnoreEOS:
			ld.Output = OutputNatural
		default:
			ld.Output = OutputExact
		}
	}
	if ld.Output == OutputExact {
		yes := true
		ld.Sampling.IgnoreEOS = &yes
	}
	return ld
}

// servers makes each server once, however many cells share it.
type servers struct {
	l    *loader
	p    *Plan
	made map[string]Server
	met  map[string]bool // problems that were reported
}

func (s *servers) get(settings []Setting) Server {
	var key strings.Builder
	for _, set := range settings {
		if set.Axis.Server {
			fmt.Fprintf(&key, "%q=%T:%v\x00", set.Axis.Column, set.Value, set.Value)
		}
	}
	if have, ok := s.made[key.String()]; ok {
		return have
	}
	out := s.make(settings)
	s.made[key.String()] = out
	return out
}

func (s *servers) make(settings []Setting) Server {
	d := draft{
		server: Server{Model: s.p.Model, ModelRevision: s.p.ModelRevision},
		args:   make(map[string]any), env: make(map[string]secret.String), roles: make(map[string]Role),
	}
	for _, set := range settings {
		if set.Axis.Server {
			set.Axis.kind.put(&d, set.Value)
		}
	}
	out, args, env, roles := d.server, d.args, d.env, d.roles
	e := s.p.Engines[out.Engine]
	if profile := s.l.profiles[out.Engine]; profile != nil {
		out.Profile = profile.Name
		out.ProfileSHA256 = s.l.fileDigest(profile.Name)
	}
	out.Served = cmp.Or(e.Served, out.Model)
	out.Image, out.Entrypoint, out.Command, out.CPUs = e.Image, e.Entrypoint, e.Command, e.CPUs
	maps.Copy(args, e.Args)
	maps.Copy(env, e.Env)
	out.Args = argList(args)
	if len(env) > 0 {
		out.Env = env
	}
	for name, role := range e.Roles {
		roles[name] = role.over(roles[name])
	}
	if len(roles) > 0 {
		out.Roles = roles
	}
	s.countGPUs(&out, d.gpus)
	return out
}

// deployments groups the cells by their server and puts them in the order in
// which they are to run.
func (p *Plan) deployments() []Deployment {
	var out []Deployment
	at := make(map[string]int)
	ids := make(map[string]string) // by the server's settings, so that each server is hashed once
	for _, c := range p.cells {
		var key strings.Builder
		for _, s := range c.Settings {
			if s.Axis.Server {
				fmt.Fprintf(&key, "%T:%v\x00", s.Value, s.Value)
			}
		}
		id, ok := ids[key.String()]
		if !ok {
			id = serverID(c.Server)
			ids[key.String()] = id
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			out = append(out, Deployment{ID: id, Server: c.Server})
		}
		out[i].Cells = append(out[i].Cells, c)
	}
	if p.Order == OrderShuffled {
		r := rand.New(rand.NewPCG(p.Seed, 0x6f72646572)) // "order": apart from every other use of the seed
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		for _, d := range out {
			r.Shuffle(len(d.Cells), func(i, j int) { d.Cells[i], d.Cells[j] = d.Cells[j], d.Cells[i] })
		}
	}
	return out
}

// checkCells is what only shows in cells.
func (l *loader) checkCells(p *Plan) {
	ids := make(map[string]bool, len(p.cells))
	var unreached Load
	for _, c := range p.cells {
		if ids[c.ID] && l.Report.Len() == 0 {
			// Axes have no value twice, so this is an include or a collision.
			l.Report.Node(l.key("matrix"), "duplicate", "two cells have the id %s", c.ID)
		}
		ids[c.ID] = true
		ld := c.Load
		if ld.Requests > 0 && ld.Requests < ld.Concurrency && ld.Concurrency > unreached.Concurrency {
			unreached = ld
		}
	}
	if unreached.Concurrency > 0 {
		d := l.Report.Node(l.at("load", "requests"), "no-effect", "%d requests never reach a concurrency of %d", unreached.Requests, unreached.Concurrency)
		d.Hint = "write requests_per_worker to scale with the concurrency"
	}
	pr := p.Load.Prompts
	if pr.Kind != "inline" || pr.Reuse == ReuseAllowed || p.Load.Requests+p.Load.RequestsPerWorker == 0 {
		return // by time, how many are sent is not known yet
	}
	most := 0
	for _, d := range p.deployments() {
		n := 0
		for _, c := range d.Cells {
			n += p.Repeats * (c.Load.Requests + c.Load.Warmup.Requests)
		}
		most = max(most, n)
	}
	if most > len(pr.Texts) {
		d := l.Report.Node(l.at("load", "prompts", "texts"), "too-few-prompts", "%d prompts are sent and there are %d texts: prompts never repeat", most, len(pr.Texts))
		d.Hint = "write reuse: allowed where a prefix cache may know them"
	}
}
