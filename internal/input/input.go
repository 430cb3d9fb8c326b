// Package input opens the files that a plan or a command names. A plan may come
// from a stranger, so a file is checked before its first byte is read: it must be
// a regular file that is not empty and not beyond a limit.
package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// Why a file is not read; each comes inside a [*fs.PathError].
var (
	// ErrNotRegular is a pipe, a socket or a device; a folder is syscall.EISDIR.
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrEmpty is a file without a byte, as all files of /proc are.
	ErrEmpty = errors.New("it is empty")
	// ErrTooLarge is a file beyond the limit.
	ErrTooLarge = errors.New("it is too large")
	// ErrChanged is a file that was written since it was opened.
	ErrChanged = errors.New("it was changed while it was in use")
)

// MaxData bounds a file of prompts, lengths or arrivals. Its readers bound what
// one record takes in memory.
const MaxData = 4 << 30

// A File is a regular file that gives at most the bytes of its limit.
type File struct {
	f      *os.File
	opened fs.FileInfo
	limit  int64
	read   int64
}

// Open opens the regular file of that name, which has between one byte and
// limit bytes. It never waits for the writer of a pipe. Errors are
// [*fs.PathError] and hold nothing of the content.
func Open(name string, limit int64) (*File, error) {
	// A device is not even opened: that alone can start something.
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := check(name, info, limit); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:forbidigo // to read; os.Open would wait if the name became a pipe since
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(name, info, limit)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{f: f, opened: info, limit: limit}, nil
}

// ReadFile reads the regular file of that name, which has between one byte and
// limit bytes. Errors are as those of [Open].
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := Open(name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadNamed is [ReadFile] for a file that the user names on the command line. It
// may be a pipe that the shell has opened too: /dev/stdin, or what <(command)
// stands for.
func ReadNamed(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Type() != fs.ModeNamedPipe || !strings.HasPrefix(name, "/dev/") {
		return ReadFile(name, limit)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadStream(name, f, limit)
}

// ReadStream is [ReadFile] for what is open already, as the standard input is; name
// stands in errors.
func ReadStream(name string, r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) == 0:
		return nil, refused(name, ErrEmpty)
	case int64(len(b)) > limit:
		return nil, tooLarge(name, limit)
	}
	return b, nil
}

func check(name string, info fs.FileInfo, limit int64) error {
	switch {
	case info.IsDir():
		return refused(name, syscall.EISDIR)
	case !info.Mode().IsRegular():
		return refused(name, ErrNotRegular)
	case info.Size() == 0:
		return refused(name, ErrEmpty)
	case info.Size() > limit:
		return tooLarge(name, limit)
	}
	return nil
}

// Read reads from the file. A file that grew beyond its limit since it was
// opened ends with [ErrTooLarge].
func (f *File) Read(b []byte) (int, error) {
	if left := f.limit + 1 - f.read; int64(len(b)) > left {
		b = b[:left]
	}
	n, err := f.f.Read(b)
	if f.read += int64(n); f.read > f.limit {
		return 0, tooLarge(f.f.Name(), f.limit)
	}
	return n, err
}

// ReadAt implements [io.ReaderAt]. It fails with [ErrChanged] if the file was written since
// it was opened.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if now, e := f.f.Stat(); e != nil {
		return 0, e
	} else if now.Size() != f.opened.Size() || !now.ModTime().Equal(f.opened.ModTime()) {
		return 0, refused(f.f.Name(), ErrChanged)
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

func refused(name string, cause error) error {
	return &fs.PathError{Op: "read", Path: name, Err: cause}
}

func tooLarge(name string, limit int64) error {
	return refused(name, fmt.Errorf("%w: more than %s", ErrTooLarge, size(limit)))
}

func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d %s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Reason returns the cause of a file's error without its path, for a message that
// names the file as the plan wrote it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func article(noun string) string {
	if strings.ContainsAny(noun[:min(1, len(noun))], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// named returns a kind of Go's by its name in JSON.
func named(kind reflect.Kind) string {
	switch {
	case kind >= reflect.Int && kind <= reflect.Uintptr:
		return "whole number"
	case kind == reflect.Float32 || kind == reflect.Float64:
		return "number"
	case kind == reflect.Slice || kind == reflect.Array:
		return "array"
	case kind == reflect.Struct || kind == reflect.Map:
		return "object"
	}
	return kind.String()
}

// JSON returns an error of encoding/json in fewer words, which quote nothing of the file.
func JSON(err error) error {
	kind, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case wrong && kind.Field != "":
		return fmt.Errorf("%q is %s where %s is due", kind.Field, article(kind.Value), article(named(kind.Type.Kind())))
	case wrong:
		return fmt.Errorf("%s where an object is due", article(kind.Value))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends in the middle")
	case strings.HasPrefix(err.Error(), "json: "):
		return errors.New("a field is not a number")
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
		return fmt.Errorf("no JSON: %w", err)
	}
	return err
}
