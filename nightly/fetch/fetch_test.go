package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/effect"
)

// A volume is the other side in this process. Its streams can break.
type volume struct {
	root  *os.Root
	dir   string
	cut   int // bytes after which a stream of files breaks; 0 is never
	sends int
	asked int64        // bytes, in all
	lie   func([]line) // about the list
	begin func()       // before files are sent
}

func (v *volume) List(_ context.Context, out io.Writer) error {
	var b bytes.Buffer
	if err := List(v.root, 0, &b); err != nil {
		return err
	}
	if v.lie == nil {
		_, err := b.WriteTo(out)
		return err
	}
	var all []line
	for dec := json.NewDecoder(&b); dec.More(); {
		var l line
		if err := dec.Decode(&l); err != nil {
			return err
		}
		all = append(all, l)
	}
	v.lie(all)
	enc := json.NewEncoder(out)
	for _, l := range all {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) Send(_ context.Context, in io.Reader, out io.Writer) error {
	v.sends++
	if v.begin != nil {
		v.begin()
	}
	return Send(v.root, in, &cutter{v: v, out: out})
}

type cutter struct {
	v    *volume
	out  io.Writer
	sent int
}

func (c *cutter) Write(b []byte) (int, error) {
	if c.v.cut > 0 && c.sent+len(b) > c.v.cut {
		n, _ := c.out.Write(b[:c.v.cut-c.sent])
		c.sent += n
		c.v.asked += int64(n)
		return n, errors.New("the connection is cut")
	}
	n, err := c.out.Write(b)
	c.sent += n
	c.v.asked += int64(n)
	return n, err
}

func (v *volume) write(t *testing.T, path, text string) {
	t.Helper()
	at := filepath.Join(v.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// nights returns a volume with two runs and much that is not fetched.
func nights(t *testing.T) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	var err error
	if v.root, err = os.OpenRoot(v.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.root.Close() })
	for _, run := range []string{"chat-20261124T020000Z", "chat-20261125T020000Z"} {
		v.write(t, "runs/"+run+"/journal.jsonl", `{"run":"`+run+`"}`+"\n{}\n")
		v.write(t, "runs/"+run+"/cells/a b/t01/requests.parquet", strings.Repeat(run, 5000))
		v.write(t, "runs/"+run+"/empty.txt", "")
		v.write(t, "runs/"+run+"/run.lock", "1")
		v.write(t, "runs/"+run+"/.ballast", "1")
		v.write(t, "runs/"+run+"/progress.json", "1")
	}
	v.write(t, "chat.jsonl", "one\ntwo\n")
	v.write(t, ".sweep-chat.lock", "")
	v.write(t, ".state/sweep/ledger/x", "secret")
	v.write(t, "runs/.pruned-x/journal.jsonl", "1")
	v.write(t, "runs/stray", "1")
	v.write(t, "lost+found/x", "1")
	if err := os.Symlink("/etc/passwd", filepath.Join(v.dir, "runs/chat-20261124T020000Z/link")); err != nil {
		t.Fatal(err)
	}
	return v
}

func options(t *testing.T) Options { return Options{MaxBytes: 1 << 30, Say: t.Logf} }

// tree returns every file below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What is fetched is what there is of runs and histories, and then nothing is sent again.
func TestPull(t *testing.T) {
	t.Parallel()
	v, to := nights(t), t.TempDir()
	got, err := Pull(t.Context(), v, nil, to, options(t))
	if err != nil || got.Files != 7 || strings.Join(got.Runs, " ") != "chat-20261124T020000Z chat-20261125T020000Z" {
		t.Fatalf("%+v, %v", got, err)
	}
	here := tree(t, to)
	if len(here) != 7 {
		t.Errorf("%v", here)
	}
	for path, text := range here {
		if there, _ := os.ReadFile(filepath.Join(v.dir, path)); string(there) != text {
			t.Errorf("%s differs", path)
		}
	}
	if got, err := Pull(t.Context(), v, nil, to, options(t)); err != nil || got.Bytes != 0 || got.Present != 7 || v.sends != 1 {
		t.Errorf("again: %+v, %v", got, err)
	}
	// A night was resumed, and one came.
	v.write(t, "runs/chat-20261125T020000Z/journal.jsonl", `{"run":"chat-20261125T020000Z"}`+"\n{}\n{}\n")
	v.write(t, "runs/chat-20261126T020000Z/journal.jsonl", "{}\n")
	v.write(t, "chat.jsonl", "one\ntwo\nthree\n")
	if got, err := Pull(t.Context(), v, nil, to, options(t)); err != nil || got.Files != 3 || len(got.Runs) != 3 {
		t.Errorf("later: %+v, %v", got, err)
	}
	if here := tree(t, to); here["chat.jsonl"] != "one\ntwo\nthree\n" {
		t.Errorf("%q", here["chat.jsonl"])
	}
}

// A stream that breaks goes on where it stopped, in the same fetch and in the next one.
func TestPull_broken(t *testing.T) {
	t.Parallel()
	v, to := nights(t), t.TempDir()
	v.cut = 40_000
	got, err := Pull(t.Context(), v, nil, to, options(t))
	if err != nil || got.Files != 7 || v.sends < 5 {
		t.Fatalf("%+v, %v after %d streams", got, err, v.sends)
	}
	var whole int64
	for _, text := range tree(t, to) {
		whole += int64(len(text))
	}
	if got.Bytes != whole || v.asked != whole {
		t.Errorf("%d bytes came and %d were sent, of %d", got.Bytes, v.asked, whole)
	}

	// A connection that brings nothing is given up, and what came before it is kept.
	v, to = nights(t), t.TempDir()
	v.cut = 50_000
	v.begin = func() {
		if v.sends > 1 {
			v.cut = -1
			v.root.Close()
		}
	}
	if _, err := Pull(t.Context(), v, nil, to, options(t)); err == nil {
		t.Error("nothing came, and it is a success")
	}
	again := nights(t)
	if got, err := Pull(t.Context(), again, nil, to, options(t)); err != nil || got.Bytes != whole-50_000 {
		t.Errorf("%+v, %v, want %d bytes", got, err, whole-50_000)
	}
}

// A file that is another one when it is sent than when it was listed is fetched again. One
// that never rests is an error, and does not count.
func TestPull_changing(t *testing.T) {
	t.Parallel()
	v, to := nights(t), t.TempDir()
	const file = "runs/chat-20261125T020000Z/cells.csv"
	v.write(t, file, "aaaa")
	v.begin = func() {
		if v.sends == 1 {
			v.write(t, file, "bbbb")
		}
	}
	if got, err := Pull(t.Context(), v, nil, to, options(t)); err != nil || tree(t, to)[file] != "bbbb" {
		t.Errorf("%+v, %v", got, err)
	}
	v.begin = func() { v.write(t, file, fmt.Sprint(1000+v.sends)) }
	v.write(t, file, "cccc")
	if _, err := Pull(t.Context(), v, nil, to, options(t)); !errors.Is(err, errChanged) || tree(t, to)[file] != "bbbb" {
		t.Errorf("%v, %q", err, tree(t, to)[file])
	}
	for path := range tree(t, to) {
		if strings.HasSuffix(path, partial) {
			t.Errorf("%s is left", path)
		}
	}
}

// Neither a run nor a history is replaced by another one.
func TestPull_another(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"runs/chat-20261124T020000Z/journal.jsonl": `{"run":"mine"}` + "\n", "chat.jsonl": "one\nmine\n"} {
		v, to := nights(t), t.TempDir()
		own := &volume{dir: to}
		own.write(t, name, text)
		if _, err := Pull(t.Context(), v, nil, to, options(t)); err == nil || !strings.Contains(err.Error(), "fetch into another folder") {
			t.Errorf("%s: %v", name, err)
		}
		if got := tree(t, to)[name]; got != text {
			t.Errorf("%s was replaced by %q", name, got)
		}
	}
}

// A list that leads out of the folder, is cut off or has no end is refused as a whole.
func TestPull_hostile(t *testing.T) {
	t.Parallel()
	path := func(p string) func([]line) { return func(l []line) { l[0].Path = p } }
	for name, lie := range map[string]func([]line){
		"../x": path("../x"), "/etc/x": path("/etc/x"), "runs/a/../../../x": path("runs/a/../../../x"), "runs/../x.jsonl": path("runs/../x.jsonl"),
		"x": path("x"), "runs/x": path("runs/x"), "dot": path("runs/a/./x"), "empty": path(""), "break": path("runs/a/x\n"), "escape": path("runs/a/\x1b[2J"),
		"backslash": path(`runs/a\..\..\x`), "hidden": path("runs/a/.x"), "lock": path("runs/a/run.lock"), "partial": path("runs/a/x.fetching"), "elsewhere": path("plans/a/x"),
		"long": path("runs/a/" + strings.Repeat("x", maxPath)), "twice": func(l []line) { l[0] = l[1] },
		"no digest": func(l []line) { l[0].SHA256 = "abc" }, "size": func(l []line) { l[0].Size = -1 },
		"sizes that overflow": func(l []line) { l[0].Size, l[1].Size = math.MaxInt64, math.MaxInt64 },
		"no end": func(l []line) {
			l[len(l)-1].End = false
			l[len(l)-1].Entry = l[0].Entry
			l[len(l)-1].Path = "runs/z/z"
			l[len(l)-1].Run = ""
		},
	} {
		v, to := nights(t), t.TempDir()
		v.lie = lie
		got, err := Pull(t.Context(), v, nil, to, options(t))
		if err == nil || got.Files != 0 || len(tree(t, to)) != 0 || v.sends != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A link that is here already leads nowhere outside either.
func TestPull_link(t *testing.T) {
	t.Parallel()
	v, to, outside := nights(t), t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(to, "runs")); err != nil {
		t.Fatal(err)
	}
	if _, err := Pull(t.Context(), v, nil, to, options(t)); err == nil || len(tree(t, outside)) != 0 {
		t.Errorf("%v, and %v outside", err, tree(t, outside))
	}
}

func TestPull_tooMuch(t *testing.T) {
	t.Parallel()
	v, to := nights(t), t.TempDir()
	o := options(t)
	o.MaxBytes = 1000
	if _, err := Pull(t.Context(), v, nil, to, o); err == nil || !strings.Contains(err.Error(), "--max-size") || v.sends != 0 {
		t.Error(err)
	}
	if _, err := Pull(t.Context(), v, new(effect.Effects), filepath.Join(to, "none"), o); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The pod sends parts of files of runs and histories alone, and of those that are whole.
func TestSend(t *testing.T) {
	t.Parallel()
	v := nights(t)
	const file = "chat.jsonl"
	for ask, want := range map[string]string{
		`{"path":"chat.jsonl","offset":4,"size":4}`:             "two\n",
		`{"path":"chat.jsonl","offset":4,"size":5}`:             "",
		`{"path":"../x","size":1}`:                              "",
		`{"path":".state/sweep/ledger/x","size":1}`:             "",
		`{"path":"runs/chat-20261124T020000Z/link","size":1}`:   "",
		`{"path":"runs/chat-20261124T020000Z/absent","size":1}`: "",
		`{`: "",
	} {
		var out bytes.Buffer
		err := Send(v.root, strings.NewReader(ask+"\n"), &out)
		if want == "" && err == nil || want != "" && (err != nil || out.String() != want) {
			t.Errorf("%s: %q, %v", ask, out.String(), err)
		}
	}
	var out bytes.Buffer
	if err := List(v.root, 1, &out); err != nil || strings.Contains(out.String(), "20261124") || !strings.Contains(out.String(), "20261125") || !strings.Contains(out.String(), file) {
		t.Errorf("%v\n%s", err, out.String())
	}
	sum := sha256.Sum256([]byte("one\ntwo\n"))
	if !strings.Contains(out.String(), hex.EncodeToString(sum[:])) {
		t.Error("no digest of the history")
	}
}
