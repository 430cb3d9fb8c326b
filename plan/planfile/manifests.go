package planfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
)

// manifestFile decodes the name of a file of manifests, and reads the file the first time.
func (l *loader) manifestFile(n *syntax.Node, v reflect.Value, where string) {
	name, ok := l.Text(n, fieldtag.Field{}, where)
	if !ok {
		return
	}
	i := slices.IndexFunc(l.manifests, func(f manifest.File) bool { return f.Name == name })
	if i < 0 {
		f, ok := l.readManifest(n, name)
		if !ok {
			return
		}
		i = len(l.manifests)
		l.manifests = append(l.manifests, f)
	}
	v.Set(reflect.ValueOf(l.manifests[i]))
}

// readManifest reads a file of manifests. A resume takes the copy that its run kept.
func (l *loader) readManifest(n *syntax.Node, name string) (f manifest.File, ok bool) {
	if l.opts.Manifests != nil {
		i := slices.IndexFunc(l.opts.Manifests, func(f manifest.File) bool { return f.Name == name })
		if i < 0 {
			l.Report.Node(n, "file", "the run has kept no file of manifests %s", name)
			return f, false
		}
		return l.opts.Manifests[i], true
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	text, err := input.ReadFile(path, syntax.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Report.Node(n, "file", "there is no file of manifests %s", name).Hint = "the path is relative to the plan's folder"
	case err != nil:
		l.Report.Node(n, "file", "manifests %s: %v", name, input.Reason(err))
	default:
		return manifest.File{Name: name, Text: text}, true
	}
	return f, false
}

// readManifests reads the objects of the manifests that the backend names.
func (l *loader) readManifests(p *plan.Plan) {
	if len(l.manifests) == 0 {
		return
	}
	at, size := l.file.Key("backend", "manifests"), 0
	for _, f := range l.manifests {
		size += len(f.Text)
		sum := sha256.Sum256(f.Text)
		p.Backend.Digests = append(p.Backend.Digests, hex.EncodeToString(sum[:]))
	}
	switch {
	case len(l.manifests) > manifest.MaxFiles:
		l.Report.Node(at, "too-many-files", "there are %d files of manifests, and %d are allowed", len(l.manifests), manifest.MaxFiles)
		return
	case size > manifest.MaxBytes:
		l.Report.Node(at, "too-large", "the manifests have %d bytes, and %d are allowed", size, manifest.MaxBytes).Hint = "leave out what the cluster has already, such as definitions of custom resources"
		return
	}
	before := l.Report.Len()
	if set := manifest.Parse(l.manifests, l.Report); l.Report.Len() == before {
		l.objects = set
	}
}
