package docker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/backends/docker"
)

// A fake is a daemon of a few lines, for what a real one does only on a bad
// day. Every container that it starts has no command.
type fake struct {
	url string
	mux *http.ServeMux

	// Behaviour; nil is well behaved.
	onCreate func(w http.ResponseWriter, name string, make func()) (answered bool)
	pull     string // body of a pull's 200; the image is there afterwards if it says so
	noImage  bool
	starts   bool // a container starts, and is gone a moment later
	// entrypoint is the image's.
	entrypoint []string

	mu         sync.Mutex
	containers map[string]map[string]any // by name: what inspect answers
	creates    []map[string]any          // requests
	removed    []string
	groups     map[string]bool // networks and volumes: "kind name"
	auth       string          // of the last pull
}

func newFake(t *testing.T) *fake {
	f := &fake{containers: map[string]map[string]any{}, groups: map[string]bool{}}
	mux := http.NewServeMux()
	f.mux = mux
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("GET /v1.41/images/{name...}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.noImage {
			fail(w, http.StatusNotFound, "No such image")
			return
		}
		reply(w, map[string]any{
			"Id": "sha256:" + strings.Repeat("1", 64), "RepoDigests": []string{"team/engine@sha256:" + strings.Repeat("d", 64)},
			"Config": map[string]any{"Entrypoint": f.entrypoint},
		})
	})
	f.group("networks", "networks/create")
	f.group("volumes", "volumes/create")
	mux.HandleFunc("POST /v1.41/images/create", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.auth = r.Header.Get("X-Registry-Auth")
		fmt.Fprint(w, f.pull)
		f.noImage = f.noImage && strings.Contains(f.pull, "error")
	})
	mux.HandleFunc("POST /v1.41/containers/create", f.create)
	mux.HandleFunc("GET /v1.41/containers/json", func(w http.ResponseWriter, r *http.Request) { reply(w, f.list(r.URL.Query().Get("filters"))) })
	mux.HandleFunc("GET /v1.41/containers/{id}/json", func(w http.ResponseWriter, r *http.Request) {
		if c := f.find(r.PathValue("id")); c != nil {
			reply(w, c)
			return
		}
		fail(w, http.StatusNotFound, "No such container")
	})
	mux.HandleFunc("POST /v1.41/containers/{id}/start", func(w http.ResponseWriter, _ *http.Request) {
		if f.starts {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fail(w, http.StatusBadRequest, `exec: "engine": executable file not found in $PATH`)
	})
	mux.HandleFunc("POST /v1.41/containers/{id}/stop", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	mux.HandleFunc("DELETE /v1.41/containers/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, c := range f.containers {
			if c["Id"] == r.PathValue("id") {
				if r.URL.Query().Get("v") != "1" {
					t.Errorf("%s is removed without its volumes: %s", name, r.URL)
				}
				delete(f.containers, name)
				f.removed = append(f.removed, name)
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		fail(w, http.StatusNotFound, "No such container")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	f.url = "tcp://" + strings.TrimPrefix(s.URL, "http://")
	return f
}

// group has the daemon make and remove networks or volumes.
func (f *fake) group(kind, create string) {
	f.mux.HandleFunc("POST /v1.41/"+create, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.groups[kind+" "+body.Name] = true
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"Id": body.Name, "Name": body.Name})
	})
	f.mux.HandleFunc("DELETE /v1.41/"+kind+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if name := kind + " " + r.PathValue("name"); f.groups[name] {
			delete(f.groups, name)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fail(w, http.StatusNotFound, "No such "+kind)
	})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	name := r.URL.Query().Get("name")
	id := strings.Repeat("c", 60) + fmt.Sprintf("%04d", len(f.creates))
	f.mu.Lock()
	f.creates = append(f.creates, body)
	f.mu.Unlock()
	make := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.containers[name] = map[string]any{
			"Id": id, "Name": "/" + name, "Created": "2026-01-02T03:04:05Z",
			"State":  map[string]any{"Status": "created"},
			"Config": map[string]any{"Labels": body["Labels"], "Env": body["Env"]},
		}
	}
	if f.onCreate != nil && f.onCreate(w, name, make) {
		return
	}
	make()
	w.WriteHeader(http.StatusCreated)
	reply(w, map[string]any{"Id": id})
}

func (f *fake) find(id string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, c := range f.containers {
		if name == id || c["Id"] == id {
			return c
		}
	}
	return nil
}

// list understands the filters label and, by not having any that runs, status.
func (f *fake) list(filters string) []map[string]any {
	var want struct{ Label map[string]bool }
	_ = json.Unmarshal([]byte(filters), &want)
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []map[string]any{}
	for _, c := range f.containers {
		labels, _ := c["Config"].(map[string]any)["Labels"].(map[string]any)
		all := true
		for l := range want.Label {
			key, value, valued := strings.Cut(l, "=")
			got, ok := labels[key]
			all = all && ok && (!valued || got == value)
		}
		if all {
			out = append(out, map[string]any{"Id": c["Id"], "Names": []any{c["Name"]}, "Labels": labels, "State": "created"})
		}
	}
	return out
}

func (f *fake) backend(t *testing.T, change func(*docker.Config)) *docker.Backend {
	t.Helper()
	c := docker.DefaultConfig()
	c.Host = f.url
	if change != nil {
		change(&c)
	}
	b, err := docker.New(nil, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}
