package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
)

// document returns page with the reference of every key made anew.
func document(page []byte, v plan.Vocabulary) ([]byte, error) {
	var b bytes.Buffer
	table(&b, "", reflect.TypeFor[plan.Plan]())
	fmt.Fprintf(&b, "\n### `matrix`\n\n%s", head)
	for _, a := range axes.Docs() {
		row(&b, a.Name, a.Field)
	}
	row(&b, "zip", fieldtag.Field{Doc: "Groups of axes that change together."})
	row(&b, "include", fieldtag.Field{Doc: "Cells to add to the product."})
	row(&b, "exclude", fieldtag.Field{Doc: "Expressions; a cell of the product for which one holds is left out."})
	table(&b, "slo.<name>", reflect.TypeFor[plan.SLOKeys]())
	plugins := func(section string, docs []plan.PluginDoc) {
		for _, d := range docs {
			fmt.Fprintf(&b, "\n### `%s`: `%s`\n\n%s.\n", section, d.Kind, upper(d.Doc))
			if d.Config != nil {
				if t := reflect.TypeOf(d.Config); t.Kind() == reflect.Struct && t.NumField() > 0 {
					b.WriteString("\n" + head)
					for _, f := range fieldtag.Of(t) {
						row(&b, f.Key, f)
					}
				}
			}
		}
	}
	plugins("backend", v.Backends)
	plugins("collect", v.Collectors)
	plugins("sinks", v.Sinks)
	return between(page, "keys", b.Bytes())
}

const head = "| key | meaning | default |\n| --- | --- | --- |\n"

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// table writes the keys of a struct, then those of the structs in it.
func table(b *bytes.Buffer, where string, t reflect.Type) {
	if where == "" {
		fmt.Fprintf(b, "\n### the plan\n\n%s", head)
	} else {
		fmt.Fprintf(b, "\n### `%s`\n\n%s", where, head)
	}
	type inner struct {
		where string
		t     reflect.Type
	}
	var later []inner
	for _, f := range fieldtag.Of(t) {
		row(b, f.Key, f)
		at := f.Key
		if where != "" {
			at = where + "." + f.Key
		}
		in := f.Type
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Map || in.Kind() == reflect.Slice {
			switch in.Kind() {
			case reflect.Map:
				at += ".<name>"
			case reflect.Slice:
				at += "[]"
			}
			in = in.Elem()
		}
		switch in {
		case reflect.TypeFor[plan.Matrix](), reflect.TypeFor[plan.Plugin](), reflect.TypeFor[plan.SLO](), reflect.TypeFor[secret.String](), reflect.TypeFor[manifest.File](), reflect.TypeFor[time.Duration]():
			continue
		}
		if in.Kind() == reflect.Struct {
			later = append(later, inner{at, in})
		}
	}
	for _, l := range later {
		table(b, l.where, l.t)
	}
}

func row(b *bytes.Buffer, key string, f fieldtag.Field) {
	doc := f.Doc
	if len(f.Enum) > 0 {
		doc += " One of `" + strings.Join(f.Enum, "`, `") + "`."
	}
	if bound := bounds(f); bound != "" {
		doc += " " + upper(bound) + "."
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, strings.ReplaceAll(doc, "|", `\|`), f.Default)
}

func bounds(f fieldtag.Field) string {
	var parts []string
	for _, p := range []struct {
		text  string
		value *float64
	}{{"at least", f.Min}, {"more than", f.Above}, {"at most", f.Max}, {"less than", f.Below}} {
		if p.value != nil {
			parts = append(parts, p.text+" "+strconv.FormatFloat(*p.value, 'f', -1, 64))
		}
	}
	out := strings.Join(parts, ", ")
	if f.Unit != "" && f.Unit != "s" && f.Unit != "ratio" {
		out = strings.TrimSpace(out + " " + f.Unit)
	}
	return out
}
