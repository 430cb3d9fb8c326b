//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/ptytest"
)

// TestShells presses the tab key in bash, zsh and fish, without any package beside
// them: commands, flags, plans and values of flags.
func TestShells(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "plans"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plans/chat.yaml", "plans/notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Dir(program)
	for name, shell := range map[string]struct{ args, setup string }{
		"bash": {"--noprofile --norc -i", "source <(sweep completion bash)\n"},
		"zsh":  {"-f -i", "autoload -Uz compinit && compinit -u -D; source <(sweep completion zsh)\n"},
		"fish": {"--no-config -i", "sweep completion fish | source\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatalf("%v: task e2e:shells installs it", err)
			}
			cmd := exec.CommandContext(t.Context(), path, strings.Fields(shell.args)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TERM=vt100", "PS1=$ ", "HOME="+dir, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			term := ptytest.Start(t, cmd, 120, 24)
			// The shell says itself that it has read the setup.
			term.Type(shell.setup)
			term.Type("echo is-\"ready\"\n")
			at := term.Await(0, "is-ready")
			for _, c := range []struct{ typed, want string }{
				{"sweep po", "sweep pods"},
				{"sweep pods ter", "sweep pods terminate"},
				{"sweep run --onl", "sweep run --only"},
				{"sweep run plans/c", "sweep run plans/chat.yaml"},
				{"sweep run --client f", "sweep run --client fast"},
				{"sweep run --client=f", "sweep run --client=fast"},
				{"sweep run --set load.requests_p", "sweep run --set load.requests_per_worker="},
				{"sweep cells --status ok,inv", "sweep cells --status ok,invalid"},
				{"sweep help expr", "sweep help expressions"},
				{"sweep probe metrics --engine vl", "sweep probe metrics --engine vllm"},
				{"sweep list columns p95_probe_t", "sweep list columns p95_probe_ttft_ms"},
			} {
				// The keys are read in their order: the line is completed, and then said.
				term.Type(c.typed + "\t\x01echo said: \r")
				at = term.Await(at, "said: "+c.want)
			}
		})
	}
}
