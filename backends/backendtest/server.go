package backendtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/pythontest"
)

// serverArg makes a server of a test binary; the address follows it.
const serverArg = "backendtest-server"

// Main is the TestMain of a backend that starts local processes: the test
// binary is also the guard and the server, and if there is a Maker, what [Killed]
// kills.
func Main(m *testing.M, makers ...Maker) {
	guard.Main()
	if text := os.Getenv(launchVar); text != "" {
		for _, make := range makers {
			fmt.Fprintln(os.Stderr, launchKilled(text, make))
		}
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == serverArg {
		serve(os.Args[2])
	}
	pythontest.First()
	polltest.Parallel(8)
	// The race detector has every process wait a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

// serve answers everything with the environment variable that it names.
func serve(address string) {
	fmt.Println("listening on", address)
	server := http.Server{
		Addr:              address,
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, os.Getenv(r.URL.Query().Get("env")))
		}),
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// Spec returns a deployment of one role "server" that is this test binary, started
// by [Main]. Its log is in a folder of the test.
func Spec(t *testing.T) backends.Spec {
	t.Helper()
	spec, err := SpecIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// SpecIn is [Spec] with the log in a folder.
func SpecIn(dir string) (backends.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return backends.Spec{}, err
	}
	return backends.Spec{
		Owner: "owner", RunID: "run", Pod: "d1-l01", Grace: 5 * time.Second,
		Roles: []backends.Role{{
			Name: "server", Replicas: 1,
			LogPath: func(n int) string { return filepath.Join(dir, "server-"+strconv.Itoa(n)+".log") },
			Argv: func(a backends.Address) ([]string, error) {
				return []string{self, serverArg, a.String()}, nil
			},
		}},
	}, nil
}
