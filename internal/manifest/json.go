package manifest

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// A Document is an object as JSON has it.
type Document map[string]any

// Labels are put into an object and into the templates of its pods.
type Labels struct {
	// Set takes the place of what is there; Add is for keys that the object leaves out.
	Set, Add map[string]string
	// Annotations are of the object alone.
	Annotations map[string]string
}

// document makes the object's JSON with values. Each call makes a new one.
func (o *Object) document(values map[*Target]any) Document {
	doc, _ := tree(o.root).(map[string]any)
	for t, v := range values {
		if t.Object == o {
			doc, _ = put(doc, t.steps, v).(map[string]any)
		}
	}
	delete(doc, "status")
	delete(child(doc, "metadata"), "creationTimestamp")
	return doc
}

// Label puts labels and annotations into the document of an object.
func (o *Object) Label(doc Document, l Labels) {
	for _, m := range o.places(doc) {
		labels := child(m, "labels")
		for k, v := range l.Add {
			if _, ok := labels[k]; !ok {
				labels[k] = v
			}
		}
		for k, v := range l.Set {
			labels[k] = v
		}
	}
	if len(l.Annotations) == 0 {
		return
	}
	notes := child(child(doc, "metadata"), "annotations")
	for k, v := range l.Annotations {
		notes[k] = v
	}
}

// child returns the mapping under a key, which is made if there is none.
func child(m map[string]any, key string) map[string]any {
	c, ok := m[key].(map[string]any)
	if !ok {
		c = make(map[string]any)
		m[key] = c
	}
	return c
}

// tree returns a node as JSON has it.
func tree(n *syntax.Node) any {
	switch n.Kind {
	case syntax.Map:
		out := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			out[e.Key.Text] = tree(e.Value)
		}
		return out
	case syntax.List:
		out := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			out = append(out, tree(item))
		}
		return out
	case syntax.Bool:
		return strings.EqualFold(n.Text, "true")
	case syntax.Int, syntax.Float:
		v, _ := number(n.Text) // scan has looked
		return v
	case syntax.String:
		return n.Text
	}
	return nil
}

// number reads a number as kubectl does: 0644 is octal.
func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return i, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsInf(x, 0) || math.IsNaN(x)) {
		err = errors.New("not finite")
	}
	return x, err
}

// put returns v with a value at steps.
func put(v any, steps []step, value any) any {
	if len(steps) == 0 {
		return value
	}
	at := steps[0]
	switch v := v.(type) {
	case map[string]any:
		v[at.key] = put(v[at.key], steps[1:], value)
		return v
	case []any:
		if at.index == len(v) {
			v = append(v, nil)
		}
		v[at.index] = put(v[at.index], steps[1:], value)
		return v
	}
	return value
}
