package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// tree returns v as JSON may hold it, by the plan's own keys: structs become maps,
// durations text, secrets their references. Keys that say nothing are left
// out; a zero that a plan may mean (seed: 0) is kept. encoding/json sorts the
// keys of maps, which makes the bytes canonical.
func tree(v any) any { return make(forester).tree(v) }

// A forester makes many trees: it reads the tags of each type once.
type forester map[reflect.Type][]fieldtag.Field

func (t forester) tree(v any) any { return t.of(reflect.ValueOf(v)) }

func (t forester) fields(typ reflect.Type) []fieldtag.Field {
	f, ok := t[typ]
	if !ok {
		f = fieldtag.Of(typ)
		t[typ] = f
	}
	return f
}

func (t forester) of(v reflect.Value) any {
	switch v.Type() {
	case typeOf[time.Duration]():
		return v.Interface().(time.Duration).String()
	case typeOf[secret.String]():
		return v.Interface().(secret.String).Ref()
	case typeOf[Plugin]():
		return pluginTree(v.Interface().(Plugin))
	case typeOf[Matrix]():
		return matrixTree(v.Interface().(Matrix))
	case typeOf[[]SLO]():
		out := make(map[string]any, v.Len())
		for _, s := range v.Interface().([]SLO) {
			o := map[string]any{"expr": s.Expr, "severity": s.Severity}
			if s.Loads != nil {
				o["loads"] = s.Loads
			}
			out[s.Name] = o
		}
		return out
	case typeOf[NamedLoad]():
		n := v.Interface().(NamedLoad)
		out := t.structure(v)
		maps.Copy(out, t.structure(reflect.ValueOf(n.Load)))
		maps.Copy(out, n.contents())
		return out
	case typeOf[Prompts]():
		p := v.Interface().(Prompts)
		p.File, p.PairsFile = p.FileRef, p.PairsRef // as written: digests are the same on every machine
		v = reflect.ValueOf(p)
	case typeOf[Quality]():
		q := v.Interface().(Quality)
		q.File = q.FileRef
		v = reflect.ValueOf(q)
	case typeOf[LMFile]():
		f := v.Interface().(LMFile)
		f.File = f.FileRef
		v = reflect.ValueOf(f)
	case typeOf[Trace]():
		t := v.Interface().(Trace)
		t.File = t.FileRef
		v = reflect.ValueOf(t)
	}
	if key := fieldtag.Short(v.Type()); key != "" {
		out := t.structure(v)
		if n, ok := out[key]; ok && len(out) == 1 {
			return n
		}
		return out
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return t.of(v.Elem())
	case reflect.Struct:
		return t.structure(v)
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = t.of(it.Value())
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = t.of(v.Index(i))
		}
		return out
	}
	return v.Interface()
}

func (t forester) structure(v reflect.Value) map[string]any {
	out := make(map[string]any)
	for _, f := range t.fields(v.Type()) {
		field := v.Field(f.Index)
		zeroMeans := f.Min != nil && *f.Min == 0 && field.Kind() != reflect.Slice
		if field.IsZero() && !zeroMeans || field.Kind() == reflect.Pointer && field.IsNil() {
			continue
		}
		if f.Word != "" && field.CanInt() && field.Int() == fieldtag.Auto {
			out[f.Key] = f.Word
			continue
		}
		value := t.of(field)
		if m, ok := value.(map[string]any); ok && len(m) == 0 {
			continue
		}
		out[f.Key] = value
	}
	return out
}

func pluginTree(p Plugin) any {
	out := map[string]any{"kind": p.Kind}
	if m, ok := p.Keys.(map[string]any); ok && len(m) > 0 {
		out["config"] = m
	}
	if len(p.Digests) > 0 {
		out["manifests_sha256"] = p.Digests
	}
	return out
}

func matrixTree(m Matrix) any {
	axes := make([]any, 0, len(m.Axes))
	for _, a := range m.Axes {
		axes = append(axes, map[string]any{"name": a.Name, "column": a.Column, "server": a.Server, "values": a.Values})
	}
	out := map[string]any{"axes": axes}
	if len(m.Zip) > 0 {
		out["zip"] = m.Zip
	}
	if len(m.Include) > 0 {
		out["include"] = m.Include
	}
	if len(m.Exclude) > 0 {
		out["exclude"] = m.Exclude
	}
	return out
}

// canonical returns the one JSON text of a tree.
func canonical(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// A tree holds what YAML gave, finite and acyclic.
		panic("plan: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// contents returns the digests of the files that a load names.
func (l Load) contents() map[string]any {
	out := make(map[string]any)
	if sum := l.Prompts.FileSHA256; sum != "" {
		out["prompts_sha256"] = sum
	}
	if sum := l.Prompts.PairsSHA256; sum != "" {
		out["pairs_sha256"] = sum
	}
	if t := l.Trace; t != nil {
		out["trace_sha256"] = t.FileSHA256
	}
	return out
}

// resolved returns the whole plan as a tree.
func (p *Plan) resolved() map[string]any {
	out := tree(*p).(map[string]any)
	if len(p.rest.Set) > 0 {
		out["set"] = p.rest.Set
	}
	maps.Copy(out, p.Load.contents())
	if p.Quality != nil {
		out["quality_sha256"] = p.Quality.Sums()
	}
	if len(p.rest.EngineTexts) > 0 {
		var sums []string
		for _, f := range p.rest.EngineTexts {
			sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(f.Text)))
		}
		out["engine_files_sha256"] = sums
	}
	out["cells"] = len(p.rest.Cells)
	return out
}

// Resolved returns plan.resolved.json: defaults filled in, secrets as references,
// --set recorded. The same plan gives the same bytes on every machine.
func (p *Plan) Resolved() ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, canonical(p.resolved()), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
