package gpu

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
)

// A source is one way to look at the GPUs of one host. It is not safe for
// concurrent use.
type source struct {
	name string // for people
	file string // end of the name of what is kept of its answers
	// open settles how it asks, and is the first look; may be nil.
	open func(ctx context.Context) (list []gpustate.Reading, out []byte, err error)
	// ask asks once; whole says that the answer's end was not lost.
	ask   func(ctx context.Context) (out []byte, whole bool, err error)
	parse func(out []byte, whole bool) ([]gpustate.Reading, error)
	// header begins the file of its answers; may be nil.
	header func() string
	// snapshot also lists the processes, and costs more; may be nil.
	snapshot *source
	close    func() // may be nil
}

// look asks and reads.
func (s *source) look(ctx context.Context) (list []gpustate.Reading, out []byte, err error) {
	out, whole, err := s.ask(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err = s.parse(out, whole)
	return list, out, err
}

// A way is one value of [Config.Source].
type way struct {
	name     string
	auto     bool // auto tries it, if it has the address that it needs
	overHTTP bool // it needs an address
	source   func(c Config, h host.Host, asked func()) *source
}

// ways returns all sources, in the order in which auto tries them. A new one is an entry
// here, with its function in a file of its own.
func ways() []way {
	return []way{
		{name: NvidiaSMI, auto: true, source: onHost(smiCSV)},
		{name: NvidiaSMIXML, source: onHost(smiXML)},
		{name: AMDSMI, auto: true, source: onHost(amdSMI)},
		{name: Exporter, auto: true, overHTTP: true, source: exporter},
		{name: HTTP, overHTTP: true, source: wrapper},
	}
}

func onHost(of func(host.Host) *source) func(Config, host.Host, func()) *source {
	return func(_ Config, h host.Host, _ func()) *source { return of(h) }
}

// wayNamed returns the way of a source; not ok for auto, and for one that does not exist.
func wayNamed(name string) (w way, ok bool) {
	list := ways()
	i := slices.IndexFunc(list, func(w way) bool { return w.name == name })
	if i < 0 {
		return way{}, false
	}
	return list[i], true
}

// candidates returns the sources to try on a host, in order. asked is called for each
// request to the server itself; it may be nil.
func (c Config) candidates(h host.Host, asked func()) []*source {
	if asked == nil || !strings.HasPrefix(c.URL, "/") {
		asked = func() {} // an exporter is another server
	}
	if w, ok := wayNamed(c.Source); ok {
		return []*source{w.source(c, h, asked)}
	}
	var list []*source
	for _, w := range ways() {
		if w.auto && (!w.overHTTP || c.URL != "" || c.Port != 0) {
			list = append(list, w.source(c, h, asked))
		}
	}
	return list
}

// execute runs a command beside the server. Where it fails for a reason of the
// driver, that stands on stdout, beside an exit status that says nothing.
func execute(ctx context.Context, h host.Host, argv ...string) ([]byte, error) {
	out, err := h.Exec(ctx, argv...)
	if err != nil && context.Cause(ctx) != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, host.ErrNotSupported) {
		if gpustate.LostGPU(string(out)) {
			return out, nil // the exit status says no more than the answer
		}
		if said := gpustate.Complaint(string(out)); !errors.Is(said, gpustate.ErrAnswer) {
			return nil, said
		}
	}
	return out, err
}
