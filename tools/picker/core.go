package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// coreAt is where sweep's simulated picker answers, inside the pod alone.
const coreAt = "127.0.0.1:9091"

// A core is sweep's simulated picker, a process of its own, for the pods that run now.
type core struct {
	api     *cluster
	options options
	client  *http.Client
}

// follow looks at the pods of the pool every second, and starts the simulated picker again
// when others run.
func (c *core) follow(ctx context.Context) error {
	var now []pod
	var running *exec.Cmd
	defer func() { end(running) }()
	for {
		found, err := c.api.pods(ctx, c.options.selector)
		if err != nil {
			fmt.Fprintln(os.Stderr, "picker:", err)
		} else if !slices.Equal(found, now) {
			end(running)
			now, running = found, nil
			if args := c.args(found); args != nil {
				running = exec.CommandContext(ctx, "/sweep", args...)
				running.Stdout, running.Stderr = os.Stdout, os.Stderr
				running.Cancel = func() error { return running.Process.Signal(syscall.SIGTERM) }
				if err := running.Start(); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func end(cmd *exec.Cmd) {
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}

// args returns those of the simulated picker, or nil while no pod decodes.
func (c *core) args(pods []pod) []string {
	urls := map[string][]string{}
	for _, p := range pods {
		urls[p.role] = append(urls[p.role], fmt.Sprintf("http://%s:%d#%s", p.ip, c.options.target, p.name))
	}
	if urls["decode"] == nil {
		return nil
	}
	host, port, _ := strings.Cut(coreAt, ":")
	args := []string{"sim", "--engine", "llm-d", "--role", "epp", "--host", host, "--port", port, "-v", strconv.Itoa(c.options.verbose), "--picker", c.options.picker, "--worker-urls", strings.Join(urls["decode"], ",")}
	if urls["prefill"] != nil {
		args = append(args, "--prefill-urls", strings.Join(urls["prefill"], ","))
	}
	return args
}

// pages serves /metrics of the simulated picker to those who may read it.
func (c *core) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if c.options.metricsAuth {
			if status := c.api.mayRead(r.Context(), r.Header.Get("Authorization")); status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+coreAt+"/metrics", http.NoBody)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		resp, err := c.client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
	return mux
}

// A pick is what the simulated picker says to one request: sim/fleet's type of that name.
type pick struct {
	ID          uint64
	Destination string
	Prefiller   string
}

// pick asks where a request goes. If it goes nowhere, refused is the status for the client.
func (c *core) pick(ctx context.Context, path, id string, body []byte) (p pick, refused int, why string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+coreAt+"/sim/pick", bytes.NewReader(body))
	if err != nil {
		return p, http.StatusInternalServerError, err.Error()
	}
	req.Header.Set("X-Original-Path", path)
	req.Header.Set("X-Request-Id", id)
	resp, err := c.client.Do(req)
	if err != nil {
		return p, http.StatusServiceUnavailable, "no ready endpoints available"
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		return p, resp.StatusCode, strings.TrimSpace(string(answer))
	}
	if err == nil {
		err = json.Unmarshal(answer, &p)
	}
	if err != nil {
		return p, http.StatusInternalServerError, err.Error()
	}
	return p, 0, ""
}

// tell reports the end of a request.
func (c *core) tell(ctx context.Context, r *report) {
	text, err := json.Marshal(r)
	if err != nil {
		return // a report always marshals
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+coreAt+"/sim/report", bytes.NewReader(text))
	if err != nil {
		return // nor is the address ever wrong
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, "picker:", err)
		return
	}
	resp.Body.Close()
}
