// Package manifest reads the Kubernetes manifests that a plan brings along, and puts the
// values of the plan's axes into them. It asks no cluster.
package manifest

import (
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// Bounds of the manifests of one plan. Those of a single file are of package syntax.
const (
	MaxFiles   = 32
	MaxBytes   = 1 << 20 // of all files
	MaxObjects = 200
)

// A File is one file of manifests.
type File struct {
	Name string // as the plan has it
	Text []byte
}

// UnmarshalText takes the name, as a plan has it. Whoever reads the plan reads the file.
func (f *File) UnmarshalText(text []byte) error {
	f.Name = string(text)
	return nil
}

// A Set is the objects of all files, in their order.
type Set struct{ Objects []*Object }

// An Object is one object that is made in the cluster.
type Object struct {
	APIVersion, Kind, Name string
	Namespace              string // "" if the file leaves it to the plan

	root *syntax.Node
}

// String returns how messages and axes name the object: Deployment/decode.
func (o *Object) String() string { return o.Kind + "/" + o.Name }

// Group returns that of the object's API, "" for core.
func (o *Object) Group() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Place returns where the object begins: file:line:col.
func (o *Object) Place() *syntax.Node { return o.root }

// At returns where a key of the object stands, or the nearest one above it.
func (o *Object) At(keys ...string) *syntax.Node {
	n, _ := o.root.At(keys...)
	return n
}

// Parse reads files. What is wrong with them is reported at its place; the set holds what
// could be read.
func Parse(files []File, r *syntax.Report) *Set {
	s := &Set{}
	seen := make(map[string]*Object)
	for _, f := range files {
		for _, root := range syntax.ParseStream(f.Name, string(f.Text), r) {
			o := object(root, r)
			if o == nil {
				continue
			}
			key := o.Group() + "/" + o.String()
			if first := seen[key]; first != nil {
				r.Node(o.At("metadata", "name"), "duplicate", "%s is there twice, first in %s:%d", o, first.root.Src.Name, first.root.Line)
				continue
			}
			seen[key] = o
			s.Objects = append(s.Objects, o)
		}
	}
	if n := len(s.Objects); n > MaxObjects {
		r.Node(s.Objects[MaxObjects].root, "too-many-objects", "there are %d objects, and %d are allowed", n, MaxObjects)
	}
	return s
}

// own is the beginning of the keys of sweep's labels and annotations.
const own = "sweep.dev/"

// hook is the annotation of objects that Helm makes at another time than all others.
const hook = "helm.sh/hook"

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.:]{0,251}[a-z0-9])?$`)
	kindForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	apiForm  = regexp.MustCompile(`^([a-z0-9][-a-z0-9.]{0,252}/)?v[0-9][a-z0-9]{0,30}$`)
)

// object returns what a document says, nil with a report if it is no object that sweep makes.
func object(root *syntax.Node, r *syntax.Report) *Object {
	if root.Kind != syntax.Map {
		r.Node(root, "type", "a manifest is a mapping, found %s", root.Kind.Name())
		return nil
	}
	before := r.Len()
	o := &Object{root: root}
	o.APIVersion = text(root, r, apiForm, "v1, or apps/v1", "apiVersion")
	o.Kind = text(root, r, kindForm, "Deployment", "kind")
	if strings.HasSuffix(o.Kind, "List") && root.Get("items") != nil {
		r.Node(root.Key("items"), "list", "a list of objects is no object").Hint = "write each of its items as a document of its own"
		return nil
	}
	if root.Get("metadata").Get("generateName") != nil {
		r.Node(root.Get("metadata").Key("generateName"), "name", "an object without a fixed name cannot be found again").Hint = "write metadata.name"
		return nil
	}
	o.Name = text(root, r, nameForm, "lower case letters, digits and dashes", "metadata", "name")
	if o.At("metadata", "namespace") != o.At("metadata") {
		o.Namespace = text(root, r, nameForm, "", "metadata", "namespace")
	}
	if o.Kind == "Secret" && o.Group() == "" {
		r.Node(root, "secret", "a Secret would be copied into the run's folder").Hint = "make it in the namespace beforehand: the other manifests name it"
	}
	o.refuse(r)
	for _, m := range o.metadata() {
		for _, section := range []string{"labels", "annotations"} {
			for _, e := range entries(m.Get(section)) {
				if strings.HasPrefix(e.Key.Text, own) {
					r.Node(e.Key, "reserved", "sweep sets %s itself: its clean-up finds objects by it", e.Key.Text)
				}
			}
		}
	}
	scan(root, r)
	if r.Len() > before {
		return nil
	}
	return o
}

// refuse reports what of metadata and status belongs to the cluster, or to another owner.
func (o *Object) refuse(r *syntax.Report) {
	for _, e := range entries(o.root.Get("metadata")) {
		switch e.Key.Text {
		case "finalizers":
			if len(e.Value.Items) > 0 {
				r.Node(e.Key, "finalizer", "%s has a finalizer: an object that waits for somebody is not certainly gone at the end", o)
			}
		case "ownerReferences":
			r.Node(e.Key, "owner", "sweep sets the owner of %s, with which it goes", o)
		case "uid", "resourceVersion", "managedFields", "selfLink", "generation", "deletionTimestamp", "deletionGracePeriodSeconds":
			r.Node(e.Key, "copied", "metadata.%s is the cluster's own: %s was copied from one", e.Key.Text, o).Hint = "take out what the cluster has added: uid, resourceVersion, managedFields, status, ..."
		case "annotations":
			if k := e.Value.Get(hook); k != nil {
				r.Node(k, "hook", "%s is a hook of Helm, and not part of the stack", o).Hint = "render the chart with helm template --no-hooks"
			}
		}
	}
	if s := o.root.Get("status"); s != nil && (len(s.Entries) > 0 || s.Kind != syntax.Map && s.Kind != syntax.Null) {
		r.Node(o.root.Key("status"), "copied", "status is the cluster's own: %s was copied from one", o).Hint = "take it out"
	}
}

// text returns a text of an object that has a certain form.
func text(root *syntax.Node, r *syntax.Report, form *regexp.Regexp, example string, keys ...string) string {
	n, ok := root.At(keys...)
	what := strings.Join(keys, ".")
	switch {
	case !ok:
		r.Node(n, "missing", "the manifest has no %s", what).Expected = example
		return ""
	case n.Kind != syntax.String:
		r.Node(n, "type", "%s takes text, found %s", what, n.Kind.Name()).Expected = example
		return ""
	case !form.MatchString(n.Text):
		r.Node(n, "value", "%s cannot be %q", what, n.Text).Expected = example
		return ""
	}
	return n.Text
}

// scan reports scalars that are credentials, or that two readers of YAML understand
// differently.
func scan(n *syntax.Node, r *syntax.Report) {
	for _, item := range n.Items {
		scan(item, r)
	}
	for _, e := range n.Entries {
		scan(e.Value, r)
	}
	switch n.Kind {
	case syntax.String:
		if syntax.Credential.MatchString(n.Text) {
			r.Node(n, "secret", "this looks like a credential, and manifests are copied into the run's folder").Hint = "name a Secret of the namespace: valueFrom: {secretKeyRef: {...}}"
		}
		if !n.Quoted && !n.Block {
			if means, odd := old(n.Text); odd {
				r.Node(n, "ambiguous", "%s is text to some readers of YAML, and %s to kubectl", n.Text, means).Hint = "write " + means + `, or "` + n.Text + `" in quotes`
			}
		}
	case syntax.Int, syntax.Float:
		if _, err := number(n.Text); err != nil {
			r.Node(n, "number", "%s is no number of JSON", n.Text).Hint = "write it in quotes if it is text"
		}
	}
}

// old reports whether a bare word is a truth value in YAML 1.1, which kubectl and Helm read.
func old(word string) (means string, odd bool) {
	switch word {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return "true", true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return "false", true
	}
	return "", false
}

func entries(n *syntax.Node) []syntax.Entry {
	if n == nil {
		return nil
	}
	return n.Entries
}
