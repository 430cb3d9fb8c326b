// Command runpod-emulator serves RunPod's REST API on this machine, with pods that
// are processes. It is for rehearsals and tests, and no part of sweep.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/sim"
)

func main() {
	guard.Main()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	main := runpodtest.Main
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "sim" { // as a pod starts it
		main, args = sim.Main, args[1:]
	}
	code := main(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
