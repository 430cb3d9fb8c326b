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

// expand makes the cells and deployments of a plan that is right so far; ok is
// false where there are none to hold rules against.
func (l *loader) expand(p *Plan) (ok bool) {
	dims := dimensions(p.Matrix)
	limit := cmp.Or(l.opts.MaxCells, DefaultMaxCells)
	if n := count(dims); n+len(p.Matrix.Include) > limit {
		d := l.Report.Node(l.file.Key("matrix"), "too-many-cells", "the matrix has %s cells, and %d are allowed", amount(n+len(p.Matrix.Include)), limit)
		d.Hint = "counted before exclude; take values away, or raise the limit with --max-cells"
		return false
	}
	l.trees = make(forester)
	p.cells = make([]Cell, 0, count(dims)+len(p.Matrix.Include))
	all := &servers{l: l, p: p, made: make(map[string]Server)}
	l.product(p, all, dims)
	l.added(p, all)
	if len(p.cells) == 0 && l.Report.Len() == 0 {
		l.Report.Node(l.file.Key("matrix", "exclude"), "no-cells", "every cell is excluded")
	}
	p.conditions = p.conditionsOf(p.Load)
	p.order = p.deployments()
	return true
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
			n := l.file.Root.Get("matrix").Get("exclude").Items[i]
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
			l.Report.Node(l.file.Root.Get("matrix").Get("exclude").Items[i], "expression", "%v", err)
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
	for _, values := range p.Matrix.Include {
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
			settings = append(settings, Setting{Axis: a, Value: v})
		}
		l.cell(p, all, settings)
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
	out.GPUCount = max(1, d.gpus)
	if profile := s.l.profiles[out.Engine]; countsGPUs(profile, s.l.backend) {
		if n := out.countGPUs(profile, d.gpus); n.wrong == nil {
			out.GPUCount, out.RoleGPUs = n.total, n.each
		}
	}
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
