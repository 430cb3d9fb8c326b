package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A card is what a worker says of itself at /sim/card.
type card struct {
	ID         uint64   `json:"id"`
	Mode       string   `json:"mode"`
	Models     []string `json:"models"`
	Context    int      `json:"context_length"`
	BlockSize  int      `json:"block_size"`
	Blocks     int      `json:"total_kv_blocks"`
	MaxSeqs    int      `json:"max_num_seqs"`
	MaxBatched int      `json:"max_num_batched_tokens"`
}

// Modes of a worker.
const (
	aggregated = "aggregated"
	prefill    = "prefill"
	decode     = "decode"
)

// A worker is one that the registry has found.
type worker struct {
	card
	url string

	mu      sync.Mutex
	pending int                 // prompt tokens that are not computed yet
	blocks  int                 // of sequences that are under way
	running int                 // requests
	cached  map[uint64]struct{} // hashes of blocks that it was sent before
}

// A registry knows the workers: those of a list of URLs, and those that have a
// file with their URL in a directory. It asks each for its card until it
// answers, and again and again whether it is still there.
type registry struct {
	urls   []string
	dir    string // "" if there is none
	least  int    // no worker counts before there are so many
	client *http.Client

	// Called from one goroutine.
	joined, left func(*worker)

	mu      sync.Mutex
	workers []*worker // in the order of their URLs
	missed  map[string]int
	early   []*worker // of which there are less than least
}

// How often a registry looks, and after how many silent looks a worker is gone.
const (
	lookEvery = 50 * time.Millisecond
	silent    = 3
)

// run looks until ctx is done.
func (r *registry) run(ctx context.Context) {
	r.missed = map[string]int{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		r.look(ctx, n)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// registered returns the files of workers: <id>.json with {"url": ...}.
func registered(dir string) (urls []string) {
	if dir == "" {
		return nil
	}
	files, _ := fs.Glob(os.DirFS(dir), "*.json") // the only error is a bad pattern
	for _, file := range files {
		var entry struct{ URL string }
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil && json.Unmarshal(text, &entry) == nil && entry.URL != "" {
			urls = append(urls, entry.URL)
		}
	}
	return urls
}

func (r *registry) look(ctx context.Context, n int) {
	urls := append(slices.Clone(r.urls), registered(r.dir)...)
	known := map[string]*worker{}
	for _, w := range r.early {
		known[w.url] = w
	}
	for _, w := range r.all() {
		known[w.url] = w
		if !slices.Contains(urls, w.url) {
			r.drop(w)
		}
	}
	for _, url := range urls {
		w := known[url]
		// Those that are there are asked once in a second.
		if w != nil && n%20 != 0 && r.missed[url] == 0 {
			continue
		}
		c, err := r.ask(ctx, url)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && w == nil:
			r.add(&worker{card: c, url: url, cached: map[uint64]struct{}{}})
		case err == nil && w.ID != c.ID: // another process at the same place
			r.drop(w)
			r.add(&worker{card: c, url: url, cached: map[uint64]struct{}{}})
		case err == nil:
			r.missed[url] = 0
		case w != nil:
			if r.missed[url]++; r.missed[url] >= silent {
				r.drop(w)
			}
		}
	}
}

func (r *registry) ask(ctx context.Context, url string) (c card, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/card", nil)
	if err != nil {
		return c, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("%s: %s", url, resp.Status)
	}
	err = json.NewDecoder(resp.Body).Decode(&c)
	return c, err
}

// add takes a worker in, once there are enough.
func (r *registry) add(w *worker) {
	r.early = append(r.early, w)
	if len(r.early) < r.least {
		r.missed[w.url] = 0
		return
	}
	early := r.early
	r.early, r.least = nil, 0
	for _, w := range early {
		r.admit(w)
	}
}

func (r *registry) admit(w *worker) {
	r.mu.Lock()
	r.workers = append(r.workers, w)
	slices.SortFunc(r.workers, func(a, b *worker) int { return strings.Compare(a.url, b.url) })
	r.missed[w.url] = 0
	r.mu.Unlock()
	r.joined(w)
}

func (r *registry) drop(w *worker) {
	if i := slices.Index(r.early, w); i >= 0 {
		r.early = slices.Delete(r.early, i, i+1)
		delete(r.missed, w.url)
		return
	}
	r.mu.Lock()
	r.workers = slices.DeleteFunc(r.workers, func(x *worker) bool { return x == w })
	delete(r.missed, w.url)
	r.mu.Unlock()
	r.left(w)
}

func (r *registry) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

// of returns the workers of a model in these modes.
func (r *registry) of(model string, modes ...string) []*worker {
	return slices.DeleteFunc(r.all(), func(w *worker) bool {
		return !slices.Contains(modes, w.Mode) || !slices.Contains(w.Models, model)
	})
}

// models returns the models that can be answered for, in the order of their workers.
func (r *registry) models() (names []string) {
	for _, w := range r.all() {
		for _, m := range w.Models {
			if w.Mode != prefill && !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}
