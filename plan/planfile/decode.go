package planfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result/meant"
)

func (l *loader) decode() *plan.Plan {
	l.Env = &strict.Env{Lookup: l.opts.LookupEnv, Allow: l.opts.AllowEnv}
	l.Elsewhere = sections()
	l.Special = map[reflect.Type]func(*syntax.Node, reflect.Value, string){
		reflect.TypeFor[plan.Matrix](): func(n *syntax.Node, v reflect.Value, _ string) {
			v.Set(reflect.ValueOf(l.matrix(n)))
		},
		reflect.TypeFor[plan.Plugin](): func(n *syntax.Node, v reflect.Value, _ string) {
			v.Set(reflect.ValueOf(l.backendPlugin(n)))
		},
		reflect.TypeFor[[]plan.Plugin](): func(n *syntax.Node, v reflect.Value, where string) {
			docs := l.opts.Vocabulary.Sinks
			if where == "collect" {
				docs = l.opts.Vocabulary.Collectors
			}
			v.Set(reflect.ValueOf(l.plugins(n, docs, where)))
		},
		reflect.TypeFor[[]plan.SLO](): func(n *syntax.Node, v reflect.Value, where string) {
			v.Set(reflect.ValueOf(l.slos(n, where)))
		},
	}
	l.Special[reflect.TypeFor[manifest.File]()] = l.manifestFile
	l.Special[reflect.TypeFor[[]plan.NamedLoad]()] = func(*syntax.Node, reflect.Value, string) {} // see readings
	p := defaults()
	l.Decode(l.file.Root, &p, "")
	l.readManifests(&p)
	if p.Find != nil && len(p.SLO) == 0 {
		p.SLO = l.sought(l.file.Root.Get("find").Get("objectives"))
	}
	if l.file.Root.Get("sinks") == nil {
		p.Sinks = named(l.opts.Vocabulary.Sinks, defaultSinks())
	}
	if l.file.Root.Get("collect") == nil {
		p.Collect = named(l.opts.Vocabulary.Collectors, defaultCollect())
	}
	return &p
}

// sections finds the path of a key by its name alone, or by one that is a single
// slip from it: the one nearest to the top where several sections have it.
var sections = sync.OnceValue(func() func(key string) (path, hint string) {
	paths := make(map[string]string)
	for _, path := range slices.Concat(keyPaths(reflect.TypeFor[plan.Plan](), ""), keyPaths(reflect.TypeFor[plan.Engine](), "engines.<name>.")) {
		key := path[strings.LastIndex(path, ".")+1:]
		if old, ok := paths[key]; !ok || strings.Count(path, ".") < strings.Count(old, ".") {
			paths[key] = path
		}
	}
	for _, a := range axes.Names() {
		if _, ok := paths[a]; !ok {
			paths[a] = "matrix." + a
		}
	}
	names := slices.Sorted(maps.Keys(paths))
	return func(key string) (path, hint string) {
		if near := syntax.Nearest(key, names); paths[key] == "" && syntax.Distance(key, near) == 1 {
			key = near
		}
		if strings.HasPrefix(paths[key], "load.") && slices.Contains(axes.Names(), key) {
			hint = "the axis " + key + " of the matrix takes several values"
		}
		return paths[key], hint
	}
})

// keyPaths returns the paths of the keys of t, below where, in their order.
func keyPaths(t reflect.Type, where string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var paths []string
	for _, f := range fieldtag.Of(t) {
		paths = append(paths, where+f.Key)
		switch f.Type {
		case reflect.TypeFor[plan.Matrix](), reflect.TypeFor[plan.Plugin]():
		default:
			paths = append(paths, keyPaths(f.Type, where+f.Key+".")...)
		}
	}
	return paths
}

// KeyPaths returns the paths of the keys of a plan that --set can name, in their order: the
// keys with one name, and the axes of the matrix.
func KeyPaths() []string {
	paths := keyPaths(reflect.TypeFor[plan.Plan](), "")
	for _, a := range axes.Names() {
		paths = append(paths, "matrix."+a)
	}
	return paths
}

// KeyPath returns the path of the key of a plan that name, without its section, most
// likely means; "" for none.
func KeyPath(name string) string {
	name = strings.ReplaceAll(name, "-", "_")
	if path := meant.Setting(name); path != "" {
		return path
	}
	path, _ := sections()(name)
	return path
}

// backendPlugin decodes "process" or {kind: process, ...}.
func (l *loader) backendPlugin(n *syntax.Node) plan.Plugin {
	kind, config := n, (*syntax.Node)(nil)
	if n.Kind == syntax.Map {
		kind = n.Get("kind")
		if kind == nil {
			d := l.Report.Node(l.file.Key("backend"), "missing", "backend has no kind")
			d.Expected = strict.OneOf(kinds(l.opts.Vocabulary.Backends))
			return plan.Plugin{}
		}
		config = without(n, "kind")
	}
	p, doc := l.plugin(kind, config, l.opts.Vocabulary.Backends, "backend")
	l.backend = doc
	return p
}

// plugins decodes [parquet, {csv: {columns: [...]}}].
func (l *loader) plugins(n *syntax.Node, docs []plan.PluginDoc, where string) []plan.Plugin {
	if n.Kind != syntax.List {
		d := l.Report.Node(n, "type", "%s takes a list, found %s", where, n.Kind.Name())
		d.Expected = "a list of names, like [" + first(docs) + "]"
		return nil
	}
	out := []plan.Plugin{}
	seen := make(map[string]bool)
	for _, item := range n.Items {
		kind, config := item, (*syntax.Node)(nil)
		if item.Kind == syntax.Map {
			if len(item.Entries) != 1 {
				d := l.Report.Node(item, "type", "an entry of %s is a name, or a mapping of one name to its keys", where)
				d.Expected = "for example " + first(docs) + ", or {" + first(docs) + ": {...}}"
				continue
			}
			kind, config = item.Entries[0].Key, item.Entries[0].Value
		}
		p, doc := l.plugin(kind, config, docs, where)
		if seen[doc.Kind] && doc.Kind != "" {
			l.Report.Node(kind, "duplicate", "%s names %s twice", where, doc.Kind)
			continue
		}
		seen[doc.Kind] = true
		out = append(out, p)
	}
	return out
}

func (l *loader) plugin(kind, config *syntax.Node, docs []plan.PluginDoc, where string) (plan.Plugin, plan.PluginDoc) {
	name, ok := l.Text(kind, fieldtag.Field{}, where)
	if !ok {
		return plan.Plugin{}, plan.PluginDoc{}
	}
	for _, doc := range docs {
		if doc.Kind != name {
			continue
		}
		place := where
		if where != "backend" {
			place = where + "." + name
		}
		p := plan.Plugin{Kind: name, Decode: func(any) error { return nil }, Place: kind}
		if config == nil {
			return p, doc
		}
		p.Keys = references(config)
		p.Decode = l.decoder(config, place)
		// The dry run: what a factory will decode must fit now.
		target := reflect.New(reflect.TypeFor[struct{}]())
		if doc.Config != nil {
			t := reflect.TypeOf(doc.Config)
			for t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			target = reflect.New(t)
		}
		l.Decode(config, target.Interface(), place)
		if doc.Under != nil {
			doc = doc.Under(p.Decode)
		}
		return p, doc
	}
	d := l.Report.Node(kind, "unknown-"+singular(where), "there is no %s %q", singular(where), name)
	d.Expected = strict.OneOf(kinds(docs))
	d.Nearest = syntax.Nearest(name, kinds(docs))
	return plan.Plugin{}, plan.PluginDoc{}
}

// decoder returns a Plugin's Decode: a decoder of its own for each call, so that
// the error is what is wrong in this call alone.
func (l *loader) decoder(n *syntax.Node, where string) func(any) error {
	special, env := l.Special, l.Env
	return func(v any) error {
		if t := reflect.TypeOf(v); t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
			return fmt.Errorf("decode %s: want a pointer, got %T", where, v)
		}
		d := &strict.Decoder{Report: &syntax.Report{}, Env: env, Special: special}
		d.Decode(n, v, where)
		return d.Report.Err()
	}
}

func named(docs []plan.PluginDoc, names []string) []plan.Plugin {
	var out []plan.Plugin
	for _, name := range names {
		for _, doc := range docs {
			if doc.Kind == name {
				out = append(out, plan.Plugin{Kind: name, Decode: func(any) error { return nil }})
			}
		}
	}
	return out
}

func kinds(docs []plan.PluginDoc) []string {
	names := make([]string, 0, len(docs))
	for _, d := range docs {
		names = append(names, d.Kind)
	}
	return names
}

func first(docs []plan.PluginDoc) string {
	if len(docs) == 0 {
		return "name"
	}
	return docs[0].Kind
}

func singular(where string) string {
	switch where {
	case "sinks":
		return "sink"
	case "collect":
		return "collector"
	}
	return where
}

func without(n *syntax.Node, key string) *syntax.Node {
	out := *n
	out.Entries = nil
	for _, e := range n.Entries {
		if e.Key.Text != key {
			out.Entries = append(out.Entries, e)
		}
	}
	return &out
}

// references returns a tree as JSON may hold it, with ${VAR} as written.
func references(n *syntax.Node) any {
	plain := &strict.Decoder{Report: &syntax.Report{}}
	return plain.Natural(n, "")
}
