package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/netguard"
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

// candidates are the sources to try on a host, in order. asked is called for each
// request to the server itself; it may be nil.
func (c Config) candidates(h host.Host, asked func()) []*source {
	if asked == nil || !strings.HasPrefix(c.URL, "/") {
		asked = func() {} // an exporter is another server
	}
	switch c.Source {
	case NvidiaSMI:
		return []*source{smiCSV(h)}
	case NvidiaSMIXML:
		return []*source{smiXML(h)}
	case AMDSMI:
		return []*source{amdSMI(h)}
	case Exporter:
		return []*source{overHTTP(h, "exporter", "prom", c.address(h.URL()), asked, gpustate.ParseExporter)}
	case HTTP:
		return []*source{overHTTP(h, "wrapper", "txt", c.address(h.URL()), asked, gpustate.ParseWrapper)}
	}
	list := []*source{smiCSV(h), amdSMI(h)}
	if c.URL != "" || c.Port != 0 {
		list = append(list, overHTTP(h, "exporter", "prom", c.address(h.URL()), asked, gpustate.ParseExporter))
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
		if said := gpustate.Complaint(string(out)); !errors.Is(said, gpustate.ErrAnswer) {
			return nil, said
		}
	}
	return out, err
}

const smiFile = "nvidia-smi.csv"

func smiCSV(h host.Host) *source {
	level := 0
	s := &source{name: NvidiaSMI, file: smiFile, snapshot: smiXML(h)}
	s.ask = func(ctx context.Context) ([]byte, bool, error) {
		out, err := execute(ctx, h, "nvidia-smi", "--query-gpu="+strings.Join(gpustate.Questions[level], ","), "--format=csv,noheader,nounits")
		return out, false, err
	}
	s.parse = func(out []byte, whole bool) ([]gpustate.Reading, error) {
		return gpustate.ParseCSV(out, gpustate.Questions[level], whole)
	}
	s.header = func() string { return "t_us, " + strings.Join(gpustate.Questions[level], ", ") + "\n" }
	s.open = func(ctx context.Context) (list []gpustate.Reading, out []byte, err error) {
		// An older driver refuses the whole query for one field, in words that
		// have changed before; so any refusal is worth a smaller question.
		for level = range gpustate.Questions {
			list, out, err = s.look(ctx)
			// Who runs commands in a pod may start a moment after its engine.
			for errors.Is(err, syscall.ECONNREFUSED) && sleep(ctx, 250*time.Millisecond) {
				list, out, err = s.look(ctx)
			}
			if err == nil || final(ctx, err) {
				break
			}
		}
		return list, out, err
	}
	return s
}

// final says that another question would have the same answer.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, host.ErrNotSupported) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, gpustate.ErrNoGPU) || errors.Is(err, gpustate.ErrDriver)
}

func smiXML(h host.Host) *source {
	return &source{
		name: NvidiaSMI, file: "nvidia-smi.xml",
		ask: func(ctx context.Context) ([]byte, bool, error) {
			out, err := execute(ctx, h, "nvidia-smi", "-q", "-x")
			return out, false, err
		},
		parse: func(out []byte, _ bool) ([]gpustate.Reading, error) { return gpustate.ParseXML(out) },
	}
}

func amdSMI(h host.Host) *source {
	var uuids map[string]string
	identify := func(list []gpustate.Reading) []gpustate.Reading {
		for i := range list {
			list[i].UUID = uuids[list[i].Index]
		}
		return list
	}
	run := func(command string) func(context.Context) ([]byte, bool, error) {
		return func(ctx context.Context) ([]byte, bool, error) {
			out, err := execute(ctx, h, "amd-smi", command, "--json")
			return out, false, err
		}
	}
	s := &source{name: AMDSMI, file: "amd-smi.json", ask: run("metric")}
	s.parse = func(out []byte, _ bool) ([]gpustate.Reading, error) {
		list, err := gpustate.ParseAMD(out)
		return identify(list), err
	}
	s.open = func(ctx context.Context) ([]gpustate.Reading, []byte, error) {
		list, out, err := s.look(ctx)
		if err != nil {
			return nil, nil, err
		}
		// Without it GPUs have no name but their number.
		if named, _, err := run("list")(ctx); err == nil {
			uuids = gpustate.AMDUUIDs(named)
		}
		return identify(list), out, nil
	}
	s.snapshot = &source{
		name: AMDSMI, file: "amd-smi-process.json", ask: run("process"),
		parse: func(out []byte, _ bool) ([]gpustate.Reading, error) {
			var list []gpustate.Reading
			for index, pids := range gpustate.AMDProcesses(out) {
				r := gpustate.New()
				r.Index, r.PIDs, r.PIDsKnown = index, pids, true
				list = append(list, r)
			}
			if len(list) == 0 {
				return nil, gpustate.ErrAnswer
			}
			return identify(list), nil
		},
	}
	return s
}

const maxBody = 4 << 20 // bytes of one answer over HTTP

// overHTTP asks an exporter or a wrapper, by the network that the server sees.
// What a server's requests must carry is not sent: an exporter is somebody else.
func overHTTP(h host.Host, name, file, address string, asked func(), parse func([]byte, bool) ([]gpustate.Reading, error)) *source {
	dials := collectors.NewDials(h.Dial)
	client := netguard.Client(dials.Dial, 0)
	return &source{
		name: name, file: "gpu." + file, parse: parse,
		ask: func(ctx context.Context) ([]byte, bool, error) {
			asked()
			return fetch(ctx, client, address)
		},
		close: func() {
			dials.End()
			client.CloseIdleConnections()
		},
	}
}

func fetch(ctx context.Context, client *http.Client, address string) (body []byte, whole bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.8, */*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, false, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		return nil, false, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxBody:
		return nil, false, fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	case resp.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, exposition.Whole(resp), nil
}
