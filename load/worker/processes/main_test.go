package processes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"sweep.dev/sweep/load/worker"
)

// clientEnv makes this test a client in place of the tests.
const clientEnv = "SWEEP_TEST_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(clientEnv) != "" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout, "127.0.0.1:0", ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if args := os.Getenv(coordinatorEnv); args != "" {
		coordinate(args)
		return
	}
	goleak.VerifyTestMain(m)
}

// command returns this test as a client.
func command() *exec.Cmd {
	return &exec.Cmd{Path: os.Args[0], Args: os.Args[:1], Env: []string{clientEnv + "=1"}}
}
