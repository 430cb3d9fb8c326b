package fetch

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// A line is one of a list. The last has End, without which the list is cut off.
type line struct {
	Entry
	End bool `json:"end,omitempty"`
}

// List writes the files of a volume as lines of JSON: those of the latest runs, all of
// them if latest is 0, and the histories. Names of runs have their time in them.
func List(root *os.Root, latest int, out io.Writer) error {
	var names []string
	runs, err := fs.ReadDir(root.FS(), RunsFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, r := range runs {
		if r.IsDir() && !hidden(r.Name()) {
			names = append(names, r.Name())
		}
	}
	slices.Reverse(names)
	if latest > 0 {
		names = names[:min(latest, len(names))]
	}
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	for _, name := range names {
		err := fs.WalkDir(root.FS(), path.Join(RunsFolder, name), func(at string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
				return nil
			case err != nil:
				return err
			case hidden(e.Name()) && e.IsDir():
				return fs.SkipDir
			}
			return listed(root, at, e, enc)
		})
		if err != nil {
			return err
		}
	}
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range top {
		if isHistory(e.Name()) {
			if err := listed(root, e.Name(), e, enc); err != nil {
				return err
			}
		}
	}
	return errors.Join(enc.Encode(line{End: true}), w.Flush())
}

// listed writes the line of a file. What is no file, or is gone, has none.
func listed(root *os.Root, at string, e fs.DirEntry, enc *json.Encoder) error {
	if !e.Type().IsRegular() || hidden(e.Name()) {
		return nil
	}
	f, err := root.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	l := line{Entry: Entry{Path: at}}
	if l.journal() {
		if l.Run, err = firstLine(f); err != nil {
			return err
		}
	}
	if l.Size, l.SHA256, err = digest(f); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return enc.Encode(l)
}

// maxFirst bounds the first line of a journal, in bytes.
const maxFirst = 1 << 20

// firstLine returns the digest of the first line of a journal, which is read from its begin
// again afterwards.
func firstLine(f io.ReadSeeker) (string, error) {
	text, err := bufio.NewReader(io.LimitReader(f, maxFirst)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	sum := sha256.Sum256(text)
	_, err = f.Seek(0, io.SeekStart)
	return hex.EncodeToString(sum[:]), err
}

// A want is a part of a file: Size bytes from Offset on.
type want struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// Send writes the parts of files that the lines of in ask for, one after the other and
// nothing between them. It ends with an error at the first that is not there whole.
func Send(root *os.Root, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var w want
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return err
		}
		if err := sendPart(root, w, out); err != nil {
			return fmt.Errorf("%s: %w", w.Path, err)
		}
	}
	return lines.Err()
}

func sendPart(root *os.Root, w want, out io.Writer) error {
	if err := (Entry{Path: w.Path, SHA256: strings.Repeat("0", 2*sha256.Size)}).check(); err != nil {
		return err
	}
	f, err := root.Open(w.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(w.Offset, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, w.Size)
	return err
}
