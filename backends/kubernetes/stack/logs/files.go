package logs

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/internal/effect"
)

// MaxFile is the size of one file of [Files] at most, in bytes.
const MaxFile = 256 << 20

// Files keeps a file for each container in a folder: ROLE.POD.CONTAINER.log, and
// ROLE.POD.CONTAINER.previous-N.log of a run that was over when it was read, with N
// restarts before it. A line of a file is a time of the container runtime, a space and
// what was printed. A file that is full ends with a line that says so.
type Files struct {
	fx  *effect.Effects
	dir string
	max int64

	mu   sync.Mutex // guards what follows
	open map[string]*logFile
}

type logFile struct {
	*effect.File
	size int64
	full bool
}

// NewFiles keeps files of [MaxFile] bytes at most in a folder that is there.
func NewFiles(fx *effect.Effects, dir string) *Files {
	return &Files{fx: fx, dir: dir, max: MaxFile, open: map[string]*logFile{}}
}

// FileName returns the name of a line's file. ParseFileName reads it.
func FileName(l *Line) string {
	role := strings.ReplaceAll(l.From.Role, " ", "-")
	name := role + "." + l.From.Pod + "." + l.From.Name
	if l.Previous {
		name += fmt.Sprintf(".previous-%d", l.Run)
	}
	return name + ".log"
}

// ParseFileName says whose log a file is. It has no UID.
func ParseFileName(name string) (c Container, ok bool) {
	rest, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return c, false
	}
	if at := strings.LastIndex(rest, ".previous-"); at >= 0 {
		rest = rest[:at]
	}
	role, rest, first := strings.Cut(rest, ".")
	at := strings.LastIndexByte(rest, '.')
	if !first || at < 0 {
		return c, false
	}
	return Container{Role: role, Pod: rest[:at], Name: rest[at+1:]}, true
}

// Add writes a line into its file. It is for [Follow].
func (f *Files) Add(l Line) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := FileName(&l)
	file := f.open[name]
	if file == nil {
		// A file that is there is of an earlier call, and keeps what it has.
		one, err := f.fx.OpenAppend(effect.LogCreate, filepath.Join(f.dir, name))
		if err != nil {
			return fmt.Errorf("keep a log: %w", err)
		}
		st, err := one.OS().Stat()
		if err != nil {
			return fmt.Errorf("keep a log: %w", err)
		}
		file = &logFile{File: one, size: st.Size()}
		f.open[name] = file
	}
	if file.full {
		return nil
	}
	text := l.Time.UTC().Format(time.RFC3339Nano) + " " + l.Text
	if l.Cut > 0 {
		text += fmt.Sprintf(" [and %d bytes]", l.Cut)
	}
	if file.size+int64(len(text))+1 > f.max {
		file.full = true
		text = fmt.Sprintf("%s sweep: this file is full with %d bytes, and what follows is not kept", l.Time.UTC().Format(time.RFC3339Nano), file.size)
	}
	n, err := file.Write([]byte(text + "\n"))
	file.size += int64(n)
	if err != nil {
		return fmt.Errorf("keep a log: %w", err)
	}
	return nil
}

// Close closes the files.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first error
	for name, file := range f.open {
		if err := file.Close(); err != nil && first == nil {
			first = err
		}
		delete(f.open, name)
	}
	return first
}
