// Package cells expands the matrix of a plan into cells, and those into deployments.
package cells

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
)

// A dimension is one axis, or several that are zipped: the index i of a
// dimension is the index i of each of its axes.
type dimension struct {
	axes []int // into Matrix.Axes
	n    int
}

// An Expander makes the cells and the deployments of a plan that is right so far.
type Expander struct {
	*file.File
	Plan     *plan.Plan
	Backend  plan.PluginDoc
	Profiles map[string]*engine.Profile // of the plan's engines, by key
	Sums     map[string]string          // of the files that gave profiles, by the profile's name
	// Excludes are those of the matrix, each over the settings of a cell.
	Excludes []func([]plan.Setting) (bool, error)
	Narrowed bool // a flag has taken values of the matrix away
	Limit    int  // of the cells, counted before they are made
	Before   int  // cells of other loads

	ids   plan.IDs
	kinds []axes.Kind // of the axes of the matrix
	made  map[string]plan.Server
	cells []plan.Cell
}

// Expand makes cells in the plan's order; ok is false if there are none to hold rules
// against.
func (x *Expander) Expand() (cells []plan.Cell, ok bool) {
	m := x.Plan.Matrix
	dims := dimensions(m)
	if n := count(dims) + len(m.Include) + x.Before; n > x.Limit {
		d := x.Report.Node(x.Key("matrix"), "too-many-cells", "the matrix has %s cells, and %d are allowed", amount(n), x.Limit)
		d.Hint = "counted before exclude; take values away, or raise the limit with --max-cells"
		return nil, false
	}
	x.made = make(map[string]plan.Server)
	x.cells = make([]plan.Cell, 0, count(dims)+len(m.Include))
	for _, a := range m.Axes {
		kind, _ := axes.Lookup(a.Name)
		x.kinds = append(x.kinds, kind)
	}
	x.product(dims)
	x.included()
	if len(x.cells) == 0 && x.Report.Len() == 0 {
		what := "every cell"
		if a := m.Axis(plan.LoadAxis); a != nil {
			what += fmt.Sprintf(" of the load %s", a.Values[0])
		}
		x.Report.Node(x.Key("matrix", "exclude"), "no-cells", "%s is excluded", what)
	}
	return x.cells, true
}

// dimensions returns the axes in the file's order, each zip at the place of its
// first axis.
func dimensions(m plan.Matrix) []dimension {
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

// count returns the size of the product; it stops at the largest integer.
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
func (x *Expander) product(dims []dimension) {
	hits := make([]bool, len(x.Excludes))
	index := make([]int, len(dims))
	for range count(dims) {
		settings := make([]plan.Setting, len(x.Plan.Matrix.Axes))
		for d, dim := range dims {
			for _, a := range dim.axes {
				axis := &x.Plan.Matrix.Axes[a]
				settings[a] = plan.Setting{Axis: axis, Value: axis.Values[index[d]]}
			}
		}
		if !x.excluded(settings, hits) {
			x.cell(settings)
		}
		for d := len(dims) - 1; d >= 0; d-- {
			if index[d]++; index[d] < dims[d].n {
				break
			}
			index[d] = 0
		}
	}
	// A matrix that a flag has narrowed may leave an exclude without work.
	for i, hit := range hits {
		if !hit && !x.Narrowed {
			n := x.Root.Get("matrix").Get("exclude").Items[i]
			x.Report.Node(n, "no-effect", "this exclude matches no cell").Hint = "names and values are compared as they are written in the axes"
		}
	}
}

func (x *Expander) excluded(settings []plan.Setting, hits []bool) bool {
	if len(x.Excludes) == 0 {
		return false
	}
	out := false
	for i, e := range x.Excludes {
		ok, err := e(settings)
		if err != nil {
			x.Report.Node(x.Root.Get("matrix").Get("exclude").Items[i], "expression", "%v", err)
			hits[i] = true
			continue
		}
		if ok {
			hits[i], out = true, true
		}
	}
	return out
}

// included makes the cells of include.
func (x *Expander) included() {
	for _, values := range x.Plan.Matrix.Include {
		settings := make([]plan.Setting, 0, len(x.Plan.Matrix.Axes))
		for i := range x.Plan.Matrix.Axes {
			a := &x.Plan.Matrix.Axes[i]
			v, ok := values[a.Name]
			if !ok {
				v = a.Values[0]
			}
			if _, isFloat := a.Values[0].(float64); isFloat {
				if n, ok := v.(int64); ok {
					v = float64(n)
				}
			}
			settings = append(settings, plan.Setting{Axis: a, Value: v})
		}
		x.cell(settings)
	}
}

func (x *Expander) cell(settings []plan.Setting) {
	c := plan.Cell{Index: len(x.cells), Settings: settings}
	c.Server = x.server(settings)
	c.Load = x.load(settings, c.Server.Engine)
	c.ID = x.ids.Cell(c)
	x.cells = append(x.cells, c)
}

// load returns the plan's load with the cell's values filled in.
func (x *Expander) load(settings []plan.Setting, engine string) plan.Load {
	d := axes.Draft{Load: x.Plan.Load}
	for i, s := range settings {
		if !s.Axis.Server && s.Axis.Name != plan.LoadAxis {
			x.kinds[i].Put(&d, s.Value)
		}
	}
	ld := d.Load
	if ld.RequestsPerWorker > 0 {
		ld.Requests = ld.RequestsPerWorker * ld.Concurrency
	}
	ignore := ld.Sampling.IgnoreEOS
	if ld.Output == "" {
		profile := x.Profiles[engine]
		switch {
		case ignore != nil && *ignore:
			ld.Output = plan.OutputExact
		case ignore != nil, len(ld.Sampling.Stop) > 0, profile == nil, !profile.API.IgnoreEOS:
			ld.Output = plan.OutputNatural
		default:
			ld.Output = plan.OutputExact
		}
	}
	if ld.Output == plan.OutputExact {
		yes := true
		ld.Sampling.IgnoreEOS = &yes
	}
	return ld
}

// server makes each server once, however many cells share it.
func (x *Expander) server(settings []plan.Setting) plan.Server {
	var key strings.Builder
	for _, set := range settings {
		if set.Axis.Server {
			fmt.Fprintf(&key, "%q=%T:%v\x00", set.Axis.Column, set.Value, set.Value)
		}
	}
	have, ok := x.made[key.String()]
	if !ok {
		have = x.newServer(settings)
		x.made[key.String()] = have
	}
	return have
}

func (x *Expander) newServer(settings []plan.Setting) plan.Server {
	d := axes.Draft{
		Server: plan.Server{Model: x.Plan.Model, ModelRevision: x.Plan.ModelRevision},
		Args:   make(map[string]any), Env: make(map[string]secret.String), Roles: make(map[string]plan.Role), Manifest: make(map[string]any),
	}
	for i, set := range settings {
		if set.Axis.Server {
			x.kinds[i].Put(&d, set.Value)
		}
	}
	out := d.Server
	e, profile := x.Plan.Engines[out.Engine], x.Profiles[out.Engine]
	if profile != nil {
		out.Profile = profile.Name
		out.ProfileSHA256 = x.Sums[profile.Name]
	}
	if out.Served = cmp.Or(e.Served, out.Model); e.Served == plan.AnyModel {
		out.Served, out.AnyModel = out.Model, true
	}
	out.Image, out.Entrypoint, out.Command, out.CPUs = e.Image, e.Entrypoint, e.Command, e.CPUs
	maps.Copy(d.Args, e.Args)
	maps.Copy(d.Env, e.Env)
	out.Args = plan.ArgList(d.Args)
	if len(d.Env) > 0 {
		out.Env = d.Env
	}
	for name, role := range e.Roles {
		d.Roles[name] = over(role, d.Roles[name])
	}
	if len(d.Roles) > 0 {
		out.Roles = d.Roles
	}
	if len(d.Manifest) > 0 {
		out.Manifest = d.Manifest
	}
	out.GPUCount = max(1, d.GPUs)
	if n, known := out.CountGPUs(profile, x.Backend, d.GPUs); known && n.Wrong == nil {
		out.GPUCount, out.RoleGPUs = n.Total, n.Each
	}
	return out
}

// over returns a role of the plan with the axes of one cell.
func over(r, axes plan.Role) plan.Role {
	r.Replicas = cmp.Or(axes.Replicas, r.Replicas)
	args := maps.Clone(r.Args)
	if args == nil {
		args = axes.Args
	}
	maps.Copy(args, axes.Args)
	r.Args = args
	return r
}

// Deployments groups the cells of a plan by their server and puts them in the order in
// which they are to run.
func Deployments(p *plan.Plan, cells []plan.Cell) []plan.Deployment {
	var of plan.IDs
	var out []plan.Deployment
	at := make(map[string]int)
	ids := make(map[string]string) // by the server's settings, so that each server is hashed once
	for _, c := range cells {
		var key strings.Builder
		for _, s := range c.Settings {
			if s.Axis.Server {
				fmt.Fprintf(&key, "%T:%v\x00", s.Value, s.Value)
			}
		}
		id, ok := ids[key.String()]
		if !ok {
			id = of.Server(c.Server)
			ids[key.String()] = id
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			out = append(out, plan.Deployment{ID: id, Server: c.Server})
		}
		out[i].Cells = append(out[i].Cells, c)
	}
	if p.Order == plan.OrderShuffled {
		r := rand.New(rand.NewPCG(p.Seed, 0x6f72646572)) // "order": apart from every other use of the seed
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		for _, d := range out {
			r.Shuffle(len(d.Cells), func(i, j int) { d.Cells[i], d.Cells[j] = d.Cells[j], d.Cells[i] })
		}
	}
	return out
}
