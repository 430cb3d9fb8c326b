package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"sweep.dev/sweep/internal/netguard"
)

// options is the command line of a role. What it does not know is the engine's.
type options struct {
	engine, role, inner string
	host                string
	port, systemPort    int
	metricsPort         int // of llm-d's sidecar; 0: it shows none
	discovery           string
	workers             []string // URLs
	prefillers          []string // URLs
	router              string
	epp                 string // URL
	publish             bool   // the engine's metrics too
	release             string // of Dynamo
	least               int    // workers before the first counts
	picker              string // of llm-d's endpoint picker, one of pickers
	verbose             int    // level of the log of llm-d's sidecar and picker
	rest                []string
}

// Usage is the text of --help about roles.
const Usage = `
Roles of an engine in several processes, as --engine dynamo|llm-d --role ROLE:
  dynamo  frontend         --host --port, --worker-urls URLS or
                           --discovery DIR, --router-mode round-robin|kv,
                           --min-initial-workers N before the first is known
          worker           the engine --inner vllm with its flags;
                           --system-port PORT, --discovery DIR
          prefill, decode  the same, for one phase each
          all              --dynamo-version 1.6.1 (the default) or 2026-01,
                           which has older names
  llm-d   prefill, decode  the engine --inner vllm with its flags
          sidecar          --host --port, --worker-urls URL of the decode
                           server behind it; --metrics-port PORT for its own
                           metrics
          epp              --host --port (metrics too), --worker-urls of
                           sidecars, --prefill-urls of prefill servers, each
                           with the name of its pod after #;
                           --picker max-score, or every-pair and same-pair: all
                           pairs of servers in turn, or the first of each kind
                           together, the second of each, ...
          sidecar, epp     --zap-log-level 4 logs each request (also -v)
          gateway          --host --port, --epp-url URL
`

// engineRoles are the roles in which an engine computes.
var engineRoles = map[string][]string{
	"dynamo": {"worker", "prefill", "decode"},
	"llm-d":  {"prefill", "decode"},
}

// otherRoles are the rest.
var otherRoles = map[string][]string{
	"dynamo": {"frontend"},
	"llm-d":  {"sidecar", "epp", "gateway"},
}

// Roles returns the roles of an engine of several processes; nil for another one.
func Roles(engine string) []string { return slices.Concat(engineRoles[engine], otherRoles[engine]) }

// Computes reports whether an engine runs in a role: what the plan says of the
// engine is for those.
func Computes(engine, role string) bool { return slices.Contains(engineRoles[engine], role) }

// The releases of Dynamo that are spoken: the names of its series and the keys of
// its events changed in 2026.
const (
	newest = "1.6.1"
	older  = "2026-01"
)

// RouterModes are how Dynamo's frontend may choose a worker.
var RouterModes = []string{"round-robin", "kv"}

// How the endpoint picker of llm-d chooses: as the real one does, or so that it is known
// beforehand between which servers KV caches move.
const (
	maxScore  = "max-score"
	everyPair = "every-pair"
	samePair  = "same-pair"
)

func pickers() []string { return []string{maxScore, everyPair, samePair} }

func parseOptions(args []string) (*options, error) {
	o := &options{host: "127.0.0.1", port: 8000, inner: "vllm", router: "round-robin", release: newest, picker: maxScore}
	list := func(to *[]string) func(string) error {
		return func(v string) error {
			for item := range strings.SplitSeq(v, ",") {
				u, err := url.Parse(item)
				if err != nil || u.Scheme != "http" || u.Host == "" {
					return fmt.Errorf("%q is no http URL", item)
				}
				*to = append(*to, strings.TrimSuffix(item, "/"))
			}
			return nil
		}
	}
	number := func(to *int) func(string) error {
		return func(v string) (err error) {
			if *to, err = strconv.Atoi(v); err != nil || *to < 0 || *to > 65535 {
				return fmt.Errorf("%q is no port number", v)
			}
			return nil
		}
	}
	level := func(v string) (err error) {
		if o.verbose, err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("%q is no level", v)
		}
		return nil
	}
	text := func(to *string) func(string) error { return func(v string) error { *to = v; return nil } }
	var epp []string
	flags := map[string]func(string) error{
		"engine": text(&o.engine), "role": text(&o.role), "inner": text(&o.inner), "host": text(&o.host),
		"port": number(&o.port), "system-port": number(&o.systemPort), "min-initial-workers": number(&o.least), "discovery": text(&o.discovery),
		"worker-urls": list(&o.workers), "prefill-urls": list(&o.prefillers), "epp-url": list(&epp),
		"router-mode": text(&o.router), "dynamo-version": text(&o.release),
		"v": level, "zap-log-level": level, "picker": text(&o.picker),
	}
	if slices.Contains(args, "sidecar") || slices.Contains(args, "--role=sidecar") { // others have one of the same name
		flags["metrics-port"] = number(&o.metricsPort)
	}
	var both []string // flags of ours that the engine inside has too
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		set := flags[name]
		if name == "publish-events-and-metrics" { // of dynamo.trtllm
			o.publish = true
			continue
		}
		if set == nil || !strings.HasPrefix(arg, "-") {
			o.rest = append(o.rest, arg)
			continue
		}
		if !has {
			if len(args) == 0 {
				return nil, fmt.Errorf("argument --%s: expected one argument", name)
			}
			value, args = args[0], args[1:]
		}
		if err := set(value); err != nil {
			return nil, fmt.Errorf("argument --%s: %w", name, err)
		}
		if name == "host" || name == "port" {
			both = append(both, "--"+name+"="+value)
		}
	}
	if len(epp) > 0 {
		o.epp = epp[0]
	}
	switch {
	case Roles(o.engine) == nil:
		return nil, fmt.Errorf("argument --engine: %q has no roles (choose from dynamo, llm-d)", o.engine)
	case !slices.Contains(Roles(o.engine), o.role):
		return nil, fmt.Errorf("argument --role: invalid choice: %q (choose from %s)", o.role, strings.Join(Roles(o.engine), ", "))
	case !slices.Contains(RouterModes, o.router):
		return nil, fmt.Errorf("argument --router-mode: invalid choice: %q (choose from %s)", o.router, strings.Join(RouterModes, ", "))
	case !slices.Contains(pickers(), o.picker):
		return nil, fmt.Errorf("argument --picker: invalid choice: %q (choose from %s)", o.picker, strings.Join(pickers(), ", "))
	case o.release != newest && o.release != older:
		return nil, fmt.Errorf("argument --dynamo-version: invalid choice: %q (choose from %s, %s)", o.release, newest, older)
	case Computes(o.engine, o.role):
		o.rest = slices.Concat([]string{"--engine=" + o.inner}, both, o.rest)
	case len(o.rest) > 0:
		return nil, fmt.Errorf("unrecognized arguments: %s", strings.Join(o.rest, " "))
	}
	return o, nil
}

// Main runs one role until ctx is done and returns its exit status. single runs
// the engine of a role that computes.
func Main(ctx context.Context, args []string, single Single, stdout, stderr io.Writer) int {
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		fmt.Fprint(stdout, Usage[1:])
		return 0
	}
	o, err := parseOptions(args)
	if err != nil {
		fmt.Fprintf(stderr, "sweep sim: error: %v\n", err)
		return 2
	}
	if Computes(o.engine, o.role) {
		if o.engine == "dynamo" {
			return runWorker(ctx, *o, single, stderr)
		}
		return single(ctx, o.rest, nil)
	}
	out := newLog(stderr)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("cannot bind: Address already in use (os error 98): %w", err)
		}
		out.Print(err)
		return 1
	}
	out.Printf("%s of %s listening on http://%s", o.role, o.engine, l.Addr())
	run := map[string]func(context.Context, options, net.Listener, *log.Logger) error{
		"frontend": runFrontend, "sidecar": runSidecar, "epp": runPicker, "gateway": runGateway,
	}[o.role]
	if err := run(ctx, *o, l, out); err != nil {
		out.Print(err)
		return 1
	}
	return 0
}

// newLog returns the log of a role. What sweep reads of it has Dynamo's words: that a
// model or a worker has come, and which worker was chosen.
func newLog(w io.Writer) *log.Logger {
	return log.New(w, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
}

// newID names a process. It never has the highest bit, so that it prints the
// same in every language.
func newID() uint64 { return rand.Uint64()>>1 | 1<<32 }

// newClient is for requests to other roles: as many connections as there are
// requests, and none kept when it is closed.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true},
		CheckRedirect: netguard.NoRedirect,
	}
}
