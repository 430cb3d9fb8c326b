package bootstrap

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"
)

// maxFiles is what all [Options].Files of a pod may take, in bytes with their
// names. They travel in its environment, where Linux takes 128 KiB for one
// variable.
const maxFiles = 64 << 10

var filePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// FilesDir returns the folder on the pod of a name that its [Options].Files are in.
func FilesDir(name string) string { return "/tmp/.sweep-" + name + ".files" }

// CheckFiles says why files cannot be brought to a pod: a name that is none, a
// text that no variable and no JSON can hold, more than 64 KiB together.
func CheckFiles(files map[string][]byte) error {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		switch {
		case !filePattern.MatchString(name) || name == "." || name == "..":
			return fmt.Errorf("bootstrap: %q is not the name of a file: letters, digits, dots, dashes and underscores", name)
		case bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text):
			return fmt.Errorf("bootstrap: file %s is not text", name)
		}
		size += len(name) + len(text)
	}
	if size > maxFiles {
		return fmt.Errorf("bootstrap: files of %d bytes, of which a pod takes %d", size, maxFiles)
	}
	return nil
}
