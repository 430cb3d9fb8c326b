package main

import (
	"context"
	"os/exec"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/load/worker"
)

// workerName is the command that runs one of several clients.
const workerName = "worker"

// tokenVar has the token of a client, where standard input does not bring it.
const tokenVar = "SWEEP_WORKER_TOKEN"

// workerVar marks a client that was started here, so that people find it.
const workerVar = "SWEEP_WORKER"

func (a *app) workerCommand() *cli.Command {
	return &cli.Command{
		Name:  workerName,
		Usage: "is one of several clients that send a load together",
		Description: `sweep run starts it for a plan with load.clients. It prints the URL of its
control port and obeys the first coordinator that has its token: the first line
of standard input, whose end is then its own, or ` + tokenVar + `. With the
variable it ends if it hears nothing for a minute.` + exitHelp(exitOK, exitInternal, exitUsage),
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "listen on `HOST:PORT`", Value: "127.0.0.1:0"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			token, _ := a.env(tokenVar)
			ctx, _, stop := signals(ctx, func(string, ...any) {})
			defer stop()
			return worker.Main(ctx, a.in, a.out, c.String("listen"), token)
		},
	}
}

// clientProcess returns the command of a client on this machine. Of sweep's environment it gets
// what says where things are, and what the runtime of Go is to do.
func (a *app) clientProcess() *exec.Cmd {
	cmd := &exec.Cmd{Path: a.exe, Args: []string{a.exe, workerName}, Env: []string{workerVar + "=1"}}
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR"} {
		if value, ok := a.env(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}
