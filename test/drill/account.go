package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
)

// foreigners is how many pods of other people are in an account.
const foreigners = 12

// An account is an emulator of its own behind a door that remembers which
// credentials were given to pods and how many requests came.
type account struct {
	*runpodtest.Emulator
	url     string
	foreign []string

	server *http.Server
	served chan struct{}

	mu       sync.Mutex // guards what follows
	requests int
	busy     int       // requests that are being answered
	quiet    time.Time // since when there are none
	bodies   [][]byte  // of creates, without their env
	given    []string  // credentials in the env of pods
	onCount  func(n int)
}

// newAccount opens an account. onCount is called with the number of each
// request, before it is answered.
func newAccount(ctx context.Context, o runpodtest.Options, onCount func(int)) (*account, error) {
	e, err := runpodtest.New(o)
	if err != nil {
		return nil, err
	}
	a := &account{Emulator: e, foreign: e.Foreign(foreigners), onCount: onCount, served: make(chan struct{})}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	a.url = "http://" + l.Addr().String()
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(a.served)
		_ = a.server.Serve(l) // until Close
	}()
	return a, nil
}

// Close ends the account and all its pods.
func (a *account) Close() error {
	err := a.Emulator.Close()
	err = errors.Join(err, a.server.Close())
	<-a.served
	return err
}

// ServeHTTP passes every request on.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests++
	a.busy++
	n, tell := a.requests, a.onCount
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy--
		a.quiet = time.Now()
	}()
	if tell != nil {
		tell(n)
	}
	if r.Method == http.MethodPost && r.URL.Path == "/v2/pods" {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		a.remember(b)
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	a.Emulator.ServeHTTP(w, r)
}

// settled waits until everything that a dead process has sent is answered.
func (a *account) settled() {
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		a.mu.Lock()
		done := a.busy == 0 && time.Since(a.quiet) > 200*time.Millisecond
		a.mu.Unlock()
		if done {
			return
		}
	}
}

var credential = regexp.MustCompile(`(?i)key|token|secret|password`)

// remember takes the credentials out of a create's body.
func (a *account) remember(body []byte) {
	var q map[string]any
	if json.Unmarshal(body, &q) != nil {
		return // which the emulator says
	}
	env, _ := q["env"].(map[string]any)
	delete(q, "env")
	rest, err := json.Marshal(q)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = append(a.bodies, rest)
	for name, value := range env {
		if text, _ := value.(string); credential.MatchString(name) && len(text) >= 12 {
			a.given = append(a.given, text)
		}
	}
}

// credentials returns what may stand nowhere.
func (a *account) credentials() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{a.Key()}, a.given...)
}

// leaked finds credentials in what else a create says of its pod: its command
// line above all.
func (a *account) leaked() error {
	secrets := a.credentials()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.bodies {
		if found := contains(b, secrets); found != "" {
			return fmt.Errorf("a create has the credential %s outside of env", found)
		}
	}
	return nil
}

// contains returns the first of the secrets in b, cut, or "".
func contains(b []byte, secrets []string) string {
	for _, s := range secrets {
		if bytes.Contains(b, []byte(s)) {
			return s[:4] + "..."
		}
	}
	return ""
}

// untouched says what became of other people's pods.
func (a *account) untouched(ctx context.Context) error {
	a.SetFaults()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL()+"/v2/pods", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+a.Key())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var list struct {
		Pods []struct {
			ID string `json:"id"`
		} `json:"pods"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return fmt.Errorf("list of the account: %w", err)
	}
	var missing []string
	for _, id := range a.foreign {
		if !slices.ContainsFunc(list.Pods, func(p struct {
			ID string `json:"id"`
		},
		) bool {
			return p.ID == id
		}) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("pods of other people are gone: %s", strings.Join(missing, ", "))
	}
	return nil
}
