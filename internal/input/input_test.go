package input_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/input"
)

func TestOpen_refuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	sparse := file("sparse", "x")
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		pipe:                         input.ErrNotRegular,
		dir:                          syscall.EISDIR,
		"/dev/zero":                  input.ErrNotRegular,
		file("empty", ""):            input.ErrEmpty,
		file("large", "123456789"):   input.ErrTooLarge,
		sparse:                       input.ErrTooLarge,
		filepath.Join(dir, "absent"): fs.ErrNotExist,
		file("exact", "12345678"):    nil,
	} {
		text, err := input.ReadFile(name, 8)
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: %q, %v, want %v", name, text, err, want)
		}
		if pe, ok := errors.AsType[*fs.PathError](err); err != nil && (!ok || pe.Path != name) {
			t.Errorf("%s: %v names another path", name, err)
		}
	}
}

// A file may grow between the look at its size and its last byte.
func TestFile_grows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := input.Open(path, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); !errors.Is(err, input.ErrTooLarge) || len(b) > 8 {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestJSON(t *testing.T) {
	var v struct {
		N json.Number `json:"n"`
		S string      `json:"s"`
	}
	for text, want := range map[string]string{
		`{"s": 1}`:        `"s" is a number where a string is due`,
		`[]`:              "an array where an object is due",
		`{"n": "secret"}`: "a field is not a number",
		`{"s": x}`:        "no JSON: invalid character 'x' looking for beginning of value",
		`{"s"`:            "the file ends in the middle",
	} {
		if err := input.JSON(json.NewDecoder(strings.NewReader(text)).Decode(&v)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
