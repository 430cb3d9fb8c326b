package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/command"
	"sweep.dev/sweep/backends/command/protocol"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/schemas"
)

// patience bounds every wait.
const patience = 60 * time.Second

// write makes a program. No process may be forked meanwhile: it would have the file
// open, and a file that is open to be written cannot be started.
func write(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// quick returns the example as a program that starts without what Python finds of others.
func quick(t *testing.T) string {
	t.Helper()
	real, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "local")
	write(t, path, "#!/bin/sh\nexec python3 -S '"+real+"' \"$@\"\n")
	return path
}

// program returns the example with other words for some operations: sh, in which $REAL
// is the example and $D a folder of the test's own.
func program(t *testing.T, words map[string]string) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	text := "#!/bin/sh\nREAL='" + quick(t) + "' D='" + dir + "'\ncase $1 in\n"
	for op, body := range words {
		text += op + ")\n" + body + "\n;;\n"
	}
	text += "*) exec \"$REAL\" \"$1\" ;;\nesac\n"
	path = filepath.Join(dir, "program")
	write(t, path, text)
	return path, dir
}

// scripted returns a backend over such a program, whose lost units are looked for a few
// times. Its units have no bootstrap, unless the change says so.
func scripted(t *testing.T, words map[string]string, change func(*command.Config)) (*command.Backend, backends.Spec, string) {
	t.Helper()
	path, dir := program(t, words)
	b, spec := made(t, path, func(c *command.Config) {
		c.Bootstrap = false
		if change != nil {
			change(c)
		}
	})
	b.Late = 200 * time.Millisecond
	spec.RunID = strings.ToLower(fmt.Sprintf("run-%d-%s", os.Getpid(), t.Name()))
	return b, spec, dir
}

func launch(t *testing.T, b *command.Backend, spec backends.Spec) backends.Deployment {
	t.Helper()
	d, err := b.Launch(t.Context(), spec, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, d)
	return d
}

func stopAtEnd(t *testing.T, d backends.Deployment) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

func ended(t *testing.T, d backends.Deployment) error {
	t.Helper()
	select {
	case <-d.Done():
		return d.Err()
	case <-time.After(patience):
		t.Fatal("its end went unnoticed")
		return nil
	}
}

// run runs a program once, as the provider would by itself.
func run(t *testing.T, path, op string) error {
	t.Helper()
	var fx *effect.Effects
	return fx.Run(t.Context(), effect.CommandRead, effect.CommandKill, []string{path, op}, nil, io.Discard)
}

func count(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

func TestFactory(t *testing.T) {
	t.Parallel()
	f := command.Factory(nil)
	if f.Kind != command.Kind || !f.Outlives || !f.Bills || !f.FreeGPU || f.Given || f.Default != nil {
		t.Errorf("got %+v", f)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*command.Config){
		"no such file": func(c *command.Config) { c.Program = "./no/such/program" },
		"not found":    func(c *command.Config) { c.Program = "no-such-program" },
		"permission":   func(c *command.Config) { c.Program = plain },
		"which":        func(c *command.Config) { c.Program = "" },
		"timeout":      func(c *command.Config) { c.Timeout = -1 },
		"needs boot":   func(c *command.Config) { c.Heartbeat, c.Bootstrap = time.Minute, false },
		"5s or more":   func(c *command.Config) { c.Heartbeat = time.Second },
		"not absolute": func(c *command.Config) { c.SharedDisk = "here" },
		"":             func(*command.Config) {},
	} {
		b, err := f.New(func(v any) error {
			c := v.(*command.Config)
			c.Program = example
			change(c)
			return nil
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if gratis, ok := b.(backends.Gratis); err == nil && (!ok || gratis.Free()) {
			t.Error("it is free, though nobody has said so")
		}
	}
}

// A create that says what went wrong is taken at its word.
func TestCreate_classes(t *testing.T) {
	t.Parallel()
	for class, is := range map[string]error{
		"capacity": backends.ErrCapacity, "refused": backends.ErrRefused, "not_found": backends.ErrNotFound,
		"spec": backends.ErrSpec, "taken": provision.ErrTaken, "unsure": provision.ErrUnsure, "failed": nil, "other": provision.ErrUnsure,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			b, spec, dir := scripted(t, map[string]string{
				"create": `echo >>"$D/calls"; echo '{"version": 1, "error": {"class": "` + class + `", "message": "the why"}}'; exit 4`,
			}, nil)
			var l backendtest.Ledger
			d, err := b.Launch(t.Context(), spec, &l)
			if err == nil {
				stopAtEnd(t, d)
				t.Fatal("no error")
			}
			if is != nil && !errors.Is(err, is) || !strings.Contains(err.Error(), "the why") || is == nil && errors.Is(err, provision.ErrUnsure) {
				t.Errorf("got %v, want %v", err, is)
			}
			if states := l.States(); (states[len(states)-1] == backends.Gone) == errors.Is(is, provision.ErrUnsure) {
				t.Errorf("the ledger has %v", states)
			}
			if want := map[bool]int{true: 4, false: 1}[class == "taken"]; count(t, dir+"/calls") != want {
				t.Errorf("%d calls, want %d", count(t, dir+"/calls"), want)
			}
		})
	}
}

// A create without a clear answer is not sent again. What it has made is used; if
// nothing is seen, it is owed, and found by its name when it shows up.
func TestCreate_unclear(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ words, want string }{
		"silent":       {`exit 0`, "EOF"},
		"fails":        {`echo no luck >&2; exit 3`, "exit status 3: no luck"},
		"garbage":      {`echo made it`, "made it"},
		"goes on":      {`echo '{"version": 1, "instance": {"id": "x"}} {}'`, "goes on"},
		"unknown key":  {`echo '{"version": 1, "instance": {"id": "x", "where": "y"}}'`, `"where"`},
		"version":      {`echo '{"version": 2, "instance": {"id": "x"}}'`, "version 2"},
		"no id":        {`echo '{"version": 1, "instance": {"name": "x"}}'`, "no instance with an id"},
		"huge":         {`yes '{"version": 1}'`, "more than 4 MiB"},
		"hangs":        {`echo $$ >"$D/pid"; sleep 600 & sleep 600`, "no answer within 6s"},
		"killed":       {`kill -9 $$`, "killed"},
		"killed after": {`echo '{"version": 1, "instance": {"id": "x"}}'; kill -9 $$`, "killed"},
	} {
		for _, exists := range []bool{false, true} {
			if exists && !slow.Tests && name != "hangs" && name != "killed after" {
				continue // all are ErrUnsure, upon which backends/provision looks for the unit
			}
			t.Run(fmt.Sprintf("%s/made %t", name, exists), func(t *testing.T) {
				t.Parallel()
				words := map[string]string{"create": `echo >>"$D/calls"; ` + test.words}
				if exists {
					words["create"] = `"$REAL" create >/dev/null; ` + words["create"]
				} else {
					words["find"] = `echo '{"version": 1, "instances": []}'`
				}
				b, spec, dir := scripted(t, words, func(c *command.Config) {
					if name == "hangs" {
						c.Timeout = 6 * time.Second
					}
				})
				if exists {
					b.Late = patience // a busy machine needs a while for a look
				}
				var l backendtest.Ledger
				d, err := b.Launch(t.Context(), spec, &l)
				if d != nil {
					stopAtEnd(t, d)
				}
				states := l.States()
				switch {
				case exists && err != nil:
					t.Errorf("it exists and is not found: %v", err)
				case !exists && (!errors.Is(err, provision.ErrUnsure) || !strings.Contains(err.Error(), test.want)):
					t.Errorf("got %v, want %q", err, test.want)
				case !exists && !slices.Equal(states, []backends.State{backends.Intended, backends.Sent}):
					t.Errorf("the ledger has %v, and something may exist", states)
				}
				if n := count(t, dir+"/calls"); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
				if text, err := os.ReadFile(dir + "/pid"); name == "hangs" {
					pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
					if p, ok := procfs.Stat(pid); err != nil || ok && p.Alive() {
						t.Errorf("it goes on: %+v, %v", p, err)
					}
				}
			})
		}
	}
}

// A unit that a create without an answer made after all is ended by its name alone.
func TestTerminate_late(t *testing.T) {
	t.Parallel()
	b, spec, _ := scripted(t, map[string]string{"create": `cat >"$D/request"; exit 1`, "late": `exec "$REAL" create <"$D/request"`}, nil)
	var l backendtest.Ledger
	if _, err := b.Launch(t.Context(), spec, &l); !errors.Is(err, provision.ErrUnsure) {
		t.Fatal(err)
	}
	intent := l.Transitions()[0]
	path := intent.At["program"]
	if !filepath.IsAbs(path) {
		t.Fatalf("the ledger has %v", intent.At)
	}
	left := func() int { return len(procfs.With(map[string]string{backends.MarkRun: spec.RunID})) }
	if err := run(t, path, "late"); err != nil || left() == 0 {
		t.Fatalf("%d processes, %v", left(), err)
	}
	again, _ := made(t, path, nil)
	if err := again.Terminate(t.Context(), backends.Ref{Kind: intent.Kind, Pod: intent.Pod, Name: intent.Name, Details: intent.At}); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "its processes end", func() bool { return left() == 0 })
}

// A place that comes later is waited for, and what is said of it then counts.
func TestCreate_waiting(t *testing.T) {
	t.Parallel()
	const waits = ` | sed 's/"running"/"waiting"/; s/"host": "[0-9.]*", //'`
	b, spec, dir := scripted(t, map[string]string{
		"create": `"$REAL" create` + waits,
		"find":   `echo >>"$D/looks"; if [ "$(wc -l <"$D/looks")" -lt 3 ]; then "$REAL" find` + waits + `; else "$REAL" find | sed 's/"state"/"gpu": "l4", "path": "proxy", "state"/'; fi`,
	}, nil)
	d := launch(t, b, spec)
	if n := count(t, dir+"/looks"); n < 3 {
		t.Errorf("%d looks", n)
	}
	polltest.Until(t, "it answers", func() bool { return get(t, d, "server", "/") == nil })
	if h := d.Host("server", 0); h.Path() != "proxy" || d.(backends.Rental).Terms().GPU != "l4" {
		t.Errorf("got %s, %+v", h.Path(), d.(backends.Rental).Terms())
	}
}

// Servers that are started later are told where the earlier ones are; who needs it
// the other way round is refused, unless that is known before.
func TestRoles(t *testing.T) {
	t.Parallel()
	roles := func(t *testing.T, spec *backends.Spec, who, needs string) {
		dir := t.TempDir()
		roles := map[string]backends.Role{}
		for _, name := range []string{"front", "worker"} {
			role := spec.Roles[0]
			role.Name = name
			role.LogPath = func(n int) string { return filepath.Join(dir, fmt.Sprint(name, n, ".log")) }
			if name == who {
				role.Extra = func(a backends.Address) (backends.Extra, error) {
					return backends.Extra{Env: map[string]string{"PEER": a.Peers[needs][0].String()}}, nil
				}
			}
			if name == "worker" {
				role.Replicas, role.Ports = 2, map[string]int{"admin": 0}
			}
			roles[name] = role
		}
		spec.Roles, spec.Entry = []backends.Role{roles["worker"], roles["front"]}, "front"
	}
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		b, spec, _ := scripted(t, nil, nil)
		roles(t, &spec, "front", "worker")
		d := launch(t, b, spec)
		polltest.Until(t, "it answers", func() bool { return get(t, d, "front", "/") == nil })
		told := 0
		for _, p := range procfs.With(map[string]string{backends.MarkRun: spec.RunID}) {
			peer, ok := procfs.ReadEnviron(p.PID).Lookup("PEER")
			if ok {
				told++
			}
			if ok && peer != strings.TrimPrefix(d.Host("worker", 0).URL(), "http://") {
				t.Errorf("the front got %s, and the worker is at %s", peer, d.Host("worker", 0).URL())
			}
		}
		if units := d.(backends.Rental).Terms().Ref.Units; len(units) != 3 || told == 0 {
			t.Errorf("units %v, and %d processes know the worker", units, told)
		}
	})
	t.Run("earlier", func(t *testing.T) {
		t.Parallel()
		b, spec, _ := scripted(t, nil, nil)
		roles(t, &spec, "worker", "front")
		var l backendtest.Ledger
		d, err := b.Launch(t.Context(), spec, &l)
		if err == nil {
			stopAtEnd(t, d)
		}
		if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "made after it") || l.States()[len(l.States())-1] != backends.Gone {
			t.Errorf("got %v, %v", err, l.States())
		}
	})
	t.Run("known before", func(t *testing.T) {
		t.Parallel()
		b, spec, _ := scripted(t, nil, func(c *command.Config) { c.Host = "127.0.0.1" })
		roles(t, &spec, "worker", "front")
		launch(t, b, spec)
	})
}

// An attach that ends too early goes on from where it was; one that says what it
// must not, or that the unit is gone, ends the deployment.
func TestAttach(t *testing.T) {
	t.Parallel()
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		b, spec, dir := scripted(t, map[string]string{
			"attach": `echo >>"$D/calls"; if [ "$(wc -l <"$D/calls")" -lt 3 ]; then cat >/dev/null; echo '{"log": "YWI="}'; printf '{"log": "YW'; exit 1; fi
cat >"$D/last"; echo '{"log": "Y2QK"}'; echo '{"exit": {"code": 137}}'; sleep 600`,
		}, nil)
		d := launch(t, b, spec)
		var exit *backends.Exit
		if err := ended(t, d); !errors.As(err, &exit) || exit.Signal != "killed" || exit.Role != "server" {
			t.Errorf("got %v", err)
		}
		r, err := d.Host("server", 0).Logs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		text, _ := io.ReadAll(r)
		last, _ := os.ReadFile(dir + "/last")
		if string(text) != "ababcd\n" || !strings.Contains(string(last), `"offset":4`) {
			t.Errorf("the log is %q, the last request %s", text, last)
		}
	})
	for name, test := range map[string]struct {
		line, want string
		is         error
	}{
		"garbage": {`echo hello`, "hello", nil},
		"gone":    {`echo '{"error": {"class": "not_found", "message": "no such job"}}'`, "no such job", backends.ErrNotFound},
		"endless": {`yes | tr -d '\n'`, "more than 4 MiB", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, spec, _ := scripted(t, map[string]string{"attach": test.line}, nil)
			err := ended(t, launch(t, b, spec))
			if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A deletion counts when find does not find it any more, whatever delete says.
func TestDelete(t *testing.T) {
	t.Parallel()
	b, spec, dir := scripted(t, map[string]string{
		"delete": `cat >"$D/request"; echo '{"version": 1}'`, "really": `exec "$REAL" delete <"$D/request"`,
	}, nil)
	d := launch(t, b, spec)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("enough"))
	defer cancel()
	if err := d.Stop(ctx); err == nil {
		t.Error("a server that goes on counts as gone")
	}
	if err := run(t, filepath.Join(dir, "program"), "really"); err != nil {
		t.Fatal(err)
	}
}

// A kept unit is told until when, and a later run takes it over if the program says
// what it was started with.
func TestKeep(t *testing.T) {
	t.Parallel()
	b, spec, _ := scripted(t, nil, func(c *command.Config) { c.Bootstrap, c.Heartbeat = true, time.Minute })
	spec.Digest = "the same"
	d := launch(t, b, spec)
	polltest.Until(t, "it answers", func() bool { return get(t, d, "server", "/") == nil })
	polltest.Until(t, "it is kept", func() bool { return d.(backends.Keeper).Keep(t.Context(), time.Now().Add(time.Hour)) == nil })
	ref := d.(backends.Rental).Terms().Ref
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	adopted, err := b.Adopt(t.Context(), spec, ref)
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, adopted)
	if err := get(t, adopted, "server", "/"); err != nil {
		t.Error(err)
	}
	secretive, _, _ := scripted(t, map[string]string{"find": `"$REAL" find | python3 -IS -c 'import json, sys; a = json.load(sys.stdin); [i.pop("env") for i in a["instances"]]; print(json.dumps(a))'`}, nil)
	secretive.Settings.At = b.Settings.At
	if _, err := secretive.Adopt(t.Context(), spec, ref); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("adopted without an environment: %v", err)
	}
}

// Requests and answers are as the schema has them, and nothing but the operation is
// on a command line.
func TestSchema(t *testing.T) {
	t.Parallel()
	const record = `echo "$#" >>"$D/args"; tee "$D/$1.request" | "$REAL" "$1" | tee "$D/$1.answer"`
	b, spec, dir := scripted(t, map[string]string{"create": record, "find": record, "delete": record, "attach": record}, func(c *command.Config) {
		c.Settings, c.Bootstrap, c.Heartbeat = map[string]string{"partition": "a100"}, true, time.Minute
	})
	spec.Roles[0].Ports = map[string]int{"admin": 0}
	d := launch(t, b, spec)
	if err := b.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "it answers", func() bool { return get(t, d, "server", "/") == nil })
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	c := schematest.Compiler(t, schemas.Provider)
	check := func(definition, file string) {
		t.Helper()
		s, err := c.Compile(schematest.Name + "#/definitions/" + definition)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		for line := range bytes.Lines(text) {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if err := s.Validate(v); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	for _, op := range []string{"create", "find", "delete"} {
		check(op, op+".request")
		check("answer", op+".answer")
	}
	check("attach", "attach.request")
	check("line", "attach.answer")
	if text, _ := os.ReadFile(dir + "/args"); strings.Trim(string(text), "1\n") != "" {
		t.Errorf("numbers of arguments: %s", text)
	}
}

// Without sweep's script the program gets the engine's own command line, and the
// files to write.
func TestBare(t *testing.T) {
	t.Parallel()
	b, spec, dir := scripted(t, map[string]string{"create": `tee "$D/request" | "$REAL" create`}, func(c *command.Config) {
		c.SharedDisk = t.TempDir()
	})
	var at string
	spec.Roles[0].Extra = func(a backends.Address) (backends.Extra, error) {
		at = a.Dir
		return backends.Extra{Files: map[string][]byte{"config.yaml": []byte("a: 1\n")}}, nil
	}
	d := launch(t, b, spec)
	polltest.Until(t, "it answers", func() bool { return get(t, d, "server", "/") == nil })
	text, err := os.ReadFile(dir + "/request")
	if err != nil {
		t.Fatal(err)
	}
	var request protocol.Create
	if err := json.Unmarshal(text, &request); err != nil || request.Argv[0] != "python3" {
		t.Errorf("got %q, %v", request.Argv, err)
	}
	if text, err := os.ReadFile(filepath.Join(at, "config.yaml")); string(text) != "a: 1\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

// A fault on the way to the program leaves nothing that is not owed, and a deletion
// that failed can be asked for again.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"command.create:before:err=EIO", "command.create:after:err=EIO", "command.sent:before:err=EIO", "command.delete:before:err=EIO", "command.delete:after:err=EIO"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			fx, err := effect.New(fault)
			if err != nil {
				t.Fatal(err)
			}
			program := example // as anybody starts it
			if fault != "command.create:after:err=EIO" {
				program = quick(t)
			}
			b, err := command.New(fx, command.Config{Program: program, Listen: "127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			b.Late = time.Second
			_, spec, _ := scripted(t, nil, nil)
			var l backendtest.Ledger
			d, err := b.Launch(t.Context(), spec, &l)
			if err == nil {
				if err := d.Stop(t.Context()); err == nil && strings.HasPrefix(fault, "command.delete") {
					t.Error("Stop: no error")
				}
				if err := d.Stop(t.Context()); err != nil {
					t.Errorf("Stop again: %v", err)
				}
			} else if before := strings.Contains(fault, "before"); before == errors.Is(err, provision.ErrUnsure) || before != (l.States()[len(l.States())-1] == backends.Gone) {
				t.Errorf("got %v, %v", err, l.States())
			}
			if all, err := b.List(t.Context(), ""); err != nil || slices.ContainsFunc(all, func(p backends.Listed) bool { return p.RunID == spec.RunID }) {
				t.Errorf("left: %v, %v", all, err)
			}
		})
	}
}
