package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	backendlist "sweep.dev/sweep/backends/all"
	collectorlist "sweep.dev/sweep/collectors/all"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	sinklist "sweep.dev/sweep/sinks/all"
)

var (
	// credential is what a key of a configuration is called that holds one.
	credential = regexp.MustCompile(`(?i)(^|_)(key|keys|token|password|passphrase|passwd|secret|secrets|auth|authorization|credentials?|cookie|bearer)$`)
	// carrier is what holds credentials beside other things, by name.
	carrier = regexp.MustCompile(`(?i)(^|_)(env|headers?|environment)$`)

	aSecret = reflect.TypeFor[secret.String]()
)

// notSecret are keys that only sound like a credential, and why.
var notSecret = map[string]string{
	"backend ssh.key": "the path of a key file",
	"backend kubernetes.deploy.tolerations.key": "the name of a taint",
	"backend kubernetes.deploy.secrets":         "names of Secrets of the cluster and of their keys",
	"backend kubernetes.deploy.pull_secrets":    "names of Secrets of the cluster",
	"plan.load.request_headers":                 "a plan with a credential in them is refused",
}

// TestConfigs_secrets walks through everything that a plan can say: what holds
// a credential is a secret.String, which no encoder and no format verb prints.
func TestConfigs_secrets(t *testing.T) {
	t.Parallel()
	roots := map[string]any{"plan": plan.Plan{}}
	for _, f := range backendlist.Factories(nil) {
		roots["backend "+f.Kind] = f.Config
	}
	for _, f := range collectorlist.Collectors() {
		roots["collector "+f.Kind] = f.Config
	}
	for _, f := range sinklist.Factories() {
		roots["sink "+f.Kind] = f.Config
	}
	found := 0
	for name, config := range roots {
		if config == nil {
			continue
		}
		exposed(t, name, reflect.TypeOf(config), map[reflect.Type]bool{}, &found)
	}
	if found < 6 {
		t.Errorf("only %d places for credentials were found", found)
	}
	// The test finds what it looks for.
	type bad struct {
		Plain  string            `yaml:"api_key"`
		Listed []string          `yaml:"tokens"`
		Env    map[string]string `yaml:"env"`
		Nested []struct {
			Password *string `yaml:"password,omitempty"`
		} `yaml:"registries"`
		Fine string `yaml:"max_tokens"`
	}
	if faults := exposures("bad", reflect.TypeFor[bad](), map[reflect.Type]bool{}, new(int)); len(faults) != 3 {
		t.Errorf("found %q", faults)
	}
}

func exposed(t *testing.T, where string, typ reflect.Type, seen map[reflect.Type]bool, found *int) {
	t.Helper()
	for _, fault := range exposures(where, typ, seen, found) {
		t.Error(fault)
	}
}

// exposures lists the fields below typ that hold a credential in a type that
// shows it.
func exposures(where string, typ reflect.Type, seen map[reflect.Type]bool, found *int) (faults []string) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return exposures(where, typ.Elem(), seen, found)
	case reflect.Struct:
	default:
		return nil
	}
	if typ == aSecret || seen[typ] || !strings.HasPrefix(typ.PkgPath(), "sweep.dev/sweep") && typ.Name() != "" {
		return nil
	}
	seen[typ] = true
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		path := where + "." + name
		holds := credential.MatchString(name) || carrier.MatchString(name)
		if holds && notSecret[path] == "" && isText(field.Type) {
			if leaf(field.Type) == aSecret {
				*found++
			} else {
				faults = append(faults, fmt.Sprintf("%s is a %s: want a secret.String", path, field.Type))
			}
			continue
		}
		faults = append(faults, exposures(path, field.Type, seen, found)...)
	}
	return faults
}

// isText reports whether a type holds texts alone.
func isText(typ reflect.Type) bool {
	typ = leaf(typ)
	return typ == aSecret || typ.Kind() == reflect.String
}

func leaf(typ reflect.Type) reflect.Type {
	for {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			typ = typ.Elem()
		default:
			return typ
		}
	}
}

// TestRedirect_carriesNoKey has a server redirect every client there is, one
// after another, to a thief at another port of the same machine: that is what a
// check of the host's name alone would let through.
func TestRedirect_carriesNoKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		redirect func(r *http.Request, body string) bool
		probe    string // in what probe says; "" is not asked
		code     int
	}{
		{"everything", func(*http.Request, string) bool { return true }, "/v1/models answered 307", exitIncomplete},
		{"readiness", func(r *http.Request, body string) bool { return body != "" && r.Header.Get("X-Request-Id") == "" }, "completions answered 307", exitIncomplete},
		{"the load", func(r *http.Request, _ string) bool { return r.Header.Get("X-Request-Id") != "" }, "", exitIncomplete},
		{"metrics", func(r *http.Request, _ string) bool { return r.URL.Path == "/metrics" }, "metrics: none: GET /metrics answered 307", exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				t.Errorf("the redirect was followed to %s with %v", r.URL, r.Header)
			}))
			defer thief.Close()
			honest := &indiscreet{every: 1 << 40}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Header.Get("Authorization") != "Bearer "+canaryKey:
					t.Errorf("%s came without the key", r.URL)
				case c.redirect(r, string(body)):
					http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
					return
				case r.URL.Path == "/v1/models":
					fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
					return
				case r.URL.Path == "/health":
					return
				case r.URL.Path == "/metrics":
					fmt.Fprint(w, "vllm:num_requests_running 0\n")
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				honest.ServeHTTP(w, r)
			}))
			defer s.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "endpoint.yaml"), fmt.Sprintf(`
version: 1
name: redirect
model: m
matrix: {engine: vllm, gpu: x, concurrency: 1, max_tokens: 2}
backend: {kind: endpoint, url: %q, key: "${SWEEP_API_KEY}"}
load: {requests: 4, warmup: {requests: 0}, output: natural, prompts: {kind: synthetic, input_tokens: 5}}
timeouts: {ready: 2s}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`, s.URL))
			got := sweep(t, dir, canaryNames, "run", "-o", "out", "endpoint.yaml")
			if got.code != c.code {
				t.Errorf("exit %d, want %d\n%s\n%s", got.code, c.code, got.stdout, got.stderr)
			}
			got = sweep(t, dir, canaryNames, "probe", "--key-env", "SWEEP_API_KEY", s.URL)
			if !strings.Contains(got.stdout+got.stderr, c.probe) {
				t.Errorf("probe does not say %q\n%s\n%s", c.probe, got.stdout, got.stderr)
			}
		})
	}
}
