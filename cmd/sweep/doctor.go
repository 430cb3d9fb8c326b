package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
)

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "checks this machine and the providers for what a run needs",
		Description: `Every check says what it found, and what to do if that is not enough.
Each provider whose credentials are in the environment is asked whether they
work, for the account's balance and what runs there, and for pods that were
left behind.

  $ sweep doctor` + exitHelp(exitOK, exitInternal, exitUsage, exitProvider),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print the errors of providers in full"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		Commands:     []*cli.Command{a.calibrateCommand()},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			return a.doctor(ctx, c.Bool("json"), c.Bool("verbose"))
		},
	}
}

// A symptom is one thing that the doctor looked at.
type symptom struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn or fail
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`

	refused bool // it fails because a provider does not take the credentials
}

const (
	wantFiles = 4096
	wantDisk  = 1 << 30
)

func (a *app) doctor(ctx context.Context, asJSON, verbose bool) error {
	checks := []symptom{cpus(), openFiles(), disk("."), durable("."), nvidia(ctx), a.faults()}
	rented, err := a.examined(ctx)
	if err != nil {
		return err
	}
	checks = append(checks, rented...)
	if asJSON {
		enc := json.NewEncoder(plaintext.JSON(a.out))
		enc.SetIndent("", "  ")
		if err := a.beside(enc.Encode(checks)); err != nil {
			return err
		}
	} else if err := a.beside(a.diagnosis(checks, verbose)); err != nil {
		return err
	}
	for _, s := range checks {
		if s.State != "fail" {
			continue
		}
		code := exitInternal
		if s.refused {
			code = exitProvider
		}
		return &statusError{code, fmt.Errorf("%s: %s", s.Check, s.Found)}
	}
	if !asJSON {
		a.next("sweep init")
	}
	return nil
}

// diagnosis prints what the doctor found: how much is wrong, and the worst first.
func (a *app) diagnosis(checks []symptom, verbose bool) error {
	states := []string{"fail", "warn", "ok"}
	count := map[string]int{}
	for _, s := range checks {
		count[s.State]++
	}
	var parts []string
	for _, state := range states {
		if n := count[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	page := a.page()
	page.Parts(humanize.Plural(len(checks), "check") + ": " + strings.Join(parts, ", "))
	var rows [][]string
	for _, state := range states {
		for _, s := range checks {
			if s.State != state {
				continue
			}
			found := plaintext.Line(s.Found)
			if short, _, cut := strings.Cut(found, "; "); cut && !verbose {
				found = short
			}
			rows = append(rows, []string{s.State, s.Check, found})
			if s.Do != "" {
				rows = append(rows, []string{"", "", "-> " + s.Do})
			}
		}
	}
	page.Rows(rows...)
	return page.Err()
}

func cpus() symptom {
	s := symptom{Check: "cpus", State: "ok", Found: fmt.Sprintf("%d that this process may use", runtime.GOMAXPROCS(0))}
	if runtime.GOMAXPROCS(0) < 4 {
		s.State = "warn"
		s.Do = "a server on this machine shares them with the client: pin it (engines.<name>.cpus) or expect INVALID cells (client_cpu)"
	}
	return s
}

func openFiles() symptom {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return symptom{Check: "open files", State: "warn", Found: err.Error()}
	}
	s := symptom{Check: "open files", State: "ok", Found: fmt.Sprintf("limit %d", lim.Cur)}
	if lim.Cur < wantFiles {
		s.State, s.Do = "warn", "each request in flight needs one: ulimit -n 65536"
	}
	return s
}

func disk(dir string) symptom {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return symptom{Check: "disk", State: "warn", Found: err.Error()}
	}
	free := st.Bavail * uint64(st.Bsize)
	s := symptom{Check: "disk", State: "ok", Found: fmt.Sprintf("%.1f GB free here", float64(free)/1e9)}
	if free < wantDisk {
		s.State, s.Do = "fail", "free some space: raw requests need about 2 bytes a token"
	}
	return s
}

// durable tries what a commit needs: create, fsync, rename, fsync the folder.
func durable(dir string) symptom {
	fx, err := effect.New("")
	if err == nil {
		path := filepath.Join(dir, fmt.Sprintf(".sweep-doctor-%d", os.Getpid()))
		if err = fx.WriteFileAtomic(effect.DeriveCreate, path, func(io.Writer) error { return nil }); err == nil {
			err = fx.Remove(effect.DeriveCreate, path)
		}
	}
	if err != nil {
		return symptom{Check: "durability", State: "fail", Found: err.Error(), Do: "run in a folder that can be written and synced"}
	}
	return symptom{Check: "durability", State: "ok", Found: "create, fsync, rename and fsync of the folder work here"}
}

func nvidia(ctx context.Context) symptom {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return symptom{
			Check: "nvidia-smi", State: "warn", Found: "not on this machine",
			Do: "GPU columns of servers on this machine will be null",
		}
	}
	out, err := exec.CommandContext(ctx, path, "-L").Output() //nolint:forbidigo // a look, not a side effect
	if err != nil {
		return symptom{Check: "nvidia-smi", State: "warn", Found: err.Error(), Do: "run nvidia-smi by hand: the driver may not be loaded"}
	}
	return symptom{Check: "nvidia-smi", State: "ok", Found: string(out)}
}

func (a *app) faults() symptom {
	if spec, _ := a.env("SWEEP_FAULT"); spec != "" {
		return symptom{Check: "faults", State: "warn", Found: "SWEEP_FAULT=" + spec, Do: "unset it: runs will crash on purpose"}
	}
	return symptom{Check: "faults", State: "ok", Found: "none are injected"}
}
