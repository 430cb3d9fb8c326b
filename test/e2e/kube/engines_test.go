//go:build e2e_kube

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// engineImage has what the environments of real engines need of this machine: the Python
// that they were made with, the shared libraries that they name, and etcd. The environments
// themselves and the models, 1 GB, are no layer: pods mount .engines at /engines, by the
// claim that engines makes.
const engineImage = "lab.test/engines:1"

// engineTools are programs of the image beside Python.
var engineTools = []string{"etcd"}

var engineOnce = sync.OnceValue(func() error {
	archive := lab.file("engines.tar")
	if err := buildEngines(archive); err != nil {
		return err
	}
	return errors.Join(lab.ctr("images", "import", archive), os.Remove(archive))
})

// engines makes a claim of the folder .engines in a namespace, and the image for what runs
// from it.
func (n *node) engines(t *testing.T, ns string) {
	t.Helper()
	if err := engineOnce(); err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.EvalSymlinks("../../../.engines")
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.apply(t, "", fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: engines-%[1]s}, spec: {capacity: {storage: 8Gi}, accessModes: [ReadOnlyMany],
		persistentVolumeReclaimPolicy: Retain, storageClassName: "", claimRef: {namespace: %[1]s, name: engines}, hostPath: {path: %[2]q}}}`, ns, folder))
	t.Cleanup(func() {
		if err := n.send("DELETE", "/api/v1/persistentvolumes/engines-"+ns, "", nil); err != nil {
			t.Error(err)
		}
	})
	n.apply(t, ns, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: engines}, spec: {accessModes: [ReadOnlyMany],
		storageClassName: "", volumeName: engines-%s, resources: {requests: {storage: 8Gi}}}}`, ns))
}

// absolute are the paths in what ldd prints.
var absolute = regexp.MustCompile(`/[^ )\n:]+`)

// buildEngines packs Python, the libraries and the tools as an archive of an OCI image.
func buildEngines(archive string) error {
	python, err := filepath.Abs("../../../.engines/dynamo/bin/python")
	if err != nil {
		return err
	}
	text, err := exec.Command(python, "-c", "import json, os, sys; print(json.dumps([sys.base_prefix, os.path.realpath(sys.executable), os.path.dirname(os.__file__)]))").Output()
	if err != nil {
		return fmt.Errorf("%s: %w: make it by task engines:dynamo", python, err)
	}
	var base [3]string // the prefix, the program, the modules
	if err := json.Unmarshal(text, &base); err != nil {
		return err
	}
	image := contents{known: map[string]bool{}}
	linked := []string{base[1]}
	image.add(base[1])
	for _, tool := range engineTools {
		path, err := exec.LookPath(tool)
		if err != nil {
			return err
		}
		linked = append(linked, path)
		image.files = append(image.files, file{"bin/" + tool, image.text(path)})
	}
	for _, folder := range []string{base[2], "../../../.engines/dynamo/lib", "../../../.engines/llamacpp/lib"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && folder == base[2] && (d.Name() == "site-packages" || d.Name() == "dist-packages" || d.Name() == "test" || d.Name() == "__pycache__"):
				return fs.SkipDir
			case d.IsDir():
				return nil
			case strings.Contains(d.Name(), ".so"):
				linked = append(linked, path)
			}
			if folder == base[2] && d.Type().IsRegular() {
				image.add(path)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w: make it by task engines:dynamo engines:llamacpp", err)
		}
	}
	libraries, err := exec.Command("ldd", linked...).Output()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) { // 1 for a program without any
		return err
	}
	for line := range strings.Lines(string(libraries)) {
		// NAME => /PATH (ADDRESS), or /PATH (ADDRESS) of the loader. Other lines are the files.
		if path := absolute.FindString(line); path != "" && strings.Contains(line, "(0x") && !strings.Contains(path, "/.engines/") {
			image.add(path)
		}
	}
	if image.err != nil {
		return image.err
	}
	serve := image.text("../../../tools/engines/llama_serve.py")
	image.files = append(image.files, file{"llama_serve.py", serve}, file{name: "tmp/"})
	return errors.Join(image.err, packed(archive, engineImage, nil, image.files...))
}

// contents are the files of an image that have the paths that they have here.
type contents struct {
	files []file
	known map[string]bool
	err   error
}

func (c *contents) text(path string) []byte {
	text, err := os.ReadFile(path)
	c.err = errors.Join(c.err, err)
	return text
}

func (c *contents) add(path string) {
	if !c.known[path] {
		c.known[path] = true
		c.files = append(c.files, file{strings.TrimPrefix(path, "/"), c.text(path)})
	}
}
