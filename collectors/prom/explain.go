package prom

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// The kinds of a family of series.
const (
	IsQuantity = "quantity"   // one or more canonical quantities are taken from it
	IsOther    = "other_name" // another name of a quantity that is taken from elsewhere
	IsMeaning  = "meaning"    // the profile says what it means
	IsRuntime  = "runtime"    // what the language of the server says of itself
	IsUnknown  = "unknown"
)

// An Explained body is what sweep makes of it.
type Explained struct {
	// Engines are those that the body is of; several can sit in one.
	Engines  []string `json:"engines"`
	Families []Family `json:"families"` // in the body's order
	Lines    int      `json:"lines"`    // samples, without _created
	Names    int      `json:"names"`    // different names among them
	Created  int      `json:"created"`  // _created samples
	// Dropped counts lines that could not be read, Duplicates series that stood twice.
	Dropped    int `json:"dropped"`
	Duplicates int `json:"duplicates"`
	// Tool is what printed it, if it is no page of metrics.
	Tool string `json:"tool,omitempty"`
	// Looks is how often the body tells the same again: iterations of a server, or
	// looks at the GPUs. The last counts.
	Looks int   `json:"looks,omitempty"`
	GPUs  []GPU `json:"gpus,omitempty"`
	// Unread are lines that could not be read: the first of those that Dropped
	// counts, or those of a tool of GPUs that are no GPU's state.
	Unread []Unread `json:"unread,omitempty"`
}

// A Family is what a body says under one name.
type Family struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // counter, gauge, histogram, summary or untyped
	Is     string `json:"is"`
	Series int    `json:"series"` // label sets
	// Readings are the quantities that are taken from it.
	Readings []Reading `json:"readings,omitempty"`
	// Meaning is what it says in words, "" if that is unknown.
	Meaning string `json:"meaning,omitempty"`
	// Value is that of the only series, or the sum of a counter's; for a
	// histogram the mean. Nil if there is no such value.
	Value *float64 `json:"value,omitempty"`
	Unit  string   `json:"unit,omitempty"` // by its own name
}

// A Reading is one canonical quantity and its value now.
type Reading struct {
	Quantity string `json:"quantity"`
	// Value is in the quantity's unit; of a histogram the mean since the server
	// started, nil if nothing was observed yet.
	Value *float64 `json:"value"`
	Count *float64 `json:"count,omitempty"` // of a histogram: observations
	Unit  string   `json:"unit,omitempty"`
	// Percentiles are those of a histogram with buckets, since the server started.
	Percentiles []Percentile `json:"percentiles,omitempty"`
}

// A Percentile lies between the bounds of its bucket, and may have no value beside
// them.
type Percentile struct {
	Name   string   `json:"name"`
	Value  *float64 `json:"value"`
	Low    float64  `json:"low"`
	High   *float64 `json:"high"` // nil for none
	Bounds string   `json:"-"`    // both, for people: "< 0.3"
}

// Count returns how many families are of one kind.
func (x *Explained) Count(is string) int {
	n := 0
	for _, f := range x.Families {
		if f.Is == is {
			n++
		}
	}
	return n
}

// namespaces are the name prefixes that identify engines, and the programs beside
// them, in the order in which they are tried. An engine without a profile is
// recognised too.
var namespaces = [...]struct{ prefix, engine string }{
	{"vllm:", "vllm"},
	{"vllm_", "vllm"},
	{"ray_vllm", "vllm"},
	{"sglang:", "sglang"},
	{"sglang_", "sglang"},
	{"smg_", "sglang-router"},
	{"sgl_router_", "sglang-router"},
	{"trtllm:", "trtllm"},
	{"trtllm_", "trtllm"},
	{"llamacpp:", "llamacpp"},
	{"tgi_", "tgi"},
	{"lmdeploy:", "lmdeploy"},
	{"nv_", "triton"},
	{"dynamo_", "dynamo"},
	{"DCGM_FI_", "dcgm-exporter"},
	{"nvidia_smi_", "nvidia_gpu_exporter"},
	{"llm_d_epp_", "llm-d"},
	{"inference_", "llm-d"},
	{"envoy_", "envoy"},
	{"lmcache:", "lmcache"},
}

// detect says of which engines a body is. Names without a prefix are those of
// TensorRT-LLM before 2026, which has a label of its own, or of a NIM.
func detect(profiles []*engine.Profile, e *exposition.Exposition) []string {
	names := make(map[string][]exposition.Label)
	for _, p := range e.Points {
		names[p.Name] = p.Labels
	}
	for _, h := range e.Histograms {
		names[h.Name] = h.Labels
	}
	var out []string
	covered := make(map[string]bool)
	add := func(engineName, prefix string) {
		for name := range names {
			if strings.HasPrefix(name, prefix) {
				covered[name] = true
				if !slices.Contains(out, engineName) {
					out = append(out, engineName)
				}
			}
		}
	}
	for _, n := range namespaces {
		add(n.engine, n.prefix)
	}
	if labels, ok := names["e2e_request_latency_seconds"]; ok {
		switch _, nim := names["num_request_max"]; {
		case has(labels, "engine_type"):
			out = append(out, "trtllm")
		case nim:
			out = append(out, "nim")
		}
	}
	// Profiles that came from a file.
	for name := range covered {
		delete(names, name)
	}
	for _, p := range profiles {
		for _, m := range metricsOf(p) {
			for _, prefix := range m.Prefixes {
				if prefix != "" {
					add(p.Name, prefix)
				}
			}
		}
	}
	return out
}

// engineOf returns the engine whose prefix a name has, or "".
func engineOf(name string) string {
	for _, n := range namespaces {
		if strings.HasPrefix(name, n.prefix) {
			return n.engine
		}
	}
	return ""
}

func has(labels []exposition.Label, name string) bool {
	return slices.ContainsFunc(labels, func(l exposition.Label) bool { return l.Name == name })
}

// metricsOf returns the profile's metrics and those of its roles.
func metricsOf(p *engine.Profile) []*engine.Metrics {
	var out []*engine.Metrics
	for _, r := range p.Roles {
		if r.Metrics != nil {
			out = append(out, r.Metrics)
		}
	}
	return append(out, &p.Metrics)
}

// Explain says what a body means to the profiles of the engines that it is of.
// A single profile is taken whatever the body looks like. whole says that nothing is
// missing from the body's end. It is pure.
func Explain(profiles []*engine.Profile, e *exposition.Exposition, whole bool) Explained {
	engines := detect(profiles, e)
	return explain(engines, relevant(profiles, engines), e, whole)
}

func explain(engines []string, metrics []*engine.Metrics, e *exposition.Exposition, whole bool) Explained {
	counted := count(e)
	x := Explained{
		Engines: engines, Names: len(counted),
		Dropped: e.Dropped, Duplicates: e.Duplicates, Families: families(e),
	}
	byName := make(map[string]*Family)
	for i := range x.Families {
		byName[x.Families[i].Name] = &x.Families[i]
	}
	for _, n := range counted {
		x.Lines += n
	}
	for _, l := range e.Unread {
		x.Unread = append(x.Unread, Unread{Line: l.Number, Text: l.Text})
	}
	x.Created = len(e.Flat()) - x.Lines
	for _, m := range metrics {
		x.read(m, quantities.Body{Exposition: e, Loaded: true, Whole: whole}, byName)
	}
	x.readGPUs(e, byName)
	for i := range x.Families {
		f := &x.Families[i]
		switch {
		case f.Is != "":
		case f.Meaning != "":
			f.Is = IsMeaning
		case noise(f.Name):
			f.Is = IsRuntime
		default:
			f.Is = IsUnknown
		}
	}
	return x
}

// relevant returns the metrics of the profiles whose engine a body is of, in the
// order of the engines: of a profile that is a variant of another its own too.
func relevant(profiles []*engine.Profile, engines []string) []*engine.Metrics {
	if len(profiles) == 1 {
		return metricsOf(profiles[0])
	}
	var out []*engine.Metrics
	for _, name := range engines {
		for _, exact := range []bool{true, false} {
			for _, p := range profiles {
				if p.Name == name && exact || strings.HasPrefix(p.Name, name+"-") && !exact {
					out = append(out, metricsOf(p)...)
				}
			}
		}
	}
	return out
}

// read notes what metrics m make of the families.
func (x *Explained) read(m *engine.Metrics, b quantities.Body, byName map[string]*Family) {
	e := b.Exposition
	family := func(name string) *Family {
		if f := byName[name]; f != nil {
			return f
		}
		for _, suffix := range []string{"_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && byName[base] != nil {
				return byName[base]
			}
		}
		return nil
	}
	w := quantities.NewWindow(m)
	w.Observe(b)
	for _, q := range engine.Quantities() {
		if v, ok := w.Ratio(q.Name); ok {
			part, _ := w.Chosen(quantities.PartOf(q.Name))
			if f := family(part.Names[0]); f != nil && !f.says(q.Name) {
				f.Readings = append(f.Readings, Reading{Quantity: q.Name, Unit: q.Unit, Value: number(v)})
			}
		}
		taken, ok := w.Chosen(q.Name)
		if !ok {
			continue
		}
		if f := family(taken.Names[0]); f != nil && !f.says(q.Name) {
			f.Is = IsQuantity
			f.Readings = append(f.Readings, read(w, q, taken, e))
		}
		for _, name := range append(taken.Names[1:], taken.Second) {
			if f := family(name); f != nil && f.Is == "" {
				f.Is, f.Meaning = IsOther, "a part of "+q.Name
			}
		}
	}
	for _, q := range engine.Quantities() {
		for _, s := range m.Series[q.Name] {
			if other, ok := quantities.Find(e, s, m.Prefixes, q); ok {
				if f := family(other.Names[0]); f != nil && f.Is == "" {
					f.Is, f.Meaning = IsOther, "another name of "+q.Name
				}
				continue
			}
			for _, rename := range quantities.Renames(s.Name, m.Prefixes) {
				if f := family(quantities.Spelling(e, rename(s.Name), q.Kind)); f != nil && f.Is == "" && f.Meaning == "" {
					f.Meaning = "not taken as " + q.Name + ": its value stands for unknown, or a series that belongs to it is missing"
				}
			}
		}
	}
	for name, meaning := range m.Meanings {
		for _, rename := range quantities.Renames(name, m.Prefixes) {
			for _, kind := range []string{engine.Gauge, engine.Counter} {
				if f := family(quantities.Spelling(e, rename(name), kind)); f != nil && f.Meaning == "" {
					f.Meaning = meaning
				}
			}
		}
	}
	for name, list := range m.Settings {
		for _, s := range list {
			for _, rename := range quantities.Renames(s.Name, m.Prefixes) {
				if f := byName[rename(s.Name)]; f != nil && f.Meaning == "" {
					f.Meaning = "settings that the engine reports of itself, among them " + name
				}
			}
		}
	}
}

func (f *Family) says(quantity string) bool {
	return slices.ContainsFunc(f.Readings, func(r Reading) bool { return r.Quantity == quantity })
}

func read(w *quantities.Window, q engine.Quantity, f quantities.Found, e *exposition.Exposition) Reading {
	r := Reading{Quantity: q.Name, Unit: f.Unit()}
	if q.Kind != engine.Histogram {
		if v, ok := w.Last[q.Name]; ok {
			r.Value = number(v)
		}
		return r
	}
	h, _ := f.Snap(e)
	r.Count, r.Value = &h.Count, number(h.Sum/h.Count)
	for _, p := range quantiles {
		e, ok := h.Quantile(p.q)
		if !ok {
			continue
		}
		told := Percentile{Name: p.name, Low: e.Low, High: number(e.High), Bounds: e.Bounds(1)}
		if e.Known {
			told.Value = number(e.Value)
		}
		r.Percentiles = append(r.Percentiles, told)
	}
	return r
}

// number returns a value that JSON can hold, or nil.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// families lists what stands in a body under one name each, _created left out.
func families(e *exposition.Exposition) []Family {
	var out []Family
	at := make(map[string]int)
	add := func(name, kind string, v float64) {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, Family{Name: name, Type: kind, Unit: unitOf(name)})
		}
		f := &out[i]
		f.Series++
		switch {
		case f.Series == 1:
			f.Value = number(v)
		case f.Value != nil && kind == "counter" && !math.IsNaN(v):
			f.Value = number(*f.Value + v)
		default:
			f.Value = nil
		}
	}
	for _, p := range e.Points {
		switch {
		case strings.HasSuffix(p.Name, "_created"):
		case p.Kind != "summary":
			add(p.Name, p.Kind, p.Value)
		case strings.HasSuffix(p.Name, "_count") && !has(p.Labels, "quantile"):
			base := strings.TrimSuffix(p.Name, "_count")
			v := math.NaN()
			for _, s := range e.Named(base + "_sum") {
				if slices.Equal(s.Labels, p.Labels) {
					v = s.Value / p.Value
				}
			}
			add(base, p.Kind, v)
		}
	}
	for _, h := range e.Histograms {
		add(h.Name, "histogram", h.Sum/h.Count)
	}
	return out
}
