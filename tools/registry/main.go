// Command registry is an OCI registry in memory, which the tests of e2e/kube pull images
// from. It may want a password, and answers for images below limited/ as one whose limit of
// pulls is used up.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	password := flag.String("password", "", "password of the user sweep, who alone may do anything; \"\" lets everybody")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *password); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done, at an address that it prints.
func run(ctx context.Context, password string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := &http.Server{Handler: guarded(images, password), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guarded returns a registry for those who have the password.
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes
func guarded(images http.Handler, password string) http.Handler {
	refuse := func(w http.ResponseWriter, status int, code, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		known := user == "sweep" && subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 1
		switch {
		case password != "" && !known:
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		case strings.HasPrefix(r.URL.Path, "/v2/limited/"):
			refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "You have reached your pull rate limit.")
		default:
			images.ServeHTTP(w, r)
		}
	})
}
