package runpodtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
)

// Options are what an emulator is made with. The zero value is a healthy
// service with plenty of everything, on a free port.
type Options struct {
	Addr string // to listen on; "" is a free port of 127.0.0.1
	Key  string // the account's; "" makes one
	Seed uint64 // of ids, places and the dice of faults
	Dir  string // for the pods' folders; "" makes one, which Close removes

	// Now is the clock of timestamps and of the meter; nil is the machine's.
	// Delays are always of real time.
	Now func() time.Time
	// BillRate are billed seconds for each second of the clock; 0 is 1.
	BillRate float64

	// Sweep is the command line of sweep itself, which plays vLLM; empty is
	// this executable. SimArgs are further arguments of its sim command.
	Sweep   []string
	SimArgs []string
	// Images are looked through before [DefaultImages].
	Images []podtest.Image
	// Secrets are what {{ RUNPOD_SECRET_name }} in a pod's env stands for.
	Secrets map[string]string

	// Stock is how many GPUs there are, by id, or by id and cloud as in
	// "NVIDIA L4/COMMUNITY". What is not named has plenty.
	Stock     map[string]int
	PerMinute int // requests of the account; 0 is no limit

	Provision    time.Duration // from the create to RUNNING
	Pull         time.Duration // from RUNNING to the container's start
	RestartDelay time.Duration // from the end of a container to its next start; 0 is 500 ms
	Grace        time.Duration // from SIGTERM to SIGKILL; 0 is 1 s
	RetryAfter   time.Duration // of the fault 429, in whole seconds; 0 is 1 s

	ProxyLatency time.Duration // that the HTTP proxy adds to each request
	ProxyIdle    time.Duration // without a byte until it gives up; 0 is 100 s

	// Faults are there from the beginning; see [ParseFault].
	Faults []string
	// Intent is asked on every create whether the intent for a pod of this
	// name is durable. Its errors stand in the audit. See [DurableIntent].
	Intent func(name string) error
	// OnEvent is called for every request when it is answered, from the
	// goroutine that answers.
	OnEvent func(Event)
}

// An Emulator is a running emulator. Methods may be called concurrently.
type Emulator struct {
	opts    Options
	images  []podtest.Image
	dir     string
	ownDir  bool
	base    string
	proxied string

	ctx     context.Context // of all that it does by itself
	cancel  context.CancelFunc
	closing chan struct{}
	servers []*http.Server
	work    sync.WaitGroup // servers, requests, pods

	mu       sync.Mutex // guards what follows
	closed   bool
	rand     *rand.Rand
	faults   []*Fault
	fired    map[string]int
	pods     []*pod // those that are gone too
	events   []*Event
	noIntent []string
	window   time.Time // the minute that is counted
	used     int       // requests in it
}

// New starts an emulator.
func New(o Options) (_ *Emulator, err error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BillRate == 0 {
		o.BillRate = 1
	}
	for d, byDefault := range map[*time.Duration]time.Duration{
		&o.RestartDelay: 500 * time.Millisecond, &o.Grace: time.Second,
		&o.RetryAfter: time.Second, &o.ProxyIdle: 100 * time.Second,
	} {
		if *d == 0 {
			*d = byDefault
		}
	}
	if len(o.Sweep) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.Sweep = []string{self}
	}
	for id := range o.Stock {
		gpu, _, _ := strings.Cut(id, "/")
		if _, ok := gpuByID(gpu); !ok {
			return nil, fmt.Errorf("no GPU has the id %q", gpu)
		}
	}
	e := &Emulator{
		opts: o, dir: o.Dir, closing: make(chan struct{}),
		images: slices.Concat(o.Images, DefaultImages(o.Sweep, o.SimArgs)),
		rand:   rand.New(rand.NewPCG(o.Seed, 0x52756e506f64)), fired: map[string]int{},
	}
	for _, s := range o.Faults {
		f, err := ParseFault(s)
		if err != nil {
			return nil, err
		}
		e.arm(f)
	}
	if e.opts.Key == "" {
		e.opts.Key = "rpa_" + e.letters(40)
	}
	if e.dir == "" {
		if e.dir, err = os.MkdirTemp("", "runpodtest-"); err != nil {
			return nil, err
		}
		e.ownDir = true
	} else if e.dir, err = filepath.Abs(e.dir); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if e.base, err = e.serve(o.Addr, e); err == nil {
		e.proxied, err = e.serve("127.0.0.1:0", http.HandlerFunc(e.proxy))
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Emulator) serve(addr string, h http.Handler) (base string, err error) {
	l, err := (&net.ListenConfig{}).Listen(e.ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	e.servers = append(e.servers, s)
	e.work.Go(func() { _ = s.Serve(l) }) // until Close
	return "http://" + l.Addr().String(), nil
}

// Close ends every pod and waits until nothing of them and of the emulator is
// left. The audit can still be read.
func (e *Emulator) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.closing)
	e.mu.Unlock()
	e.cancel()
	var errs []error
	for _, s := range e.servers {
		errs = append(errs, s.Close())
	}
	e.work.Wait()
	if e.ownDir {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// begin counts something that Close has to wait for; false is too late.
// e.mu is held.
func (e *Emulator) begin(f func()) bool {
	if e.closed {
		return false
	}
	e.work.Go(f)
	return true
}

// URL returns the base of the API, without /v2: what RUNPOD_API_BASE_URL is set to.
func (e *Emulator) URL() string { return e.base }

// Key returns the account's key.
func (e *Emulator) Key() string { return e.opts.Key }

// ProxyURL returns the template of the addresses of pods' http ports:
// http://127.0.0.1:PORT/{pod}-{port}. A host name that begins with
// {pod}-{port}. works too.
func (e *Emulator) ProxyURL() string { return e.proxied + "/{pod}-{port}" }

func (e *Emulator) now() time.Time { return e.opts.Now() }

// letters returns n random letters and digits. e.mu is held, or e is not shared yet.
func (e *Emulator) letters(n int) string {
	const of = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = of[e.rand.IntN(len(of))]
	}
	return string(b)
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// DefaultImages returns those of vLLM, SGLang and TensorRT-LLM, played by sweep's
// simulated engine, and runpod's own images, which do nothing.
func DefaultImages(sweep, simArgs []string) []podtest.Image {
	serve := func(engine string) string {
		return `if [ {gpus} = 0 ]; then
	echo 'RuntimeError: No CUDA GPUs are available' >&2
	exit 1
fi
exec ` + podtest.Quote(slices.Concat(sweep, []string{"sim", "--engine=" + engine, "--gpu"})...) + ` {gpu} "$@" ` + podtest.Quote(simArgs...) + "\n"
	}
	// SGLang is a module of the python3 that the pod's agent runs on.
	const module = `if [ "$1 $2" != "-m sglang.launch_server" ]; then
	exec "$(PATH=${PATH#*:}; command -v python3)" "$@"
fi
shift 2
`
	return []podtest.Image{
		{
			Pattern: "vllm/vllm-openai*", Entrypoint: []string{"vllm", "serve"},
			Programs: map[string]string{"vllm": `[ "$1" = serve ] && shift` + "\n" + serve("vllm")},
		},
		{Pattern: "lmsysorg/sglang*", Programs: map[string]string{"python3": module + serve("sglang")}},
		{Pattern: "nvcr.io/nvidia/tensorrt-llm/release*", Programs: map[string]string{"trtllm-serve": `[ "$1" = serve ] && shift` + "\n" + serve("trtllm")}},
		{Pattern: "runpod/*", Cmd: []string{"tail", "-f", "/dev/null"}},
	}
}

// image returns what a reference runs; false if no registry has it.
func (e *Emulator) image(ref string) (podtest.Image, bool) {
	i, ok := podtest.Find(e.images, ref)
	if !ok {
		return i, false
	}
	programs := map[string]string{"nvidia-smi": smiProgram}
	maps.Copy(programs, i.Programs)
	i.Programs = programs
	return i, true
}

var secretPattern = regexp.MustCompile(`\{\{ *RUNPOD_SECRET_(\w+) *\}\}`)

// start starts a pod's container.
func (e *Emulator) start(ctx context.Context, p *pod, image podtest.Image) (*podtest.Container, error) {
	e.mu.Lock()
	s := podtest.Spec{
		Dir: filepath.Join(e.dir, p.id), Image: image, Args: p.args, Ports: maps.Clone(p.hostPorts), Grace: e.opts.Grace,
		Words: map[string]string{
			"gpu": p.gpu.catalogName(), "gpus": strconv.Itoa(p.count), "pod": p.id,
			"smi": e.base + smiPath + p.id,
		},
		Line: func(line string) { p.log.add("container", "%s", line) },
		Env: map[string]string{
			"RUNPOD_POD_ID": p.id, "RUNPOD_DC_ID": p.place, "RUNPOD_POD_HOSTNAME": p.host(),
			"RUNPOD_GPU_COUNT": strconv.Itoa(p.count), "RUNPOD_CPU_COUNT": "8", "RUNPOD_PUBLIC_IP": "127.0.0.1",
			"RUNPOD_API_KEY": p.key, "CUDA_VERSION": p.cuda,
			"SWEEP_AGENT_HOST": "127.0.0.1", // else it would listen on every address of this machine
		},
	}
	for _, n := range privatePorts(p.ports, "tcp") {
		s.Env["RUNPOD_TCP_PORT_"+strconv.Itoa(n)] = strconv.Itoa(p.shown[n])
	}
	for name, value := range p.env {
		s.Env[name] = secretPattern.ReplaceAllStringFunc(value, func(ref string) string {
			return e.opts.Secrets[secretPattern.FindStringSubmatch(ref)[1]]
		})
	}
	e.mu.Unlock()
	return podtest.Start(ctx, s)
}
