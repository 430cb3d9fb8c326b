package serverlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/lines"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A Routing is routing.json of an attempt: which worker a router chose for each
// phase of each request, as its log says. The warm-up's requests are among them.
type Routing struct {
	Workers []RoutedWorker `json:"workers"` // by phase, and by requests from most to least
	// Requests are the worker of each phase by the id that we sent a request with, where the
	// logs have it, else by the router's own (what a chat completion has after "chatcmpl-").
	Requests map[string]map[string]string `json:"requests"`
	// Unprinted are the kinds of lines that would tell more, and that the servers did not
	// print.
	Unprinted []loglines.Unprinted `json:"not_printed,omitempty"`
}

// A RoutedWorker is how many requests of one phase went to one worker.
type RoutedWorker struct {
	Phase    string `json:"phase"` // prefill, decode, or the router's own word
	Worker   string `json:"worker"`
	Requests int    `json:"requests"`
}

// readRouting reads a router's log, of which choice matches the lines that report
// one: see [engine.Metrics.Routed]. It is nil if the log reports no choice.
func readRouting(r io.Reader, choice *regexp.Regexp) (*Routing, error) {
	request, worker, phase := choice.SubexpIndex("request"), choice.SubexpIndex("worker"), choice.SubexpIndex("phase")
	out := &Routing{Requests: make(map[string]map[string]string)}
	in := lines.NewReader(r, lines.Max)
	for line, ok := in.Next(); ok; line, ok = in.Next() {
		if m := choice.FindSubmatch(lines.Uncoloured(line)); m != nil {
			id := string(m[request])
			if out.Requests[id] == nil {
				out.Requests[id] = make(map[string]string)
			}
			out.Requests[id][string(m[phase])] = string(m[worker]) // of one that was tried again, the last
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	out.count()
	if len(out.Workers) == 0 {
		return nil, nil //nolint:nilnil // no choice is no error
	}
	return out, nil
}

// count counts the requests by worker.
func (r *Routing) count() {
	counts := make(map[RoutedWorker]int)
	for _, phases := range r.Requests {
		for phase, worker := range phases {
			counts[RoutedWorker{Phase: phase, Worker: worker}]++
		}
	}
	for w, n := range counts {
		w.Requests = n
		r.Workers = append(r.Workers, w)
	}
	slices.SortFunc(r.Workers, func(a, b RoutedWorker) int {
		return cmp.Or(cmp.Compare(phaseRank(a.Phase), phaseRank(b.Phase)), cmp.Compare(a.Phase, b.Phase), b.Requests-a.Requests, cmp.Compare(a.Worker, b.Worker))
	})
}

// phaseRank puts the phases of a request in their order.
func phaseRank(phase string) int {
	all := []string{"prefill", "decode", pickedPrefix + "prefill", pickedPrefix + "decode"}
	if i := slices.Index(all, phase); i >= 0 {
		return i
	}
	return len(all)
}

// String returns one line: prefill 26 (26); decode 26 (14 + 12).
func (r *Routing) String() string {
	var phases []string
	shares := make(map[string][]string)
	total := make(map[string]int)
	for _, w := range r.Workers {
		if _, ok := shares[w.Phase]; !ok {
			phases = append(phases, w.Phase)
		}
		shares[w.Phase] = append(shares[w.Phase], fmt.Sprint(w.Requests))
		total[w.Phase] += w.Requests
	}
	for i, p := range phases {
		phases[i] = fmt.Sprintf("%s %d (%s)", p, total[p], strings.Join(shares[p], " + "))
	}
	return strings.Join(phases, "; ")
}

// Routing counts the requests by worker, since the mark: from what all logs say about the
// requests whose ids are prefix-sSHARD-nN, or else from the entry role's log. Both are nil
// if there is one role, or the logs do not say.
func (l *Logs) Routing(prefix string) (*Routing, *Ways, error) {
	if len(l.server.Roles) < 2 {
		return nil, nil, nil // one role: there is no choice
	}
	ways, err := l.Ways(prefix)
	switch {
	case err != nil:
		return nil, nil, err
	case ways != nil && (len(ways.Of) > 0 || l.Found()):
		return ways.routing(), ways, nil
	}
	r, err := l.chosen()
	return r, nil, err
}

// chosen reads the entry role's log.
func (l *Logs) chosen() (*Routing, error) {
	entry := l.profile.EntryRole()
	routed := l.profile.MetricsOf(entry).Routed
	if routed == "" {
		return nil, nil //nolint:nilnil // it does not tell
	}
	choice, err := regexp.Compile(routed)
	if err != nil {
		return nil, err
	}
	for _, role := range l.server.Roles {
		if role.Name != entry || role.LogPath == nil {
			continue
		}
		path := role.LogPath(0)
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil //nolint:nilnil // a server without a log
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := f.Seek(l.from[path], io.SeekStart); err != nil {
			return nil, err
		}
		return readRouting(f, choice)
	}
	return nil, nil //nolint:nilnil // an entry that is not ours
}

// Idle finds the workers of a phase, which is a role's name, that got no request.
func (r *Routing) Idle(roles []backends.Role) []result.Finding {
	served := make(map[string]map[string]bool)
	for _, w := range r.Workers {
		if served[w.Phase] == nil {
			served[w.Phase] = make(map[string]bool)
		}
		served[w.Phase][w.Worker] = true
	}
	var left []string
	for _, role := range roles {
		n := len(served[role.Name])
		if n == 0 {
			n = len(served[pickedPrefix+role.Name])
		}
		if n > 0 && n < role.Replicas {
			left = append(left, fmt.Sprintf("%d of the %d workers of %s got no request", role.Replicas-n, role.Replicas, role.Name))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return []result.Finding{{Code: finding.WorkerIdle, Text: strings.Join(left, ", ") + ": " + r.String()}}
}

// Write writes routing.json.
func (r *Routing) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
