package bootstrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The engine's files are there when it starts, byte for byte, for its user alone;
// they are in no process's environment and go with the pod.
func TestFiles(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"sweep-args.yaml": []byte("a: \"it's\"\n\tb: 'x'\n$HOME `id` $(id) \\n \\\\ %s %d\nünï 漢字 \u2028\n* ~ ; & | < > !\n\n"),
		"-n":              []byte("-e \\c"),
		".empty":          nil,
		"large_1.txt":     []byte(strings.Repeat("line\n", 12_000)),
		"crlf":            []byte("no end of line\r\nthere"),
	}
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := t.TempDir()
			o := Options{
				Name: "files-" + filepath.Base(t.TempDir()) + "-" + name + time.Now().Format("150405.000000000"), Files: files,
				Lifetime: time.Minute,
			}
			o.Argv = []string{"/bin/sh", "-c", `cp -p "$1"/* "$1"/.e* "$2" && ls -ld "$1" "$1/crlf" && env && echo "env ends"`, "x", FilesDir(o.Name), kept}
			p := rent(t, rental{shell: shell, Options: o})
			p.ends(0)
			for file, want := range files {
				if got, err := os.ReadFile(filepath.Join(kept, file)); err != nil || string(got) != string(want) {
					t.Errorf("%s: %d bytes %.200q, want %d, %v", file, len(got), got, len(want), err)
				}
			}
			if copied, err := os.ReadDir(kept); err != nil || len(copied) != len(files) {
				t.Errorf("%v, %v", copied, err)
			}
			p.says("env ends")
			p.says("drwx------")
			p.says("-rw-------")
			p.lacks("SWEEP_FILE")
			if _, err := os.Stat(FilesDir(o.Name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder after the end: %v", err)
			}
		})
	}
}

// A container that is started again has its files again, as they were.
func TestFiles_again(t *testing.T) {
	t.Parallel()
	o := Options{Name: "files-again" + time.Now().Format("150405.000000000"), Files: map[string][]byte{"conf": []byte("first\n")}}
	o.Argv = sh("echo more >>" + FilesDir(o.Name) + "/conf; cat " + FilesDir(o.Name) + "/conf; kill -9 $PPID; sleep 1000")
	t.Cleanup(func() { _ = os.RemoveAll(FilesDir(o.Name)) })
	disk := t.TempDir()
	for range 2 {
		p := rent(t, rental{disk: disk, Options: o, path: toolbox(t)}) // without setsid and python3: the shell is the engine's parent
		<-p.ended
		p.says("first\nmore\n")
		p.lacks("more\nmore")
		p.kill()
	}
}

// Where they cannot be written there is no engine.
func TestFiles_noPlace(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		o := Options{
			Name: "files-none" + name + time.Now().Format("150405.000000000"), Files: map[string][]byte{"conf": []byte("x")},
			Argv: sh("echo engine up"),
		}
		if err := os.Symlink(t.TempDir(), FilesDir(o.Name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(FilesDir(o.Name)) })
		p := rent(t, rental{shell: shell, Options: o})
		p.ends(2)
		p.says("the engine's files cannot be written")
		p.lacks("engine up")
	}
}

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, want string
	}{
		{"sweep-args.yaml", "a: 1\n", ""},
		{".hidden", "", ""},
		{"full", strings.Repeat("x", maxFiles-4), ""},
		{"over", strings.Repeat("x", maxFiles-3), "65537 bytes"},
		{"", "", "not the name"},
		{".", "", "not the name"},
		{"..", "", "not the name"},
		{"a/b", "", "not the name"},
		{"a b", "", "not the name"},
		{"a\n", "", "not the name"},
		{"ü", "", "not the name"},
		{"nul", "a\x00b", "not text"},
		{"latin1", "\xfc", "not text"},
	} {
		files := map[string][]byte{c.name: []byte(c.text)}
		err := CheckFiles(files)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v", c.name, err)
		}
		o := full()
		o.Files = files
		if got := o.Validate(); (got == nil) != (c.want == "") {
			t.Errorf("%q: Validate says %v", c.name, got)
		}
	}
}
