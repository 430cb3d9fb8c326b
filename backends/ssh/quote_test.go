package ssh

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/slow"
)

// shells returns those of this machine that a host may have as /bin/sh.
func shells(t testing.TB) [][]string {
	t.Helper()
	all := [][]string{{"/bin/sh"}}
	for _, s := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}, {"ksh"}, {"zsh", "--emulate", "sh"}} {
		if _, err := exec.LookPath(s[0]); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// told returns what a real shell makes of words: each followed by a NUL.
func told(t testing.TB, shell []string, list []string) string {
	t.Helper()
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Stdin = strings.NewReader("say() { for a; do printf '%s\\0' \"$a\"; done; }\nsay " + words(list...) + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", shell[0], err)
	}
	return string(out)
}

func TestQuote(t *testing.T) {
	var every []byte
	for b := 1; b < 256; b++ {
		every = append(every, byte(b))
	}
	list := []string{
		"", "a", " ", "'", "''", `\`, `\'`, `"`, "$HOME", "`id`", "$(id)", "a b\tc\nd", "-n", "--", "*", "~", "#", "!", "&;|<>()",
		"\r\n", "ü", "\xff\xfe", "\x81\x82\x88", string(every), strings.Repeat("x'y\n", 10_000), // longer than a pipe
	}
	for _, shell := range shells(t) {
		if got, want := told(t, shell, list), strings.Join(list, "\x00")+"\x00"; got != want {
			t.Errorf("%s changes the words", shell[0])
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add([]byte("a\x00b c\x00'"))
	f.Add([]byte("\x81\x00\\\x00$("))
	f.Fuzz(func(t *testing.T, b []byte) {
		list := strings.Split(string(b), "\x00")
		for _, shell := range shells(t) {
			if got := told(t, shell, list); got != strings.Join(list, "\x00")+"\x00" {
				t.Errorf("%s: %q became %q", shell[0], list, got)
			}
		}
	})
}

func TestExports(t *testing.T) {
	got, err := exports(map[string]string{"B": "x'y", "A": ""})
	if err != nil || got != "export A=''\nexport B='x'\\''y'\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []map[string]string{{"A B": ""}, {"": ""}, {"1": ""}, {"A;id": ""}, {"A": "x\x00y"}} {
		if _, err := exports(bad); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFolder(t *testing.T) {
	for path, want := range map[string]string{
		"~": `"$HOME"`, "~/a b": `"$HOME"'/a b'`, "/tmp/x": "'/tmp/x'", "~other/x": "'~other/x'",
	} {
		if got := folder(path); got != want {
			t.Errorf("folder(%q) = %s, want %s", path, got, want)
		}
	}
}

// A script that arrives in part does nothing: the connection may end anywhere.
func TestLibrary_cutOff(t *testing.T) {
	const call = "sw_say done\n"
	whole := library + call
	step := 9
	if slow.Tests {
		step = 1
	}
	for cut := len(library) - 200; cut < len(whole)-2; cut += step {
		cmd := exec.Command("/bin/sh")
		cmd.Stdin = strings.NewReader(whole[:cut])
		if out, _ := cmd.Output(); bytes.Contains(out, []byte("done")) {
			t.Fatalf("the first %d of %d bytes have done something", cut, len(whole))
		}
	}
	for _, shell := range shells(t) {
		cmd := exec.Command(shell[0], shell[1:]...)
		cmd.Stdin = strings.NewReader(whole)
		if out, err := cmd.Output(); err != nil || string(out) != greeting+"done\n" {
			t.Errorf("%s: %q, %v", shell[0], out, err)
		}
	}
}

// A port that somebody has is named.
func TestLibrary_free(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, shell := range shells(t) {
		for ports, want := range map[string]string{"": "", "1 2": "", "1 " + taken: "port " + taken + " is in use\n", taken + " 2": "port " + taken + " is in use\n"} {
			cmd := exec.Command(shell[0], shell[1:]...)
			cmd.Stdin = strings.NewReader(library + "sw_free " + ports + "\n")
			var said strings.Builder
			cmd.Stderr = &said
			status := 0
			if want != "" {
				status = 91
			}
			if err := cmd.Run(); cmd.ProcessState.ExitCode() != status || said.String() != want {
				t.Errorf("%s, %q: %v, %q", shell[0], ports, err, said.String())
			}
		}
	}
}
