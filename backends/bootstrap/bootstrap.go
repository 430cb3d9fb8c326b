// Package bootstrap is what runs first in a rented container or on a rented
// host: one POSIX shell script that starts the engine, ends it when its time is
// over even if sweep is gone, and, if there is a python3, lets sweep talk to
// it: heartbeat, GPU readings, the engine's output.
//
// [Command] makes its command line, [Agent] is sweep's end of the connection.
//
// Four things end a pod, each without any of the others:
//
//	lifetime    counted on the pod by its machine's uptime; needs sh and sleep
//	heartbeat   no beat for too long; needs python3
//	[Agent.End] somebody says so; needs python3
//	SIGTERM     the container is stopped from outside
//
// The first three are for good: the pod asks its provider to delete it, and a
// container that is started again all the same does not start its engine. What
// happens is printed on stdout, on lines that begin with "sweep-bootstrap:".
//
// A container that its provider starts again remembers all that on its own disk.
// If that was wiped, the time until [Options.Expires] is left, and the heartbeat
// is watched from the beginning.
//
// The network to the agent may be read by others: requests and answers are signed
// with the token, which is never sent.
//
// The engine does not get the token or the provider's key in its environment.
// That keeps them out of dumps and logs; it is no wall between two processes of
// the same user, who can read what the first one was started with.
//
// A container whose engine has ended by itself ends with its status; one that
// was over ends with 124, on SIGTERM with 143, and with 0 when it was told to
// end.
package bootstrap

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/secret"
)

// Options say what a bootstrap starts and when it ends. Durations are rounded
// up to seconds.
type Options struct {
	// Name is unique to the pod: its state is in .sweep-<Name> of the pod's
	// TMPDIR, or of /tmp. "" derives one from the token and Expires.
	Name string
	// Argv is the engine's command line.
	Argv []string
	// Replicas are several engines, in place of Argv and Files. None is started
	// before [Agent.Start]. They need an agent, and python3 in the image.
	Replicas []Replica

	// Lifetime is how long the engine may run, from the container's first start,
	// by its machine's uptime.
	Lifetime time.Duration
	// Expires is when the pod has to be gone by the wall clock, which is asked
	// at a start only: what holds where the container's disk, and with it the
	// memory of the first start, was lost. Zero is never.
	Expires time.Time
	// Heartbeat is how long the pod lives without a beat; 0 needs none. It
	// needs an agent, and does not work where the image has no python3.
	Heartbeat time.Duration
	// Grace is how long the engine gets between SIGTERM and SIGKILL. Whoever
	// stops the container has to give it some seconds more.
	Grace time.Duration
	// Hold keeps the container alive when the engine has ended by itself, for a
	// provider that would start it again and again. Without it the container
	// ends with the engine's status.
	Hold bool

	// AgentPort is where the agent listens; 0 is no agent.
	AgentPort int
	// AgentHost is the address that it listens on; "" is 0.0.0.0.
	AgentHost string
	// Token is the key by which requests to the agent and its answers are signed.
	Token secret.String

	// Files are what the engine is configured with, by name: texts that are
	// written into FilesDir before the engine starts, readable by
	// its user alone, and removed when the pod ends. See [CheckFiles]. None, but
	// not nil, makes the folder for others to write into.
	Files map[string][]byte
	// FilesDir is where they are; "" is [FilesDir] of the Name. The folder above it
	// exists.
	FilesDir string

	// LogPath is a file on the pod that the engine's output goes to, besides
	// stdout; its folder exists. "" is a file of the bootstrap's own if
	// there is an agent. It is emptied when it grows beyond 256 MiB.
	LogPath string
	// GiveBack is how the pod asks its provider for its own end: one request, and
	// another one for where it is refused that (HTTP 401 or 403). None does not.
	GiveBack []Request
}

// A Request is one call of a provider's API, made by the pod. In URL and Header
// ${NAME} is a variable of the pod's environment.
type Request struct {
	Method string
	URL    string
	// Header is one line, "Authorization: Bearer ${KEY}". The engine does not get the
	// variables that it names.
	Header string
	Body   string // JSON; "" is none
	Done   []int  // the statuses that say that it was done, now or before
	Did    string // what the pod is then, for a person: "deleted"
}

// A Replica is one of several engines of a pod.
type Replica struct {
	Name string            `json:"name"` // for people
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"` // beside the pod's, and over it
	// Files are as [Options].Files, in a folder below [Options].FilesDir; "" is none.
	Files map[string]string `json:"files,omitempty"`
	Dir   string            `json:"dir,omitempty"`
}

// ReplicasVar has [Options.Replicas] as JSON in the environment of the bootstrap.
const ReplicasVar = "SWEEP_REPLICAS"

// NameVar has [Options.Name] in the environment of the bootstrap's own shell, and
// of nothing that it starts.
const NameVar = "SWEEP_NAME"

//go:embed bootstrap.sh
var source string

// script is the source without its comments, which would only be sent.
var script = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(source, "")

//go:embed agent.py
var agentTemplate string

//go:embed replicas.py
var replicasSource string

// agentSource returns the agent with the tools that it may run.
func agentSource() string {
	reads, samples := map[string]string{}, []string{}
	for _, t := range gpustate.Tools() {
		reads[t.Name] = t.Args
		if t.Stream != nil {
			samples = append([]string{t.Name}, t.Stream...)
		}
	}
	return strings.NewReplacer("TOOLS = {}", "TOOLS = "+literal(reads), "SAMPLES = []", "SAMPLES = "+literal(samples)).Replace(agentTemplate)
}

// literal returns texts as JSON, which Python reads as its own.
func literal(texts any) string {
	b, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts alone are always JSON
	}
	return string(b)
}

// Command returns the command line of a container, or of a process on a host, and
// what has to be in its environment besides the engine's own: /bin/sh, -c, the
// script, its name and the engine's argv. There is no secret in argv; the token
// is in env, from where the script takes it before it starts the engine, as it
// does with the provider's key. Options that Validate refuses make a script that
// starts nothing.
//
// Both together are less than 40 kB as JSON, without the engine's part and Files:
// RunPod takes 102,400 bytes.
func Command(o Options) (argv []string, env map[string]string) {
	engine := o.Argv
	if len(o.Replicas) > 0 {
		engine = []string{"python3", "-IS", "-c", replicasSource}
	}
	argv = append([]string{"/bin/sh", "-c", script, "sweep-bootstrap"}, engine...)
	env = map[string]string{
		NameVar:          o.name(),
		"SWEEP_LIFETIME": seconds(o.Lifetime),
		"SWEEP_GRACE":    seconds(o.Grace),
	}
	if len(o.Replicas) > 0 {
		env[ReplicasVar] = literal(o.Replicas)
	}
	if !o.Expires.IsZero() {
		env["SWEEP_EXPIRES"] = strconv.FormatInt(o.Expires.Unix(), 10)
	}
	if o.Hold {
		env["SWEEP_HOLD"] = "1"
	}
	if o.LogPath != "" {
		env["SWEEP_LOG"] = o.LogPath
	}
	secrets := map[string]bool{}
	for n, r := range o.GiveBack {
		env["SWEEP_END_"+strconv.Itoa(n)] = r.lines()
		for _, m := range variable.FindAllStringSubmatch(r.Header, -1) {
			secrets[m[1]] = true
		}
	}
	if len(secrets) > 0 {
		env["SWEEP_END_SECRETS"] = strings.Join(slices.Sorted(maps.Keys(secrets)), " ")
	}
	if o.Files != nil {
		env["SWEEP_FILES"] = cmp.Or(o.FilesDir, FilesDir(o.name()))
		for n, name := range slices.Sorted(maps.Keys(o.Files)) {
			of := "SWEEP_FILE_" + strconv.Itoa(n)
			env[of+"_NAME"], env[of+"_TEXT"] = name, string(o.Files[name])
		}
	}
	if o.AgentPort != 0 {
		env["SWEEP_AGENT_PORT"] = strconv.Itoa(o.AgentPort)
		env["SWEEP_AGENT_PY"] = agentSource()
		env["SWEEP_TOKEN"] = o.Token.Reveal()
		env["SWEEP_HEARTBEAT"] = seconds(o.Heartbeat)
		if o.AgentHost != "" {
			env["SWEEP_AGENT_HOST"] = o.AgentHost
		}
	}
	return argv, env
}

// lines returns a request as the script has it.
func (r Request) lines() string {
	done := strings.Trim(fmt.Sprint(r.Done), "[]")
	return strings.Join([]string{r.Method, r.URL, r.Header, r.Body, done, r.Did}, "\n")
}

// seconds rounds up, for a duration that is cut short would be another promise.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func (o Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", o.Token.Reveal(), o.Expires.Unix()))
	return hex.EncodeToString(sum[:8])
}

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)
	tokenPattern = regexp.MustCompile(`^[\x21-\x7e]{16,512}$`)

	variable      = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	methodPattern = regexp.MustCompile(`^[A-Z]{1,10}$`)
	headerPattern = regexp.MustCompile(`^[A-Za-z-]+: [\x21-\x7e ]+$`)
)

// maxLifetime is what the script's arithmetic is sure to hold, and far beyond
// what a benchmark rents.
const maxLifetime = 365 * 24 * time.Hour

// Validate says what is wrong with the options, all of it.
func (o Options) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("bootstrap: "+format, args...))
		}
	}
	refuse(!namePattern.MatchString(o.name()), "%q is no name for a pod's state", o.Name)
	refuse(len(o.Replicas) == 0 && (len(o.Argv) == 0 || o.Argv[0] == ""), "no command to start")
	refuse(len(o.Replicas) > 0 && o.AgentPort == 0, "several servers without an agent that starts them")
	files := maps.Clone(o.Files)
	for n, r := range o.Replicas {
		refuse(len(r.Argv) == 0 || r.Argv[0] == "", "no command to start %s", r.Name)
		refuse(strings.Contains(strings.Join(r.Argv, ""), "\x00"), "an argument of %s holds a NUL", r.Name)
		for name, text := range r.Files {
			if files == nil {
				files = map[string][]byte{}
			}
			files[strconv.Itoa(n)+"-"+name] = []byte(text)
		}
	}
	refuse(strings.Contains(strings.Join(o.Argv, ""), "\x00"), "an argument holds a NUL")
	refuse(o.Lifetime <= 0 || o.Lifetime > maxLifetime, "lifetime %v is not between 0 and %v", o.Lifetime, maxLifetime)
	refuse(!o.Expires.IsZero() && o.Expires.Unix() <= 0, "expires at %v", o.Expires)
	refuse(o.Heartbeat < 0 || o.Heartbeat > maxLifetime, "heartbeat %v is not between 0 and %v", o.Heartbeat, maxLifetime)
	refuse(o.Grace < 0 || o.Grace > maxLifetime, "grace %v is not between 0 and %v", o.Grace, maxLifetime)
	refuse(o.AgentPort < 0 || o.AgentPort > 65535, "agent port %d", o.AgentPort)
	refuse(o.Heartbeat > 0 && o.AgentPort == 0, "a heartbeat without an agent")
	refuse(o.AgentPort != 0 && !tokenPattern.MatchString(o.Token.Reveal()), "the agent's token is not 16 to 512 printable characters")
	refuse(o.LogPath != "" && (!path.IsAbs(o.LogPath) || strings.ContainsAny(o.LogPath, "\x00\n")), "log path %q is not absolute", o.LogPath)
	refuse(o.FilesDir != "" && (!path.IsAbs(o.FilesDir) || strings.ContainsAny(o.FilesDir, "\x00\n")), "folder of files %q is not absolute", o.FilesDir)
	if err := CheckFiles(files); err != nil { // all together
		errs = append(errs, err)
	}
	refuse(len(o.GiveBack) > 2, "%d requests for the pod's end", len(o.GiveBack))
	for _, r := range o.GiveBack {
		errs = append(errs, r.validate())
	}
	return errors.Join(errs...)
}

func (r Request) validate() error {
	u, err := url.Parse(variable.ReplaceAllString(r.URL, "x"))
	plain := variable.ReplaceAllString(r.Header, "x")
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(u.Path, "${}\"\\ "):
		return fmt.Errorf("bootstrap: %q is no URL of an API", r.URL)
	case !methodPattern.MatchString(r.Method):
		return fmt.Errorf("bootstrap: %q is no method", r.Method)
	case !headerPattern.MatchString(plain) || strings.ContainsAny(plain, `${}"\`):
		return errors.New("bootstrap: the header is not one line of a name and a value")
	case len(r.Done) == 0 || r.Did == "" || strings.ContainsAny(r.Body+r.Did, "\x00\n"):
		return errors.New("bootstrap: it is not said what the pod's request does, or when it has")
	}
	return nil
}
